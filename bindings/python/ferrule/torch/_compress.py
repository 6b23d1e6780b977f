"""The public functions of ferrule.torch."""

import os
import warnings
import weakref

import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule._ferrule import Codec, Communicator
from ferrule.torch._group import communicator_of
from ferrule.torch._reducer import Options, Reducer
from ferrule.torch._residuals import LayoutTable

_reducers: "weakref.WeakKeyDictionary[torch.nn.Module, Reducer]" = weakref.WeakKeyDictionary()
# Models that compress() left as they are because of FERRULE_DISABLE, so that the other functions know them.
_left_alone: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


def compress(
    ddp_model: torch.nn.parallel.DistributedDataParallel,
    codec: str = "int4",
    *,
    error_feedback: bool = True,
    min_elements: int = 1024,
    communicator: Communicator | None = None,
    seed: int = 0,
    algo: str = "auto",
    timeout: float | None = None,
) -> torch.nn.parallel.DistributedDataParallel:
    """Lets a DDP model reduce its gradients through Ferrule, compressed. Call it on every rank, before the first backward.

    codec: such as "int4", "int8:block=256", "int4:round=stochastic"; "none" is exact; "auto:int4" compresses only
        where that is expected to be faster on this link.
    error_feedback: what compression leaves out of a step is added to the next one, parameter by parameter.
    min_elements: smaller parameters, and all with one dimension (biases, norms), stay exact.
    communicator: a ferrule.Communicator over the same ranks; None makes one through the process group's store.
    seed: of the random bits, for codecs with stochastic rounding.
    algo, timeout: see Communicator.all_reduce.

    Returns the model. With FERRULE_DISABLE=1 in the environment the model is left as it is: plain DDP.
    """
    if not isinstance(ddp_model, torch.nn.parallel.DistributedDataParallel):
        raise TypeError(f"compress() takes a DistributedDataParallel model, not {type(ddp_model).__name__}")
    if is_disabled():
        _left_alone.add(ddp_model)
        return ddp_model
    automatic, inner = codec.startswith("auto:"), codec.removeprefix("auto:")
    spec = ("auto:" if automatic else "") + Codec(inner).spec
    parameters = dict(ddp_model.module.named_parameters())
    _check(ddp_model, parameters)
    owned = communicator is None
    if communicator is not None:
        _check_ranks(communicator, ddp_model.process_group)
    else:
        config = {} if timeout is None else {"timeout": timeout}
        communicator = communicator_of(ddp_model.process_group, **config)
    lossless = spec.removeprefix("auto:").partition(":")[0] == "none"
    names = {id(parameter): name for name, parameter in parameters.items()}
    table = LayoutTable(names, None if lossless else min_elements, error_feedback)
    reducer = Reducer(communicator, owned, table, Options(spec, algo, seed, timeout))
    _reducers[ddp_model] = reducer
    weakref.finalize(ddp_model, reducer.close)
    ddp_model.register_comm_hook(None, _make_hook(reducer))
    return ddp_model


def stats(ddp_model: torch.nn.Module) -> dict:
    """What the hook has done so far on this rank.

    steps; bytes (sent on the wire, headers included); raw_bytes (what an exact all-reduce of the same gradients sends);
    ratio (raw_bytes / bytes); seconds (from a bucket's hand-over to its result, summed over buckets, which may overlap);
    codec; compressed and exact (numbers of parameters).
    """
    reducer = _reducer_of(ddp_model)
    if reducer is None:
        keys = ("steps", "bytes", "raw_bytes", "ratio", "seconds", "compressed", "exact")
        return {**dict.fromkeys(keys, 0), "codec": "none"}
    totals = reducer.totals
    ranks = reducer.communicator.size
    raw_bytes = totals.gradient_bytes * 2 * (ranks - 1) // ranks
    compressed, exact = reducer.table.counts()
    return {
        "steps": totals.steps,
        "bytes": totals.bytes_sent,
        "raw_bytes": raw_bytes,
        "ratio": raw_bytes / totals.bytes_sent if totals.bytes_sent else 1.0,
        "seconds": totals.seconds,
        "codec": reducer.options.codec,
        "compressed": compressed,
        "exact": exact,
    }


def state_dict(ddp_model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """This rank's residuals by parameter name. They differ between ranks: save one file a rank."""
    reducer = _reducer_of(ddp_model)
    if reducer is None:
        return {}
    return {name: torch.from_numpy(value) for name, value in reducer.table.values().items()}


def load_state_dict(ddp_model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Puts saved residuals back, between steps. Parameters that are not named start at zero.

    A size that does not fit the parameter is an error; names that the model does not have are left out, with a warning.
    """
    reducer = _reducer_of(ddp_model)
    if reducer is None:
        return
    parameters = dict(ddp_model.module.named_parameters())
    for name, value in state.items():
        if name in parameters and value.numel() != parameters[name].numel():
            raise FerruleError(
                f"the residual of '{name}' has {value.numel()} elements, the parameter {parameters[name].numel()}: "
                "it was saved from another model",
                "invalid_argument",
            )
    unknown = [name for name in state if name not in parameters]
    if unknown:
        warnings.warn(
            f"{len(unknown)} of {len(state)} residuals are of parameters that this model does not have, and are left "
            f"out: {', '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}",
            stacklevel=2,
        )
    known = {name: value for name, value in state.items() if name in parameters}
    reducer.table.load({name: value.detach().cpu().float().numpy() for name, value in known.items()})


def is_disabled() -> bool:
    """The off switch, FERRULE_DISABLE."""
    return os.environ.get("FERRULE_DISABLE", "").strip().lower() in ("1", "true", "yes", "on")


def _make_hook(reducer: Reducer):
    # DDP looks at the names: a plain function whose second parameter is called `bucket`.
    def ferrule_hook(state, bucket):
        return reducer.reduce(bucket)

    return ferrule_hook


def _reducer_of(ddp_model: torch.nn.Module) -> Reducer | None:
    """None for a model that compress() left alone because of FERRULE_DISABLE."""
    reducer = _reducers.get(ddp_model)
    if reducer is None and ddp_model not in _left_alone:
        raise FerruleError(
            "this model is not compressed: call ferrule.torch.compress(model) first",
            "invalid_argument",
        )
    return reducer


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
    if ddp_model in _reducers:
        raise FerruleError("this model is compressed already; compress() is for once a model", "invalid_argument")
    for name, parameter in parameters.items():
        if parameter.device.type != "cpu":
            raise FerruleError(
                f"parameter '{name}' is on {parameter.device}; the hook of this version takes models on the CPU",
                "unsupported",
            )
