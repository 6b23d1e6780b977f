"""Residuals by parameter, kept flat per unit.

DDP rebuilds its buckets after the first iteration (and may do so again), so a residual must follow its parameter and
never the bucket's index. Each parameter has one home: the unit that holds it. A new unit takes its parameters' values
out of their old homes.
"""

import numpy
import torch

from ferrule.torch._layout import Layout, Part, Unit, count_in_bucket, starts_of
from ferrule.torch._rules import EXACT, Rules

# Of each unit: codec, parameters, algorithm by codec.
Plan = list[tuple[str, list[str], dict[str, str]]]


class LayoutTable:
    """The layouts in use, by the parameters that a bucket holds and their order."""

    def __init__(self, names: dict[int, str], rules: Rules, error_feedback: bool):
        self._names = names
        self._rules = rules
        self._error_feedback = error_feedback
        self._layouts: dict[tuple, Layout] = {}
        self._homes: dict[str, Unit] = {}
        self._loaded: dict[str, numpy.ndarray] = {}
        self._plan: Plan = []

    def find(self, parameters: list[torch.Tensor], dtype: torch.dtype) -> Layout:
        """The layout of a bucket; made when it is new. No collective of the old layouts may be under way then."""
        key = (dtype, *map(id, parameters))
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._make(parameters, dtype)
            self._layouts[key] = layout
        return layout

    def units(self) -> list[Unit]:
        """Those in use; in the same order on all ranks."""
        return list(dict.fromkeys(self._homes.values()))

    def counts(self) -> tuple[int, int]:
        """Parameters (compressed, exact) in the units in use."""
        exact = sum(unit.codec == EXACT for unit in self._homes.values())
        return len(self._homes) - exact, exact

    def scale(self, factor: float) -> None:
        """Multiplies all residuals."""
        for unit in self.units():
            if unit.residual is not None:
                unit.residual.scale(factor)
        self._loaded = {name: value * numpy.float32(factor) for name, value in self._loaded.items()}

    def values(self) -> dict[str, numpy.ndarray]:
        """A copy of every residual, by parameter name."""
        values = dict(self._loaded)
        for unit in self.units():
            if unit.residual is not None:
                whole = unit.residual.numpy()
                values |= {piece.name: whole[piece.start : piece.start + piece.count] for piece in unit.pieces}
        return values

    def plan(self) -> Plan:
        """Which parameters share a unit, and how it is reduced: what load() needs to do the same again."""
        return [(unit.codec, unit.names(), unit.algorithms) for unit in self.units()] or self._plan

    def load(self, values: dict[str, numpy.ndarray], plan: Plan) -> None:
        """Replaces all residuals; those of parameters that are not named start at zero."""
        self._layouts.clear()
        self._homes.clear()
        self._plan = plan
        self._loaded = {name: numpy.array(value, dtype=numpy.float32).reshape(-1) for name, value in values.items()}

    def _make(self, parameters: list[torch.Tensor], dtype: torch.dtype) -> Layout:
        named = {self._names.get(id(parameter), f"#{i}"): parameter for i, parameter in enumerate(parameters)}
        sizes = {name: count_in_bucket(parameter) for name, parameter in named.items()}
        codecs = {name: self._rules.codec_of(name, parameter, dtype) for name, parameter in named.items()}
        units = [self._unit(codecs[names[0]], {name: sizes[name] for name in names}) for names in self._cut(codecs)]
        # A parameter is in one bucket at a time: layouts that held one of these have had their day.
        ids = set(map(id, parameters))
        self._layouts = {key: old for key, old in self._layouts.items() if ids.isdisjoint(key[1:])}
        starts = starts_of(sizes)
        return Layout([Part(unit, starts, dtype) for unit in units])

    def _cut(self, codecs: dict[str, str]) -> list[list[str]]:
        """Names by unit. As a checkpoint's plan says where that fits this bucket, so that a resumed run has the blocks of
        the interrupted one although DDP begins again with other buckets; else one unit for each codec."""
        planned = [(codec, names) for codec, names, _ in self._plan if not codecs.keys().isdisjoint(names)]
        flat = [(name, codec) for codec, names in planned for name in names]
        if dict(flat) == codecs and len(flat) == len(codecs):
            return [names for _, names in planned]
        self._plan = []
        groups: dict[str, list[str]] = {}
        for name, codec in codecs.items():
            groups.setdefault(codec, []).append(name)
        return [groups[codec] for codec in sorted(groups, key=lambda codec: codec == EXACT)]

    def _unit(self, codec: str, sizes: dict[str, int]) -> Unit:
        """The unit in use if it holds just these, else a new one with their residuals."""
        old = self._homes.get(next(iter(sizes)))
        if old is not None and old.codec == codec and old.names() == list(sizes):
            return old
        unit = Unit(codec, sizes, self._error_feedback)
        unit.algorithms |= next((algorithms for _, names, algorithms in self._plan if names == unit.names()), {})
        if unit.residual is not None:
            unit.residual.assign(self._values_for(unit))
        self._homes |= dict.fromkeys(sizes, unit)
        return unit

    def _values_for(self, unit: Unit) -> numpy.ndarray:
        values = numpy.zeros(unit.count, dtype=numpy.float32)
        for piece in unit.pieces:
            old = self._take(piece.name)
            if old is not None and old.size == piece.count:
                values[piece.start : piece.start + piece.count] = old
        return values

    def _take(self, name: str) -> numpy.ndarray | None:
        """A parameter's residual, out of where it was last."""
        home = self._homes.get(name)
        if home is not None and home.residual is not None:
            piece = next(piece for piece in home.pieces if piece.name == name)
            return home.residual.numpy(piece.start, piece.count)
        return self._loaded.pop(name, None)
