"""Compressed collectives for FSDP2 (torch.distributed.fsdp.fully_shard).

Each FSDP module gets its own objects, because each has its own residuals; all share one communicator for each process
group, made at the first collective over it (all ranks come to that in the same order).

* reduce-scatter of gradients: with error feedback, in units of the sum; the residual has the size of the whole gradient;
* all-gather of parameters: without a residual. The shards themselves, which the optimizer changes, stay exact; every
  rank, the owner too, computes with the same decoded values;
* all-reduce over replicas, for hybrid sharding: of the shard that the reduce-scatter has left, with error feedback.
"""

import dataclasses
import time
import weakref
import zlib

import numpy
import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator, Residual, Work
from ferrule.torch._group import communicator_of
from ferrule.torch._rules import EXACT, is_exact
from ferrule.torch._scale import LossScale

_LOSSY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_FORMAT = "fsdp-1"
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg"}


@dataclasses.dataclass(frozen=True)
class Codecs:
    """Of the three collectives; EXACT leaves torch's own in place, except for the all-reduce, which only exists here."""

    reduce_scatter: str
    all_gather: str
    all_reduce: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """What holds for all modules of a model."""

    codecs: Codecs
    error_feedback: bool = True
    warmup_steps: int = 0
    seed: int = 0
    algo: str = "auto"
    timeout: float | None = None


@dataclasses.dataclass
class Count:
    """Of one kind of collective."""

    calls: int = 0
    bytes_sent: int = 0
    raw_bytes: int = 0


class Sharding:
    """All that one FSDP model's modules share."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.loss_scale = LossScale()
        self.is_enabled = True
        self.counts = {"reduce_scatter": Count(), "all_gather": Count(), "all_reduce": Count()}
        self.seconds = 0.0
        self.channels: dict[str, Channel] = {}
        self._communicators: "weakref.WeakKeyDictionary[dist.ProcessGroup, Communicator]" = weakref.WeakKeyDictionary()

    def communicator(self, group: dist.ProcessGroup) -> Communicator:
        if group not in self._communicators:
            timeout = self.settings.timeout
            self._communicators[group] = communicator_of(group, **({} if timeout is None else {"timeout": timeout}))
        return self._communicators[group]

    def close(self) -> None:
        for communicator in list(self._communicators.values()):
            communicator.close()

    def finish(self, kind: str, work: Work, raw_bytes: int, started_s: float) -> None:
        work.wait()
        count = self.counts[kind]
        count.calls += 1
        count.bytes_sent += work.bytes_sent
        count.raw_bytes += raw_bytes
        self.seconds += time.monotonic() - started_s

    def state(self) -> dict:
        """See state_dict()."""
        return {
            "format": _FORMAT,
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            "modules": {name: channel.state() for name, channel in self.channels.items()},
        }

    def load(self, state: dict, other_world: str) -> None:
        """See load_state_dict()."""
        if state.get("format") != _FORMAT:
            raise FerruleError(f"this is no state of an FSDP model's state_dict() (format '{_FORMAT}')", "invalid_argument")
        saved, now = ((state["rank"], state["world_size"]), (dist.get_rank(), dist.get_world_size()))
        if saved[1] != now[1] and other_world != "reset":
            raise FerruleError(
                f"the state is of {saved[1]} ranks, and now there are {now[1]}: FSDP cuts gradients otherwise then, so "
                "that residuals can only be left out: other_world='reset'",
                "invalid_argument",
            )
        if saved[1] == now[1] and saved[0] != now[0]:
            raise FerruleError(
                f"this is the state of rank {saved[0]}, and this is rank {now[0]}: each rank loads what it saved",
                "invalid_argument",
            )
        for name, channel in self.channels.items():
            channel.load(state["modules"].get(name) if saved == now else None)

    def report(self) -> dict:
        """See stats()."""
        sent = sum(count.bytes_sent for count in self.counts.values())
        raw = sum(count.raw_bytes for count in self.counts.values())
        report = {
            "steps": max((channel.step for channel in self.channels.values()), default=0),
            "bytes": sent,
            "raw_bytes": raw,
            "ratio": raw / sent if sent else 1.0,
            "seconds": self.seconds,
            "codec": self.settings.codecs.reduce_scatter,
        }
        for kind, count in self.counts.items():
            report |= {f"{kind}_bytes": count.bytes_sent, f"{kind}_raw_bytes": count.raw_bytes}
        return report


class Channel:
    """One module's gradients on their way through one lossy collective: its residual, its steps, its loss scale."""

    def __init__(self, sharding: Sharding, name: str, codec: str):
        self.step = 0
        self._sharding = sharding
        self._codec = codec
        self._tensor_id = zlib.crc32(name.encode())
        self._residual: Residual | None = None
        self._loaded: numpy.ndarray | None = None
        self._scale = 1.0
        sharding.channels[name] = self

    def options(self, values: torch.Tensor) -> dict:
        """Of the next collective. Brings the residual into the units of this step; where the step is exact, adds it to
        the values."""
        settings = self._sharding.settings
        can_lose = values.dtype in _LOSSY_DTYPES and not is_exact(self._codec)
        is_lossy = can_lose and self._sharding.is_enabled and self.step >= settings.warmup_steps
        self._follow_scale()
        if can_lose and settings.error_feedback:
            self._make_residual(values.numel())
        if not is_lossy and self._residual is not None:
            values.add_(torch.from_numpy(self._residual.numpy()))
            self._residual.scale(0.0)
        self.step += 1
        return {
            "codec": self._codec if is_lossy else EXACT,
            "algo": settings.algo,
            "residual": self._residual if is_lossy else None,
            "timeout": settings.timeout,
            "seed": settings.seed,
            "step": self.step,
            "tensor": self._tensor_id,
        }

    def state(self) -> dict:
        """To be saved, between steps."""
        values = self._loaded if self._residual is None else self._residual.numpy()
        residual = None if values is None else torch.from_numpy(values.copy())
        return {"step": self.step, "loss_scale": self._scale, "residual": residual}

    def load(self, state: dict | None) -> None:
        """None: from the beginning."""
        self._residual = None
        self._loaded = None
        self.step, self._scale = (state["step"], state["loss_scale"]) if state else (0, 1.0)
        if state and state["residual"] is not None:
            self._loaded = state["residual"].numpy().copy()

    def _follow_scale(self) -> None:
        self._sharding.loss_scale.update()
        factor, self._scale = self._sharding.loss_scale.value / self._scale, self._sharding.loss_scale.value
        if factor != 1.0 and self._residual is not None:
            self._residual.scale(factor)
        if factor != 1.0 and self._loaded is not None:
            self._loaded *= numpy.float32(factor)

    def _make_residual(self, count: int) -> None:
        if self._residual is None:
            self._residual = Residual(count)
            if self._loaded is not None and self._loaded.size != count:
                raise FerruleError(
                    f"the saved residual has {self._loaded.size} elements, this module's gradient {count}: it was saved "
                    "from another model, or with other ranks",
                    "invalid_argument",
                )
            if self._loaded is not None:
                self._residual.assign(self._loaded)
            self._loaded = None


class _Memory:
    """What FSDP asks of its collectives besides the collective: where buffers come from."""

    def allocate(self, size, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class ReduceScatter(_Memory):
    """Of one module's gradients."""

    def __init__(self, sharding: Sharding, name: str):
        self._sharding = sharding
        self._channel = Channel(sharding, f"{name}/reduce_scatter", sharding.settings.codecs.reduce_scatter)

    @torch.no_grad()
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        started_s = time.monotonic()
        communicator = self._sharding.communicator(group)
        work = communicator.reduce_scatter_async(
            input_tensor, output_tensor, op=_op_name(op), **self._channel.options(input_tensor)
        )
        raw_bytes = _bytes(input_tensor) // communicator.size * (communicator.size - 1)
        return _end(async_op, lambda: self._sharding.finish("reduce_scatter", work, raw_bytes, started_s))


class AllGather(_Memory):
    """Of one module's parameters."""

    def __init__(self, sharding: Sharding, name: str):
        self._sharding = sharding
        self._tensor_id = zlib.crc32(f"{name}/all_gather".encode())

    @torch.no_grad()
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        started_s = time.monotonic()
        settings = self._sharding.settings
        communicator = self._sharding.communicator(group)
        is_lossy = self._sharding.is_enabled and input_tensor.dtype in _LOSSY_DTYPES
        work = communicator.all_gather_async(
            input_tensor,
            output_tensor,
            codec=settings.codecs.all_gather if is_lossy else EXACT,
            timeout=settings.timeout,
            # Not the step: the forward and the backward pass of one step must see the same parameters.
            seed=settings.seed,
            tensor=self._tensor_id,
        )
        raw_bytes = _bytes(input_tensor) * (communicator.size - 1)
        return _end(async_op, lambda: self._sharding.finish("all_gather", work, raw_bytes, started_s))


def all_reduce_hook(sharding: Sharding, name: str, replicas: dist.ProcessGroup):
    """Averages a module's shard of the gradient over the replicas, in place."""
    channel = Channel(sharding, f"{name}/all_reduce", sharding.settings.codecs.all_reduce)

    @torch.no_grad()
    def hook(reduce_output: torch.Tensor) -> None:
        started_s = time.monotonic()
        communicator = sharding.communicator(replicas)
        work = communicator.all_reduce_async(reduce_output, op="avg", **channel.options(reduce_output))
        raw_bytes = _bytes(reduce_output) * 2 * (communicator.size - 1) // communicator.size
        sharding.finish("all_reduce", work, raw_bytes, started_s)

    return hook


class _Pending:
    """What FSDP waits for where it has asked for an asynchronous collective."""

    def __init__(self, finish):
        self._finish = finish

    def wait(self, timeout=None) -> bool:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True


def _end(async_op: bool, finish):
    if async_op:
        return _Pending(finish)
    finish()
    return None


def _op_name(op) -> str:
    name = _OPS.get(op)
    if name is None:
        raise FerruleError(
            f"FSDP asks for {op}, and Ferrule's reduce-scatter knows SUM and AVG; leave "
            "set_force_sum_reduction_for_comms(True), which compress() has set",
            "unsupported",
        )
    return name


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def modules_of(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """The FSDP modules of a model by name, if it is one that fully_shard() has made."""
    from torch.distributed.fsdp import FSDPModule

    return {name: module for name, module in model.named_modules() if isinstance(module, FSDPModule)}


def _has_replicas(module: torch.nn.Module) -> bool:
    meshes = [getattr(parameter, "device_mesh", None) for parameter in module.parameters()]
    return any(mesh is not None and mesh.ndim > 1 for mesh in meshes)


def install(modules: dict[str, torch.nn.Module], settings: Settings, replicas: dist.ProcessGroup | None) -> Sharding:
    """Puts Ferrule's collectives in the place of torch's."""
    sharding = Sharding(settings)
    for name, module in modules.items():
        if not hasattr(module, "set_custom_reduce_scatter"):
            raise FerruleError(
                f"torch {torch.__version__} does not let FSDP2's collectives be replaced; 2.9 or newer does", "unsupported"
            )
        if replicas is not None and _has_replicas(module):
            raise FerruleError(
                "this model is sharded over a mesh with two dimensions, whose all-reduce torch does itself; for a "
                "compressed one, shard it over one dimension (fully_shard(..., mesh=mesh['shard'])) and give the group "
                "of the other one as replicas",
                "invalid_argument",
            )
        if not is_exact(settings.codecs.reduce_scatter):
            module.set_custom_reduce_scatter(ReduceScatter(sharding, name))
            module.set_force_sum_reduction_for_comms(True)
        if not is_exact(settings.codecs.all_gather):
            module.set_custom_all_gather(AllGather(sharding, name))
        if replicas is not None:
            module.set_all_reduce_hook(all_reduce_hook(sharding, name, replicas))
    return sharding
