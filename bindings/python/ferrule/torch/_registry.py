"""Which models are compressed, and by which reducer."""

import os
import weakref

import torch

from ferrule._errors import FerruleError
from ferrule.torch._reducer import Reducer

_reducers: "weakref.WeakKeyDictionary[torch.nn.Module, Reducer]" = weakref.WeakKeyDictionary()
# Models that compress() left as they are because of FERRULE_DISABLE, so that the other functions know them.
_left_alone: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


def is_disabled() -> bool:
    """The off switch in the environment, FERRULE_DISABLE."""
    return os.environ.get("FERRULE_DISABLE", "").strip().lower() in ("1", "true", "yes", "on")


def is_known(model: torch.nn.Module) -> bool:
    return model in _reducers


def leave_alone(model: torch.nn.Module) -> None:
    _left_alone.add(model)


def enter(model: torch.nn.Module, reducer: Reducer) -> None:
    """The reducer ends with the model."""
    _reducers[model] = reducer
    weakref.finalize(model, reducer.close)


def reducer_of(model: torch.nn.Module) -> Reducer | None:
    """None for a model that compress() left alone because of FERRULE_DISABLE."""
    reducer = _reducers.get(model)
    if reducer is None and model not in _left_alone:
        raise FerruleError("this model is not compressed: call ferrule.torch.compress(model) first", "invalid_argument")
    return reducer
