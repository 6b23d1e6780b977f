"""How a DDP bucket is cut: what is compressed, what stays exact, and where each parameter's residual lies.

A bucket is a flat tensor with the gradients of some parameters in a row. Its large matrices go into one compressed
all-reduce and the rest into one exact all-reduce, whatever order they stand in: so a bucket costs two collectives at
most. Where a part is not contiguous in the bucket it is packed into a scratch tensor of its own.
"""

import dataclasses
import zlib

import torch

from ferrule._ferrule import Residual


@dataclasses.dataclass(frozen=True)
class Piece:
    """One parameter's gradient in a part of the bucket (elements)."""

    name: str
    bucket_start: int
    part_start: int
    count: int


class Part:
    """Those gradients of a bucket that go through one all-reduce together."""

    def __init__(self, pieces: list[Piece], dtype: torch.dtype):
        self.pieces = pieces
        self.count = sum(piece.count for piece in pieces)
        self._runs = _merge(pieces)
        self._scratch = torch.empty(self.count, dtype=dtype) if len(self._runs) > 1 else None

    def gather(self, bucket: torch.Tensor) -> torch.Tensor:
        """The part's gradients in a row: a view of the bucket where they stand so, else the scratch tensor."""
        views = [bucket.narrow(0, start, count) for start, count in self._runs]
        if self._scratch is None:
            return views[0]
        return torch.cat(views, out=self._scratch)

    def scatter(self, bucket: torch.Tensor) -> None:
        """Brings a packed part's results back into the bucket."""
        if self._scratch is None:
            return
        at = 0
        for start, count in self._runs:
            bucket.narrow(0, start, count).copy_(self._scratch.narrow(0, at, count))
            at += count


def _merge(pieces: list[Piece]) -> list[tuple[int, int]]:
    """Neighbouring pieces as runs of (start, count) in the bucket."""
    runs: list[tuple[int, int]] = []
    for piece in pieces:
        if runs and runs[-1][0] + runs[-1][1] == piece.bucket_start:
            runs[-1] = (runs[-1][0], runs[-1][1] + piece.count)
        else:
            runs.append((piece.bucket_start, piece.count))
    return runs


class Layout:
    """One bucket's parts. `residual` belongs to the compressed part; None without error feedback."""

    def __init__(self, lossy: Part | None, exact: Part | None, error_feedback: bool):
        self.lossy = lossy
        self.exact = exact
        self.residual = Residual(lossy.count) if lossy and error_feedback else None
        # The same on every rank and after a restart, because it comes from the parameters' names.
        self.tensor_id = zlib.crc32("\n".join(piece.name for piece in lossy.pieces).encode()) if lossy else 0


def is_compressible(parameter: torch.Tensor, dtype: torch.dtype, min_elements: int) -> bool:
    """Large matrices and convolutions. Biases, norms, small tensors and float64 stay exact."""
    lossy_dtype = dtype in (torch.float32, torch.float16, torch.bfloat16)
    return lossy_dtype and parameter.dim() > 1 and parameter.numel() >= min_elements


def cut(named: list[tuple[str, torch.Tensor]], dtype: torch.dtype, min_elements: int | None) -> tuple[
    Part | None, Part | None
]:
    """(compressed part, exact part) of a bucket that holds these parameters in this order. min_elements None: nothing
    is compressed."""
    lossy: list[Piece] = []
    exact: list[Piece] = []
    at = 0
    for name, parameter in named:
        chosen = min_elements is not None and is_compressible(parameter, dtype, min_elements)
        pieces = lossy if chosen else exact
        part_start = pieces[-1].part_start + pieces[-1].count if pieces else 0
        pieces.append(Piece(name, at, part_start, parameter.numel()))
        at += parameter.numel()
    return (Part(lossy, dtype) if lossy else None, Part(exact, dtype) if exact else None)
