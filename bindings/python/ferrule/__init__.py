"""Ferrule: a compressed all-reduce for data-parallel training on slow links.

    import ferrule
    with ferrule.Communicator.from_env() as comm:
        comm.all_reduce(gradient, op="avg", codec="int4", residual=residual)

For PyTorch, see ferrule.torch: two lines in a training script.
"""

from ferrule._errors import FerruleError
from ferrule._ferrule import (
    Codec,
    Communicator,
    Residual,
    Work,
    __version__,
    algorithms,
    codecs,
    transports,
)

__all__ = [
    "Codec",
    "Communicator",
    "FerruleError",
    "Residual",
    "Work",
    "__version__",
    "algorithms",
    "codecs",
    "transports",
]
