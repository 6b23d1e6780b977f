"""The collectives that FSDP2 modules are given: each with the state of its own module."""

import time
import typing
import zlib

import numpy
import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule._ferrule import Residual, Work
from ferrule.torch._rules import EXACT, is_exact

if typing.TYPE_CHECKING:
    from ferrule.torch._fsdp import Sharding

_LOSSY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg"}


class Channel:
    """One module's gradients on their way through one lossy collective: its residual, its steps, its loss scale."""

    def __init__(self, sharding: "Sharding", name: str, codec: str):
        self.step = 0
        self._sharding = sharding
        self._codec = codec
        self._tensor_id = zlib.crc32(name.encode())
        self._residual: Residual | None = None
        self._loaded: numpy.ndarray | None = None
        self._scale = 1.0
        self._algorithms: dict[str, str] = {}  # as Unit has them
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
        codec = self._codec if is_lossy else EXACT
        algo = self._algorithms.get(codec, settings.algo) if settings.algo == "auto" else settings.algo
        return {
            "codec": codec,
            "algo": algo,
            "residual": self._residual if is_lossy else None,
            "timeout": settings.timeout,
            "seed": settings.seed,
            "step": self.step,
            "tensor": self._tensor_id,
        }

    def note(self, options: dict, work: Work) -> None:
        """What these options came to."""
        self._algorithms[options["codec"]] = work.algorithm

    def state(self) -> dict:
        """To be saved, between steps."""
        values = self._loaded if self._residual is None else self._residual.numpy()
        residual = None if values is None else torch.from_numpy(values.copy())
        return {
            "step": self.step,
            "loss_scale": self._scale,
            "algorithms": dict(self._algorithms),
            "residual": residual,
        }

    def load(self, state: dict | None) -> None:
        """None: from the beginning."""
        self._residual = None
        self._loaded = None
        self.step, self._scale = (state["step"], state["loss_scale"]) if state else (0, 1.0)
        self._algorithms = dict(state["algorithms"]) if state else {}
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

    def __init__(self, sharding: "Sharding", name: str):
        self._sharding = sharding
        self._channel = Channel(sharding, f"{name}/reduce_scatter", sharding.settings.codecs.reduce_scatter)

    @torch.no_grad()
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        started_s = time.monotonic()
        communicator = self._sharding.communicator(group)
        options = self._channel.options(input_tensor)
        work = communicator.reduce_scatter_async(input_tensor, output_tensor, op=_op_name(op), **options)
        self._channel.note(options, work)
        raw_bytes = _bytes(input_tensor) // communicator.size * (communicator.size - 1)
        return _end(async_op, lambda: self._sharding.finish("reduce_scatter", work, raw_bytes, started_s))


class AllGather(_Memory):
    """Of one module's parameters."""

    def __init__(self, sharding: "Sharding", name: str):
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


def all_reduce_hook(sharding: "Sharding", name: str, replicas: dist.ProcessGroup):
    """Averages a module's shard of the gradient over the replicas, in place."""
    channel = Channel(sharding, f"{name}/all_reduce", sharding.settings.codecs.all_reduce)

    @torch.no_grad()
    def hook(reduce_output: torch.Tensor) -> None:
        started_s = time.monotonic()
        communicator = sharding.communicator(replicas)
        options = channel.options(reduce_output)
        work = communicator.all_reduce_async(reduce_output, op="avg", **options)
        channel.note(options, work)
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
