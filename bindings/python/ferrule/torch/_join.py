"""Uneven inputs: DistributedDataParallel's join() context.

A rank that has run out of batches goes on answering the others' all-reduces with zero gradients, through the same hook. It
still delivers its residual, so nothing is lost. Who divides by what is torch's choice: by all ranks, or
(divide_by_initial_world_size=False) by those that still have batches, whose number the hook has to find out itself.
"""

import functools
import weakref

import torch


class Join:
    """Whether this step is another rank's, and by how many ranks to divide. One for each model."""

    def __init__(self, ddp_model: torch.nn.Module):
        self._model = weakref.ref(ddp_model)
        self.is_shadow = False
        # torch's own entry for such steps; nothing else tells the hook that there is no backward pass behind a bucket.
        original = getattr(type(ddp_model), "_match_all_reduce_for_bwd_pass", None)
        if original is not None:
            ddp_model._match_all_reduce_for_bwd_pass = functools.partial(self._shadow, original)

    def divides_by_live_ranks(self) -> bool:
        """The same on all ranks."""
        model = self._model()
        config = getattr(model, "_join_config", None)
        return bool(config and config.enable) and not getattr(model, "_divide_by_initial_world_size", True)

    def _shadow(self, original) -> None:
        self.is_shadow = True
        try:
            original(self._model())
        finally:
            self.is_shadow = False
