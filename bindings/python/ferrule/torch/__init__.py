"""Compressed gradients for DistributedDataParallel: two lines in a training script.

    import ferrule.torch
    ferrule.torch.compress(ddp_model, "int4")

FERRULE_DISABLE=1 in the environment makes compress() do nothing. See docs/pytorch.md.
"""

from ferrule.torch._compress import compress, load_state_dict, state_dict, stats

__all__ = ["compress", "load_state_dict", "state_dict", "stats"]
