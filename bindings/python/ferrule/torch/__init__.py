"""Compressed gradients for DistributedDataParallel: two lines in a training script.

    import ferrule.torch
    ferrule.torch.compress(ddp_model, "int4")

FERRULE_DISABLE=1 in the environment makes compress() do nothing. See docs/pytorch.md.
"""

from ferrule.torch._average import average_parameters
from ferrule.torch._checkpoint import load_state_dict, state_dict
from ferrule.torch._compress import compress, deliver, set_enabled, set_scaler, set_weight
from ferrule.torch._stats import log_stats, stats

__all__ = [
    "average_parameters",
    "compress",
    "deliver",
    "load_state_dict",
    "log_stats",
    "set_enabled",
    "set_scaler",
    "set_weight",
    "state_dict",
    "stats",
]
