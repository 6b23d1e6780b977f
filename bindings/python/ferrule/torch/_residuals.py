"""Residuals by parameter, kept flat per bucket.

DDP rebuilds its buckets after the first iteration (and may do so again), so a residual must follow its parameter and
never the bucket's index. Each parameter has one home: the layout whose residual holds its values. A new layout takes its
parameters' values out of their old homes.
"""

import numpy
import torch

from ferrule.torch._layout import Layout, cut


class LayoutTable:
    """The layouts in use, by the parameters that a bucket holds and their order."""

    def __init__(self, names: dict[int, str], min_elements: int | None, error_feedback: bool):
        self._names = names
        self._min_elements = min_elements
        self._error_feedback = error_feedback
        self._layouts: dict[tuple, Layout] = {}
        self._homes: dict[str, tuple[Layout, int, int]] = {}  # name -> layout, start and count in its residual
        self._loaded: dict[str, numpy.ndarray] = {}

    def find(self, parameters: list[torch.Tensor], dtype: torch.dtype) -> Layout:
        """The layout of a bucket; made when it is new. No collective of the old layouts may be under way then."""
        key = (dtype, *map(id, parameters))
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._make(parameters, dtype)
            self._layouts[key] = layout
        return layout

    def counts(self) -> tuple[int, int]:
        """Parameters (compressed, exact) in the layouts in use."""
        lossy = sum(len(layout.lossy.pieces) for layout in self._layouts.values() if layout.lossy)
        exact = sum(len(layout.exact.pieces) for layout in self._layouts.values() if layout.exact)
        return lossy, exact

    def values(self) -> dict[str, numpy.ndarray]:
        """A copy of every residual, by parameter name."""
        copies = {id(home[0]): home[0].residual.numpy() for home in self._homes.values()}
        values = {
            name: copies[id(layout)][start : start + count].copy()
            for name, (layout, start, count) in self._homes.items()
        }
        return {**self._loaded, **values}

    def load(self, values: dict[str, numpy.ndarray]) -> None:
        """Replaces all residuals; those of parameters that are not named start at zero."""
        self._layouts.clear()
        self._homes.clear()
        self._loaded = {
            name: numpy.array(value, dtype=numpy.float32).reshape(-1) for name, value in values.items()
        }

    def _make(self, parameters: list[torch.Tensor], dtype: torch.dtype) -> Layout:
        named = [(self._names.get(id(parameter), f"#{i}"), parameter) for i, parameter in enumerate(parameters)]
        layout = Layout(*cut(named, dtype, self._min_elements), self._error_feedback)
        # A parameter is in one bucket at a time: layouts that held one of these have had their day.
        ids = set(map(id, parameters))
        self._layouts = {key: old for key, old in self._layouts.items() if ids.isdisjoint(key[1:])}
        if layout.residual is not None:
            self._move_in(layout)
        return layout

    def _move_in(self, layout: Layout) -> None:
        old_values = self.values()
        values = numpy.zeros(layout.lossy.count, dtype=numpy.float32)
        for piece in layout.lossy.pieces:
            old = old_values.get(piece.name)
            if old is not None and old.size == piece.count:
                values[piece.part_start : piece.part_start + piece.count] = old
            self._loaded.pop(piece.name, None)
            self._homes[piece.name] = (layout, piece.part_start, piece.count)
        layout.residual.assign(values)
