"""How a DDP bucket is cut into units.

A bucket is a flat tensor with the gradients of some parameters in a row. Those that share a codec go into one
all-reduce, whatever order they stand in: so a bucket costs as many collectives as it has codecs, commonly two (the
large matrices, and the exact rest). A unit that does not lie in a row in the bucket is packed into a scratch tensor.
"""

import dataclasses
import zlib

import numpy
import torch

from ferrule._ferrule import Residual
from ferrule.torch._rules import EXACT


@dataclasses.dataclass(frozen=True)
class Piece:
    """One parameter's gradient in a unit (elements)."""

    name: str
    start: int
    count: int


class Unit:
    """Those gradients that go through one all-reduce together, and what compression has left behind of them.

    Lives on when DDP regroups its buckets and the same gradients stay together; blocks, chunks and random bits depend on
    the unit alone.
    """

    def __init__(self, codec: str, sizes: dict[str, int], error_feedback: bool):
        self.codec = codec
        self.pieces: list[Piece] = []
        self.count = 0
        for name, count in sizes.items():
            self.pieces.append(Piece(name, self.count, count))
            self.count += count
        # The same on every rank and after a restart, because it comes from the parameters' names.
        self.tensor_id = zlib.crc32("\n".join(sizes).encode())
        self.residual = Residual(self.count) if error_feedback and codec != EXACT else None
        # By codec, what "auto" has chosen; a restart must not choose again, because sums round otherwise then.
        self.algorithms: dict[str, str] = {}
        self.holds_residual = self.residual is not None  # False: known to be all zeros
        self._before: Residual | None = None

    def names(self) -> list[str]:
        return [piece.name for piece in self.pieces]

    def keep(self) -> None:
        """Copies the residual for roll_back(): as much memory again, and one pass over it."""
        if self.residual is not None:
            self._before = self._before or Residual(self.count)
            self._before.copy_from(self.residual)

    def roll_back(self, piece: Piece | None = None) -> None:
        """The residual, or one parameter's part of it, is as it was at keep(). The whole: once for each keep()."""
        if self.residual is None or self._before is None:
            return
        if piece is None:
            self.residual, self._before = self._before, self.residual
        else:
            self.residual.assign(self._before.numpy(piece.start, piece.count), piece.start)
        self.holds_residual = True

    def forget(self, piece: Piece) -> None:
        """Zeroes one parameter's part of the residual."""
        if self.residual is not None:
            self.residual.assign(numpy.zeros(piece.count, numpy.float32), piece.start)


class Part:
    """Where a unit lies in a bucket."""

    def __init__(self, unit: Unit, starts: dict[str, int], dtype: torch.dtype):
        self.unit = unit
        self._starts = [(starts[piece.name], piece.count) for piece in unit.pieces]
        self._runs = _merge(self._starts)
        self._scratch = torch.empty(unit.count, dtype=dtype) if len(self._runs) > 1 else None

    def gather(self, bucket: torch.Tensor) -> torch.Tensor:
        """The unit's gradients in a row: a view of the bucket where they stand so, else the scratch tensor."""
        if self._scratch is None:
            return bucket.narrow(0, *self._runs[0])
        return torch.cat([bucket.narrow(0, start, count) for start, count in self._runs], out=self._scratch)

    def scatter(self, bucket: torch.Tensor) -> None:
        """Brings a packed unit's results back into the bucket."""
        if self._scratch is None:
            return
        at = 0
        for start, count in self._runs:
            bucket.narrow(0, start, count).copy_(self._scratch.narrow(0, at, count))
            at += count

    def views(self, bucket: torch.Tensor) -> list[torch.Tensor]:
        """Each parameter's gradient in the bucket, in the order of the unit's pieces."""
        return [bucket.narrow(0, start, count) for start, count in self._starts]


@dataclasses.dataclass(frozen=True)
class Layout:
    """One bucket, cut."""

    parts: list[Part]


def _merge(starts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring pieces as runs of (start, count) in the bucket."""
    runs: list[tuple[int, int]] = []
    for start, count in starts:
        if runs and sum(runs[-1]) == start:
            runs[-1] = (runs[-1][0], runs[-1][1] + count)
        else:
            runs.append((start, count))
    return runs


def count_in_bucket(parameter: torch.Tensor) -> int:
    """Elements of its gradient there: DDP keeps complex numbers as pairs of real ones."""
    return parameter.numel() * (2 if parameter.is_complex() else 1)


def starts_of(sizes: dict[str, int]) -> dict[str, int]:
    """Where each parameter begins in a bucket that holds them in this order."""
    starts, at = {}, 0
    for name, count in sizes.items():
        starts[name] = at
        at += count
    return starts
