"""compress(), and what can be changed afterwards."""

import dataclasses
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
from ferrule.torch._fsdp import Codecs, Settings, install, modules_of
from ferrule.torch._group import communicator_of
from ferrule.torch._join import Join
from ferrule.torch._layout import count_in_bucket
from ferrule.torch._reducer import Options, Reducer
from ferrule.torch._residuals import LayoutTable
from ferrule.torch._rules import EXACT, Rules, canonical


def compress(
    model: torch.nn.Module,
    codec: str = "int4",
    *,
    rules: Mapping[str, str] | None = None,
    error_feedback: bool = True,
    min_elements: int = 1024,
    warmup_steps: int = 0,
    scaler: Any = None,
    clip_norm: float | None = None,
    clip_spikes: float | None = None,
    reduce_scatter: str | None = None,
    all_gather: str = EXACT,
    all_reduce: str | None = None,
    replicas: dist.ProcessGroup | None = None,
    communicator: Communicator | None = None,
    seed: int = 0,
    algo: str = "auto",
    timeout: float | None = None,
    measure_every: int = 50,
) -> torch.nn.Module:
    """Lets a DDP or FSDP2 model reduce its gradients through Ferrule, compressed. Call it on every rank, before the first
    backward.

    codec: such as "int4", "int8:block=256", "int4:round=stochastic"; "none" is exact; "auto:int4" compresses only
        where that is expected to be faster on this link.
    error_feedback: what compression leaves out of a step is added to the next one, parameter by parameter.
    warmup_steps: so many first steps are exact.
    scaler: a GradScaler, or a function that returns the loss scale; see set_scaler().
    seed: of the random bits, for codecs with stochastic rounding.
    algo, timeout: see Communicator.all_reduce.

    For DistributedDataParallel:
    rules: codecs for parameters by name, e.g. {"*.bias": "none", "embed*": "int8"}; the first pattern that fits counts,
        before `codec` and `min_elements`.
    min_elements: smaller parameters, and all with one dimension (biases, norms), stay exact.
    clip_norm: before it is reduced, each bucket is scaled down to this L2 norm, on the rank that made it.
    clip_spikes: before that, a gradient whose norm is more than so many times its own running average is scaled down
        to that.
    communicator: a ferrule.Communicator over the same ranks; None makes one through the process group's store.
    measure_every: steps between two measurements of stats()["relative_error"]; 0: none.

    For FSDP2 (fully_shard):
    reduce_scatter: the codec for gradients; None: `codec`. all_gather: the codec for parameters.
    replicas: a process group over which each shard's gradient is averaged too (hybrid sharding); all_reduce: its codec,
        None: `codec`.

    Returns the model. With FERRULE_DISABLE=1 in the environment the model is left as it is.
    """
    options = Options(canonical(codec), algo, seed, timeout, warmup_steps, measure_every)
    modules = modules_of(model)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        fsdp = {"reduce_scatter": reduce_scatter, "all_reduce": all_reduce, "replicas": replicas}
        _refuse("an FSDP2 model", {**fsdp, "all_gather": None if all_gather == EXACT else all_gather})
    elif modules:
        ddp = {"rules": rules, "clip_norm": clip_norm, "clip_spikes": clip_spikes, "communicator": communicator}
        _refuse("a DistributedDataParallel model", ddp)
    else:
        raise TypeError(
            f"compress() takes a DistributedDataParallel model or one of fully_shard(), not {type(model).__name__}"
        )
    if _registry.is_disabled():
        if replicas is not None:
            raise FerruleError("FERRULE_DISABLE is set, and without Ferrule nothing averages over replicas", "unsupported")
        _registry.leave_alone(model)
        return model
    if _registry.is_known(model):
        raise FerruleError("this model is compressed already; compress() is for once a model", "invalid_argument")
    _check_devices(model)
    if modules:
        codecs = Codecs(canonical(reduce_scatter or codec), canonical(all_gather), canonical(all_reduce or codec))
        settings = Settings(codecs, error_feedback, warmup_steps, seed, algo, timeout)
        engine = install(modules, settings, replicas)
    else:
        limits = Limits(_positive("clip_norm", clip_norm), _positive("clip_spikes", clip_spikes))
        checks_unused = model.find_unused_parameters or getattr(model, "static_graph", False)
        options = dataclasses.replace(options, checks_unused=checks_unused, limits=limits)
        engine = _make_reducer(model, Rules.make(codec, min_elements, rules), error_feedback, communicator, options)
    engine.loss_scale.follow(scaler)
    _registry.enter(model, engine)
    if not modules:
        model.register_comm_hook(None, _make_hook(engine))
    return model


def _make_reducer(
    model: torch.nn.parallel.DistributedDataParallel,
    rules: Rules,
    error_feedback: bool,
    communicator: Communicator | None,
    options: Options,
) -> Reducer:
    parameters = dict(model.module.named_parameters())
    rules.check(parameters)
    owned = communicator is None
    if communicator is not None:
        _check_ranks(communicator, model.process_group)
    else:
        config = {} if options.timeout is None else {"timeout": options.timeout}
        communicator = communicator_of(model.process_group, **config)
    names = {id(parameter): name for name, parameter in parameters.items()}
    return Reducer(communicator, owned, LayoutTable(names, rules, error_feedback), Join(model), options)


def set_enabled(model: torch.nn.Module, enabled: bool) -> None:
    """Switches compression off or on, from the next step. All ranks call it between the same steps.

    Off, gradients are reduced exactly; the first exact step delivers what compression has left behind so far.
    """
    engine = _registry.engine_of(model)
    if engine is not None:
        engine.is_enabled = enabled


def set_scaler(model: torch.nn.Module, scaler: Any) -> None:
    """The loss scale comes from here: a GradScaler, or a function that returns it; None: it does not change any more.

    Residuals then follow the scale; and a step in which a gradient overflowed on any rank, which the scaler skips,
    leaves all residuals of a DDP model as they were (of an FSDP model: those of the blocks that overflowed).
    """
    engine = _registry.engine_of(model)
    if engine is not None:
        engine.loss_scale.follow(scaler)


def set_weight(ddp_model: torch.nn.Module, weight: float) -> None:
    """This rank's weight in the next step's mean, e.g. its number of samples: sum(weight * gradient) / sum(weight).

    Once used, all ranks call it before every backward() that reduces gradients.
    """
    reducer = _registry.reducer_of(ddp_model, "set_weight()")
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
    reducer = _registry.reducer_of(ddp_model, "deliver()")
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


def _refuse(wanted: str, options: dict[str, Any]) -> None:
    """Options that would be ignored."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise FerruleError(f"{', '.join(given)}: these options are for {wanted}", "invalid_argument")


def _check_devices(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu":
            raise FerruleError(
                f"parameter '{name.removeprefix('module.')}' is on {parameter.device}; the hook of this version takes "
                "models on the CPU",
                "unsupported",
            )
