"""Pairwise ratios: the peer's time over Ferrule's in the same round, so that both have seen the same minute."""

import dataclasses
import statistics

from .measure import Case, Entry


@dataclasses.dataclass
class Spread:
    median: float
    q1: float
    q3: float


@dataclasses.dataclass
class Ratio:
    """Above 1: `base` is faster than `other`."""

    other: str
    base: str
    spread: Spread
    values: list[float]


def spread(values: list[float]) -> Spread:
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, q1, q3)


def ratio(other: Entry, base: Entry) -> Ratio:
    values = [a / b for a, b in zip(other.turns_us, base.turns_us, strict=False)]
    return Ratio(other.name, base.name, spread(values), values)


def family(name: str) -> str:
    return name.partition(":")[0]


def best_ompi(entries: list[Entry]) -> Entry | None:
    """The variant of Open MPI with the lowest median in this case: its users would pick that."""
    variants = [entry for entry in entries if family(entry.name) == "ompi"]
    return min(variants, key=lambda entry: statistics.median(entry.turns_us), default=None)


def ratios(case: Case) -> list[Ratio]:
    """Of every contestant to every Ferrule; among Ferrules, of the later to the earlier."""
    bases = [entry for entry in case.entries if entry.is_ferrule]
    made = []
    for number, base in enumerate(bases):
        others = [entry for entry in case.entries if not entry.is_ferrule] + bases[number + 1 :]
        made += [ratio(other, base) for other in others]
        best = best_ompi(case.entries)
        if best is not None:
            made.append(dataclasses.replace(ratio(best, base), other="ompi:best"))
    return made
