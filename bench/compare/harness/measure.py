"""Turns: every contestant of a case is measured once in each round, so that all get the same share of bad minutes."""

import contextlib
import dataclasses
import pathlib
import statistics
import sys
import time

from .contestants import Contestant, Place
from .group import ContestantFailed, Group, close
from .links import Link

#: What a contestant needs for a case, in tensors a rank: input, result, and twice as much for itself.
_TENSORS_A_RANK = 4
#: Small all-reduces are timed several at a time: the clock starts when a rank leaves a barrier, and the last one
#: leaves some microseconds after the first.
_BYTES_A_TIME = 1 << 20
_MOST_AT_A_TIME = 64


@dataclasses.dataclass
class Plan:
    sizes: list[int]
    places: list[bool]  # in place?
    rounds: int
    turn_s: float
    most_iterations: int
    seed: int
    timeout_s: float
    build: pathlib.Path


@dataclasses.dataclass
class Entry:
    """A contestant in a case, with its turns."""

    name: str
    is_ferrule: bool
    group: Group
    iterations: int = 1
    warmup: int = 1
    turns_us: list[float] = dataclasses.field(default_factory=list)  # median of each turn, of one all-reduce
    verdict: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    link: str
    ranks: int
    bytes: int
    in_place: bool
    repeat: int
    entries: list[Entry]
    out: dict[str, str] = dataclasses.field(default_factory=dict)  # contestant -> why it is out


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def available_bytes() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def combine(answers: list[dict]) -> dict:
    """One verdict of all ranks' findings: their shares cover every element, equal digests every rank."""

    def total(field: str) -> float | None:
        values = [answer[field] for answer in answers]
        return None if None in values else sum(values)

    squares, value_squares = total("error_squares"), total("value_squares")
    relative = None if squares is None or not value_squares else (squares / value_squares) ** 0.5
    errors = [answer["max_error"] for answer in answers]
    return {
        "checked": total("checked"),
        "wrong": total("wrong"),
        "relative_error": relative,
        "max_error": None if None in errors else max(errors),
        "identical": len({answer["digest"] for answer in answers}) == 1,
        "bounded": all(answer.get("bounded", True) for answer in answers),
        "wire_bytes": max(answer["wire_bytes"] for answer in answers) or None,
    }


class Bench:
    """All cases of one link and number of ranks: contestants live as long as it does."""

    def __init__(self, link: Link, ranks: int, plan: Plan, folder: pathlib.Path):
        self.link = link
        self.ranks = ranks
        self.plan = plan
        self.folder = folder
        self.skipped: dict[str, str] = {}  # contestant -> why
        self.failed: dict[str, str] = {}
        self.idle: dict[str, list[float]] = {}  # contestant -> [processor seconds, seconds] of others' turns
        self._contestants: list[Contestant] = []
        self._groups: dict[str, Group] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        close(list(self._groups.values()))

    def start(self, contestants: list[Contestant]) -> None:
        for number, contestant in enumerate(contestants):
            folder = self.folder / str(number)
            place = Place(
                self.link, self.ranks, folder, folder / "socket", self.plan.build.resolve(), self.plan.timeout_s
            )
            why = contestant.why_not(place)
            if why:
                self.skipped[contestant.spec] = why
                continue
            group = Group(contestant.spec, self.ranks, folder, self.plan.timeout_s)
            self._groups[contestant.spec] = group  # before it starts: it is to be closed either way
            self._contestants.append(contestant)
            group.start(contestant.commands(place))
        for name, group in list(self._groups.items()):
            try:
                group.meet()
            except ContestantFailed as error:
                self._drop(name, str(error))

    def _drop(self, name: str, why: str) -> None:
        """It is out from here on."""
        say(f"{name} is out: {why}")
        self.failed[name] = why
        self._contestants = [contestant for contestant in self._contestants if contestant.spec != name]
        close([self._groups.pop(name)])

    def _repeat(self, size: int) -> int:
        if self.link.kind == "latency":
            return 1
        return max(1, min(_MOST_AT_A_TIME, _BYTES_A_TIME // max(size, 1)))

    def cases(self):
        """Measures case after case."""
        for size in self.plan.sizes:
            for in_place in self.plan.places:
                yield self._measure(size, in_place)

    def _measure(self, size: int, in_place: bool) -> Case:
        case = Case(self.link.name, self.ranks, size, in_place, self._repeat(size), [])
        for contestant in self._contestants:
            why = contestant.why_not_in(in_place)
            if why:
                case.out[contestant.spec] = why
            else:
                case.entries.append(Entry(contestant.spec, contestant.is_ferrule, self._groups[contestant.spec]))
        one = _TENSORS_A_RANK * self.ranks * size * case.repeat
        memory = available_bytes()
        if one > memory:
            why = f"{one >> 20} MiB are needed, {memory >> 20} MiB are free"
            case.out.update({entry.name: why for entry in case.entries})
            case.entries = []
            return case
        # Where they do not fit side by side, each has its tensors only during its turn.
        _Turns(self, case, keep=one * len(case.entries) <= memory).all()
        return case


class _Turns:
    def __init__(self, bench: Bench, case: Case, keep: bool):
        self._bench = bench
        self._case = case
        self._keep = keep
        self._prepare = f"prepare {case.bytes} {case.repeat} {bench.plan.seed}"

    def all(self) -> None:
        case, plan = self._case, self._bench.plan
        self._each(case.entries, self._verify)
        self._each(case.entries, self._calibrate)
        for number in range(plan.rounds):
            first = number % max(len(case.entries), 1)
            self._each(case.entries[first:] + case.entries[:first], self._turn)
        if self._keep:
            self._each(case.entries, lambda entry: entry.group.ask("release"))

    def _each(self, entries: list[Entry], action) -> None:
        for entry in list(entries):
            try:
                with self._watching_others(entry), self._tensors(entry, action):
                    action(entry)
            except ContestantFailed as error:
                self._case.entries = [other for other in self._case.entries if other is not entry]
                self._case.out[entry.name] = str(error)
                self._bench._drop(entry.name, str(error))

    @contextlib.contextmanager
    def _tensors(self, entry: Entry, action):
        if not self._keep or action == self._verify:
            entry.group.ask(self._prepare)
        yield
        if not self._keep:
            entry.group.ask("release")

    @contextlib.contextmanager
    def _watching_others(self, entry: Entry):
        """Those whose turn it is not must sleep, or the figures are theirs too."""
        others = [other for other in self._case.entries if other is not entry]
        before = {other.name: other.group.cpu_seconds() for other in others}
        start = time.monotonic()
        yield
        elapsed = time.monotonic() - start
        for other in others:
            used = self._bench.idle.setdefault(other.name, [0.0, 0.0])
            used[0] += other.group.cpu_seconds() - before[other.name]
            used[1] += elapsed

    def _verify(self, entry: Entry) -> None:
        entry.verdict = combine(entry.group.ask(f"verify {int(self._case.in_place)}"))
        if entry.verdict["wire_bytes"]:
            entry.verdict["wire_bytes"] //= self._case.repeat

    def _run(self, entry: Entry) -> float:
        """Median of one all-reduce in this turn, in microseconds. An iteration lasts until its slowest rank ends."""
        answers = entry.group.ask(f"run {entry.warmup} {entry.iterations} {int(self._case.in_place)}")
        slowest = [max(times) for times in zip(*(answer["times_ns"] for answer in answers), strict=True)]
        return statistics.median(slowest) / 1e3 / self._case.repeat

    def _calibrate(self, entry: Entry) -> None:
        seconds = self._run(entry) * 1e-6 * self._case.repeat
        plan = self._bench.plan
        entry.iterations = int(min(plan.most_iterations, max(1, plan.turn_s / max(seconds, 1e-9))))

    def _turn(self, entry: Entry) -> None:
        entry.turns_us.append(self._run(entry))
