"""Results as text and as JSON."""

import dataclasses
import os
import pathlib
import platform
import socket
import subprocess

from . import ratios
from .measure import Case, Entry

SCHEMA = 1
UNITS = {
    "time_us": "one all-reduce: in a turn the median of the slowest rank's; then median and quartiles of turns",
    "busbw_gbps": "2(n-1)/n times the uncompressed bytes over the median time, in 1e9 bytes a second",
    "ratios": "time of `other` over time of `base`, pair by pair of the same round; above 1, `base` is faster",
    "wire_bytes": "sent by one rank for one all-reduce, headers included; null where nobody counts",
    "idle_cpu": "processors that a contestant used while others had their turn",
}


def size_label(size: int) -> str:
    value, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:g} {units[0]}"


def time_label(us: float) -> str:
    if us < 1e3:
        return f"{us:.1f} us"
    return f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def busbw_gbps(case: Case, entry: Entry) -> float:
    factor = 2 * (case.ranks - 1) / case.ranks
    return factor * case.bytes / ratios.spread(entry.turns_us).median / 1e3


def check_label(verdict: dict) -> str:
    if not verdict["identical"]:
        return "RANKS DIFFER"
    if verdict["wrong"]:
        return f"{verdict['wrong']} WRONG"
    error = verdict["relative_error"]
    return "exact" if not error else f"error {error:.1e}{'' if verdict['bounded'] else ', no bound'}"


def _ratio_columns(case: Case, name: str) -> list[str]:
    """This contestant's time over that of each Ferrule."""
    found = {(one.other, one.base): one.spread for one in ratios.ratios(case)}
    cells = []
    for base in (entry.name for entry in case.entries if entry.is_ferrule):
        one = found.get((name, base))
        cells.append("" if one is None else f"{one.median:.2f}x [{one.q1:.2f} {one.q3:.2f}]")
    return cells


def _entry_row(case: Case, entry: Entry, best: Entry | None) -> list[str]:
    one = ratios.spread(entry.turns_us)
    name = entry.name + (" (best)" if entry is best else "")
    times = [time_label(one.median), f"{time_label(one.q1)} .. {time_label(one.q3)}"]
    ratios_to = _ratio_columns(case, entry.name)
    return [name, *times, f"{busbw_gbps(case, entry):.3f}", *ratios_to, check_label(entry.verdict)]


def _case_rows(case: Case) -> list[list[str]]:
    best = ratios.best_ompi(case.entries)
    rows = [_entry_row(case, entry, best) for entry in case.entries]
    rows = [[size_label(case.bytes) if number == 0 else "", *row] for number, row in enumerate(rows)]
    return rows


def _format(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def table(cases: list[Case]) -> str:
    """One link, number of ranks and place: sizes below each other. Ratios above 1: Ferrule is faster."""
    parts, groups = [], {}
    for case in cases:
        # The bases head columns of their own, so a contestant that drops out starts another table.
        bases = tuple(entry.name for entry in case.entries if entry.is_ferrule)
        groups.setdefault((case.link, case.ranks, case.in_place, bases), []).append(case)
    for (link, ranks, in_place, bases), members in groups.items():
        rows = [row for case in members for row in _case_rows(case)]
        parts.append(f"\n{link}, {ranks} ranks, {'in place' if in_place else 'out of place'}")
        if rows:
            header = ["size", "contestant", "time", "quartiles", "busbw GB/s", *(f"over {base}" for base in bases)]
            parts.append(_format([*header, "result"], rows))
        reasons = {(name, why) for case in members for name, why in case.out.items()}
        parts += [f"  without {name}: {why}" for name, why in sorted(reasons)]
    return "\n".join(parts)


def entry_json(case: Case, entry: Entry) -> dict:
    return {
        "name": entry.name,
        "about": entry.group.about,
        "time_us": dataclasses.asdict(ratios.spread(entry.turns_us)),
        "turns_us": [round(value, 3) for value in entry.turns_us],
        "iterations_a_turn": entry.iterations,
        "busbw_gbps": busbw_gbps(case, entry),
        **entry.verdict,
    }


def ratio_json(one: ratios.Ratio) -> dict:
    return {
        "other": one.other,
        "base": one.base,
        **dataclasses.asdict(one.spread),
        "pairs": len(one.values),
        "values": [round(value, 4) for value in one.values],
    }


def case_json(case: Case) -> dict:
    best = ratios.best_ompi(case.entries)
    return {
        "link": case.link,
        "ranks": case.ranks,
        "bytes": case.bytes,
        "in_place": case.in_place,
        "repeat": case.repeat,
        "best_ompi": best.name if best else None,
        "contestants": [entry_json(case, entry) for entry in case.entries],
        "ratios": [ratio_json(one) for one in ratios.ratios(case)],
        "out": case.out,
    }


def _first_field(path: str, key: str) -> str:
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _git_commit() -> str:
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def machine() -> dict:
    return {
        "host": socket.gethostname(),
        "cpu": _first_field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _first_field("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "commit": _git_commit(),
    }
