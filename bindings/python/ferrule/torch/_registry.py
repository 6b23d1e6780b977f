"""Which models are compressed, and by which reducer."""

import os
import weakref

import torch

from ferrule._errors import FerruleError
from ferrule.torch._fsdp import Sharding
from ferrule.torch._reducer import Reducer

_engines: "weakref.WeakKeyDictionary[torch.nn.Module, Reducer | Sharding]" = weakref.WeakKeyDictionary()
# Models that compress() left as they are because of FERRULE_DISABLE, so that the other functions know them.
_left_alone: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


def is_disabled() -> bool:
    """The off switch in the environment, FERRULE_DISABLE."""
    return os.environ.get("FERRULE_DISABLE", "").strip().lower() in ("1", "true", "yes", "on")


def is_known(model: torch.nn.Module) -> bool:
    return model in _engines


def leave_alone(model: torch.nn.Module) -> None:
    _left_alone.add(model)


def enter(model: torch.nn.Module, engine: Reducer | Sharding) -> None:
    """The engine ends with the model."""
    _engines[model] = engine
    weakref.finalize(model, engine.close)


def engine_of(model: torch.nn.Module) -> Reducer | Sharding | None:
    """None for a model that compress() left alone because of FERRULE_DISABLE."""
    engine = _engines.get(model)
    if engine is None and model not in _left_alone:
        raise FerruleError("this model is not compressed: call ferrule.torch.compress(model) first", "invalid_argument")
    return engine


def reducer_of(model: torch.nn.Module, what: str) -> Reducer | None:
    """The same, for what only a DDP model can do."""
    engine = engine_of(model)
    if isinstance(engine, Sharding):
        raise FerruleError(f"{what} is for DistributedDataParallel models, and this is an FSDP model", "unsupported")
    return engine
