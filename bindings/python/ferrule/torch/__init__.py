"""Compressed gradients for DistributedDataParallel: two lines in a training script.

    import ferrule.torch
    ferrule.torch.compress(ddp_model, "int4")

FERRULE_DISABLE=1 in the environment makes compress() do nothing. See docs/pytorch.md.
"""

import torch.distributed

from ferrule.torch._backend_codec import set_codec
from ferrule.torch._compress import compress, load_state_dict, state_dict, stats

if torch.distributed.is_available() and not hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
    # Newer torch finds the backend by its entry point.
    from ferrule.torch import _backend

    _backend.register()

__all__ = ["compress", "load_state_dict", "set_codec", "state_dict", "stats"]
