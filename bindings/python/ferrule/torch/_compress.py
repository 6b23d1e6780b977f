"""compress(), and what can be changed afterwards."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator
from ferrule.torch import _registry
from ferrule.torch._clip import Limits
from ferrule.torch._delivery import Delivery, OnPiece
from ferrule.torch._group import communicator_of
from ferrule.torch._join import Join
from ferrule.torch._layout import count_in_bucket
from ferrule.torch._reducer import Options, Reducer
from ferrule.torch._residuals import LayoutTable
from ferrule.torch._rules import Rules


def compress(
    ddp_model: torch.nn.parallel.DistributedDataParallel,
    codec: str = "int4",
    *,
    rules: Mapping[str, str] | None = None,
    error_feedback: bool = True,
    min_elements: int = 1024,
    warmup_steps: int = 0,
    scaler: Any = None,
    clip_norm: float | None = None,
    clip_spikes: float | None = None,
    communicator: Communicator | None = None,
    seed: int = 0,
    algo: str = "auto",
    timeout: float | None = None,
    measure_every: int = 50,
) -> torch.nn.parallel.DistributedDataParallel:
    """Lets a DDP model reduce its gradients through Ferrule, compressed. Call it on every rank, before the first backward.

    codec: such as "int4", "int8:block=256", "int4:round=stochastic"; "none" is exact; "auto:int4" compresses only
        where that is expected to be faster on this link.
    rules: codecs for parameters by name, e.g. {"*.bias": "none", "embed*": "int8"}; the first pattern that fits counts,
        before `codec` and `min_elements`.
    error_feedback: what compression leaves out of a step is added to the next one, parameter by parameter.
    min_elements: smaller parameters, and all with one dimension (biases, norms), stay exact.
    warmup_steps: so many first steps are exact.
    scaler: a GradScaler, or a function that returns the loss scale; see set_scaler().
    clip_norm: before it is reduced, each bucket is scaled down to this L2 norm, on the rank that made it.
    clip_spikes: before that, a gradient whose norm is more than so many times its own running average is scaled down
        to that.
    communicator: a ferrule.Communicator over the same ranks; None makes one through the process group's store.
    seed: of the random bits, for codecs with stochastic rounding.
    algo, timeout: see Communicator.all_reduce.
    measure_every: steps between two measurements of stats()["relative_error"]; 0: none.

    Returns the model. With FERRULE_DISABLE=1 in the environment the model is left as it is: plain DDP.
    """
    if not isinstance(ddp_model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError(f"compress() takes a DistributedDataParallel model, not {type(ddp_model).__name__}")
    if _registry.is_disabled():
        _registry.leave_alone(ddp_model)
        return ddp_model
    chosen = Rules.make(codec, min_elements, rules)
    checks_unused = ddp_model.find_unused_parameters or getattr(ddp_model, "static_graph", False)
    limits = Limits(_positive("clip_norm", clip_norm), _positive("clip_spikes", clip_spikes))
    options = Options(chosen.default, algo, seed, timeout, warmup_steps, measure_every, checks_unused, limits)
    parameters = dict(ddp_model.module.named_parameters())
    _check(ddp_model, parameters)
    chosen.check(parameters)
    owned = communicator is None
    if communicator is not None:
        _check_ranks(communicator, ddp_model.process_group)
    else:
        config = {} if timeout is None else {"timeout": timeout}
        communicator = communicator_of(ddp_model.process_group, **config)
    names = {id(parameter): name for name, parameter in parameters.items()}
    reducer = Reducer(communicator, owned, LayoutTable(names, chosen, error_feedback), Join(ddp_model), options)
    reducer.loss_scale.follow(scaler)
    _registry.enter(ddp_model, reducer)
    ddp_model.register_comm_hook(None, _make_hook(reducer))
    return ddp_model


def set_enabled(ddp_model: torch.nn.Module, enabled: bool) -> None:
    """Switches compression off or on, from the next step. All ranks call it between the same steps.

    Off, gradients are reduced exactly; the first exact step delivers what compression has left behind so far.
    """
    reducer = _registry.reducer_of(ddp_model)
    if reducer is not None:
        reducer.is_enabled = enabled


def set_scaler(ddp_model: torch.nn.Module, scaler: Any) -> None:
    """The loss scale comes from here: a GradScaler, or a function that returns it; None: it does not change any more.

    Residuals then follow the scale; and a step in which a gradient overflowed on any rank, which the scaler skips,
    leaves all residuals as they were.
    """
    reducer = _registry.reducer_of(ddp_model)
    if reducer is not None:
        reducer.loss_scale.follow(scaler)


def set_weight(ddp_model: torch.nn.Module, weight: float) -> None:
    """This rank's weight in the next step's mean, e.g. its number of samples: sum(weight * gradient) / sum(weight).

    Once used, all ranks call it before every backward() that reduces gradients.
    """
    reducer = _registry.reducer_of(ddp_model)
    if reducer is None:
        warnings.warn("set_weight() does nothing, because FERRULE_DISABLE is set: plain means", stacklevel=2)
    else:
        reducer.set_weight(weight)


def deliver(
    ddp_model: torch.nn.Module, buffer: torch.Tensor | None, on_piece: OnPiece | None = None
) -> dict[str, tuple[int, int]]:
    """Has reduced gradients copied into a flat buffer in host memory, each as soon as it is there.

    Returns name -> (start, count) in elements. on_piece(name, start, count) is called after each copy, on a thread of
    Ferrule's, while backward() still runs; what it raises comes out of backward(). A buffer of None ends it.
    """
    reducer = _registry.reducer_of(ddp_model)
    if reducer is None:
        raise FerruleError("deliver() needs the hook, which FERRULE_DISABLE has switched off", "unsupported")
    if buffer is None:
        reducer.delivery = None
        return {}
    parameters = ddp_model.module.named_parameters()
    sizes = {name: count_in_bucket(parameter) for name, parameter in parameters if parameter.requires_grad}
    reducer.delivery = Delivery(sizes, buffer, on_piece)
    return reducer.delivery.offsets


def _make_hook(reducer: Reducer):
    # DDP looks at the names: a plain function whose second parameter is called `bucket`.
    def ferrule_hook(state, bucket):
        return reducer.reduce(bucket)

    return ferrule_hook


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise FerruleError(f"{name} is {value}; it must be above zero, or None", "invalid_argument")
    return value


def _check_ranks(communicator: Communicator, process_group: dist.ProcessGroup) -> None:
    """Other ranks than DDP's would average the wrong gradients, or wait for ranks that never come."""
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    if (communicator.rank, communicator.size) != (rank, size):
        raise FerruleError(
            f"the communicator is rank {communicator.rank} of {communicator.size}, but the model's process group is "
            f"rank {rank} of {size}; give one over the same ranks in the same order, or none",
            "invalid_argument",
        )


def _check(ddp_model: torch.nn.Module, parameters: dict[str, torch.Tensor]) -> None:
    if _registry.is_known(ddp_model):
        raise FerruleError("this model is compressed already; compress() is for once a model", "invalid_argument")
    for name, parameter in parameters.items():
        if parameter.device.type != "cpu":
            raise FerruleError(
                f"parameter '{name}' is on {parameter.device}; the hook of this version takes models on the CPU",
                "unsupported",
            )
