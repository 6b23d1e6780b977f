"""Hands reduced gradients to a buffer in host memory as they arrive, for optimizers that live there."""

from collections.abc import Callable

import torch

from ferrule._errors import FerruleError
from ferrule.torch._layout import Part

OnPiece = Callable[[str, int, int], None]


class Delivery:
    """A flat buffer with every parameter's gradient at an offset of its own, in the order of named_parameters()."""

    def __init__(self, sizes: dict[str, int], buffer: torch.Tensor, on_piece: OnPiece | None):
        total = sum(sizes.values())
        if buffer.dim() != 1 or buffer.numel() < total or buffer.device.type != "cpu" or not buffer.is_contiguous():
            raise FerruleError(
                f"the buffer must be a contiguous CPU tensor with one dimension and at least {total} elements, not "
                f"{tuple(buffer.shape)} on {buffer.device}",
                "invalid_argument",
            )
        self._buffer = buffer
        self._on_piece = on_piece
        self.offsets: dict[str, tuple[int, int]] = {}
        at = 0
        for name, count in sizes.items():
            self.offsets[name] = (at, count)
            at += count

    def take(self, part: Part, bucket: torch.Tensor) -> None:
        """Copies one unit's results, and tells about each. On the completion thread, before backward() ends."""
        for piece, view in zip(part.unit.pieces, part.views(bucket)):
            start, count = self.offsets[piece.name]
            self._buffer.narrow(0, start, count).copy_(view)
            if self._on_piece is not None:
                self._on_piece(piece.name, start, count)
