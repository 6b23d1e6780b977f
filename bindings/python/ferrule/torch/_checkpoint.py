"""Residuals in checkpoints, by parameter name: a resumed run goes on as the interrupted one would have."""

import logging
import warnings
from collections.abc import Sequence

import numpy
import torch
import torch.distributed as dist

from ferrule._errors import FerruleError
from ferrule.torch import _registry
from ferrule.torch._clip import Average
from ferrule.torch._fsdp import Sharding
from ferrule.torch._reducer import Reducer

_FORMAT = 1
_log = logging.getLogger("ferrule.torch")


def state_dict(model: torch.nn.Module) -> dict:
    """What the hook of this rank remembers, to be saved between steps. It differs between ranks: save one file a rank.

    Plain numbers, texts and CPU tensors. Of a DDP model state["residuals"] has a float32 tensor of a parameter's shape by
    its name; an FSDP model keeps residuals by module, which fit the same number of ranks only.
    """
    reducer = _registry.engine_of(model)
    if reducer is None:
        return {}
    if isinstance(reducer, Sharding):
        return reducer.state()
    parameters = dict(model.module.named_parameters())
    return {
        "format": _FORMAT,
        "rank": reducer.communicator.rank,
        "world_size": reducer.communicator.size,
        "step": reducer.steps_begun,
        "loss_scale": reducer.loss_scale.value,
        "units": [[codec, list(names), dict(algos)] for codec, names, algos in reducer.table.plan()],
        "norms": {name: [average.value, average.steps] for name, average in reducer.clip.averages.items()},
        "residuals": {name: _shaped(value, parameters[name]) for name, value in reducer.table.values().items()},
    }


def load_state_dict(model: torch.nn.Module, state: dict | Sequence[dict], *, other_world: str = "sum") -> None:
    """Goes on from a saved state, between steps. Parameters that it does not name start without a residual.

    state: what this rank saved; or the states of all ranks, in rank order, which also fit another number of ranks.
    other_world: with another number of ranks, "sum" hands the saved residuals out so that their sum over ranks stays;
        "mean" multiplies them too, so that what they add to the mean stays; "reset" starts at zero.

    A size that does not fit the parameter is an error; names that the model does not have are left out, with a warning.
    """
    reducer = _registry.engine_of(model)
    if reducer is None:
        return
    if other_world not in ("sum", "mean", "reset"):
        raise FerruleError(f"other_world is '{other_world}'; there are sum, mean and reset", "invalid_argument")
    if isinstance(reducer, Sharding):
        reducer.load(_own_of(state), other_world)
        return
    states = [state] if isinstance(state, dict) else list(state)
    if states == [{}] or not states:  # saved while FERRULE_DISABLE was set
        reducer.table.load({}, [])
        return
    parameters = dict(model.module.named_parameters())
    for each in states:
        _check_format(each)
        _check_sizes(each["residuals"], parameters)
    _warn_of_unknown({name for each in states for name in each["residuals"]}, parameters)
    residuals = _residuals_for(reducer, states, other_world)
    _install(reducer, _own(reducer, states), residuals, parameters)


def _install(reducer: Reducer, own: dict, residuals: dict[str, torch.Tensor], parameters: dict) -> None:
    flat = {name: _flat(value, parameters[name]) for name, value in residuals.items() if name in parameters}
    is_same_world = own["world_size"] == reducer.communicator.size
    plan = [(codec, list(names), dict(algos) if is_same_world else {}) for codec, names, algos in own["units"]]
    reducer.table.load(flat, plan)
    reducer.steps_begun = own["step"]
    reducer.loss_scale.value = own["loss_scale"]
    norms = own["norms"].items() if is_same_world else ()
    reducer.clip.averages = {name: Average(value, steps) for name, (value, steps) in norms}


def _own_of(state: dict | Sequence[dict]) -> dict:
    """Of an FSDP model."""
    states = [state] if isinstance(state, dict) else list(state)
    return next((each for each in states if each.get("rank") == dist.get_rank()), states[0])


def _own(reducer: Reducer, states: list[dict]) -> dict:
    """The state whose numbers this rank takes."""
    rank = reducer.communicator.rank
    return next((state for state in states if state["rank"] == rank), states[0])


def _residuals_for(reducer: Reducer, states: list[dict], other_world: str) -> dict[str, torch.Tensor]:
    rank, size = reducer.communicator.rank, reducer.communicator.size
    saved_size = states[0]["world_size"]
    if saved_size == size:
        own = _own(reducer, states)
        if own["rank"] != rank:
            raise FerruleError(
                f"this is the state of rank {own['rank']}, and this is rank {rank}: each rank loads what it saved",
                "invalid_argument",
            )
        return own["residuals"]
    if rank == 0:
        _log.warning("residuals of %d ranks go on with %d: %s", saved_size, size, other_world)
    if other_world == "reset":
        return {}
    if sorted(state["rank"] for state in states) != list(range(saved_size)):
        raise FerruleError(
            f"the states are of {saved_size} ranks, and now there are {size}: give the states of all {saved_size} as a "
            "list, or other_world='reset'",
            "invalid_argument",
        )
    # Rank r takes those of r, r + size, ...: each is taken once, and ranks beyond the old number start at zero.
    factor = size / saved_size if other_world == "mean" else 1.0
    return _sum([state["residuals"] for state in states if state["rank"] % size == rank], factor)


def _sum(many: list[dict[str, torch.Tensor]], factor: float) -> dict[str, torch.Tensor]:
    total: dict[str, torch.Tensor] = {}
    for residuals in many:
        for name, value in residuals.items():
            total[name] = total[name] + value if name in total else value.clone()
    return {name: value * factor for name, value in total.items()}


def _check_format(state: dict) -> None:
    if state.get("format") != _FORMAT:
        raise FerruleError(
            f"this is no state of ferrule.torch.state_dict() (format {_FORMAT}): it has "
            f"{', '.join(map(str, list(state)[:5]))}",
            "invalid_argument",
        )


def _check_sizes(residuals: dict[str, torch.Tensor], parameters: dict[str, torch.Tensor]) -> None:
    for name, value in residuals.items():
        if name in parameters and value.shape != parameters[name].shape:
            raise FerruleError(
                f"the residual of '{name}' is {tuple(value.shape)}, the parameter {tuple(parameters[name].shape)}: it was "
                "saved from another model",
                "invalid_argument",
            )


def _warn_of_unknown(names: set[str], parameters: dict[str, torch.Tensor]) -> None:
    unknown = sorted(names - parameters.keys())
    if unknown:
        warnings.warn(
            f"{len(unknown)} of {len(names)} residuals are of parameters that this model does not have, and are left "
            f"out: {', '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}",
            stacklevel=3,
        )


def _shaped(flat: numpy.ndarray, parameter: torch.Tensor) -> torch.Tensor:
    """Values in the order of a bucket, as a contiguous tensor of the parameter's shape."""
    return torch.as_strided(torch.from_numpy(flat), parameter.shape, _strides(parameter)).contiguous().clone()


def _flat(shaped: torch.Tensor, parameter: torch.Tensor) -> numpy.ndarray:
    """And back."""
    values = torch.empty(parameter.numel(), dtype=torch.float32)
    torch.as_strided(values, parameter.shape, _strides(parameter)).copy_(shaped)
    return values.numpy()


def _strides(parameter: torch.Tensor) -> tuple[int, ...]:
    """How DDP lays the gradient out in its bucket: as the parameter, if that is dense (channels last), else in C order."""
    order = sorted((stride, size) for stride, size in zip(parameter.stride(), parameter.shape) if size != 1)
    expected = 1
    for stride, size in order:
        if stride != expected:
            return torch.empty(parameter.shape, device="meta").stride()
        expected *= size
    return parameter.stride()
