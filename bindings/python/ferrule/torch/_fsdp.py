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

import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator, Work
from ferrule.torch._fsdp_collectives import AllGather, Channel, ReduceScatter, all_reduce_hook
from ferrule.torch._group import communicator_of
from ferrule.torch._rules import is_exact
from ferrule.torch._scale import LossScale

_FORMAT = "fsdp-1"


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
