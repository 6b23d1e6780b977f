"""Options, and the order of things."""

import argparse
import json
import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile
import time

from . import plot, report
from .contestants import Contestant, parse_contestants
from .links import Link, LinkError, Namespaces, parse_link
from .measure import Bench, Case, Plan, say

_TOP = pathlib.Path(__file__).resolve().parents[3]
_EXIT_OK, _EXIT_WRONG, _EXIT_USAGE, _EXIT_FAILED = range(4)
_IDLE_LIMIT = 0.05  # processors

_EPILOG = """\
contestants, separated by commas:
  ferrule:CODEC[@ALGORITHM][?SETTING=VALUE;...]   e.g. ferrule:none, ferrule:int4:block=64@direct,
                  'ferrule:none?FERRULE_SLICE=64K', 'ferrule:none?BUILD=build/other' (another build folder)
  ompi            MPI_Allreduce: ompi:vader, ompi:ucx, ompi:tcp, those that the link has; or one of them
  gloo            torch.distributed.all_reduce
  hook            torch's DDP hooks over gloo: hook:fp16, hook:powersgd:1, hook:powersgd:4; or one of them
links:
  shm             shared memory
  tcp             loopback device
  netns[:RATE]    a network namespace for each rank, each cable shaped both ways (1gbit); needs root
  latency:TIME    Ferrule's throttle, e.g. latency:10ms or latency:1gbit+10ms; peers sit out
exit status: 0 fine, 1 a result is wrong or ranks differ, 2 bad arguments, 3 a contestant or a link failed.
A peer that is not installed is left out, and the table says why.
"""


def parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip().upper())
    if not match or int(match[1]) == 0:
        raise ValueError(f"bad size '{text}': e.g. 4K, 64M")
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    if size % 4:
        raise ValueError(f"bad size '{text}': whole fp32 elements are multiples of 4 bytes")
    return size


def _listed(parse):
    def parse_all(text: str) -> list:
        try:
            return [parse(word) for word in text.split(",") if word]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_all


def _whole(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"'{text}' is no positive number")
    return int(text)


def _contestants(text: str) -> list[Contestant]:
    try:
        return parse_contestants(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not above 0")
    return value


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/compare/run",
        description="Ferrule and its peers, measured in turns on the same links.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--contestants", type=_contestants, default="ferrule:none,ferrule:int4,ompi,gloo,hook")
    add("--links", type=_listed(parse_link), default="shm,tcp,netns")
    add("--sizes", type=_listed(parse_size), default="4K,64K,1M,16M,64M", help="bytes of the tensor on each rank")
    add("--ranks", type=_listed(_whole), default="4", help="numbers of ranks, e.g. 2,4,8")
    add("--place", choices=("in", "out", "both"), default="both", help="in place, out of place, or both")
    add("--rounds", type=_whole, default=10, help="turns of each contestant, and so pairs (10)")
    add("--iterations", type=_whole, default=20, help="most iterations in a turn (20)")
    add("--turn", type=_positive, default=0.3, help="seconds that a turn is meant to take (0.3)")
    add("--seed", type=_whole, default=1)
    add("--nice", type=int, default=0, help="niceness of all contestants; below 0 needs root")
    add("--timeout", type=_positive, default=120.0, help="seconds that anything may take before it has failed (120)")
    add("--build", type=pathlib.Path, default=_TOP / "build" / "release", help="build folder (build/release)")
    add("-o", "--output", type=pathlib.Path, help="folder for results.json, table.txt, ratios.png (build/compare/TIME)")
    add("--quick", action="store_true", help="a few seconds: does it work? Its figures say nothing")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.iterations, options.turn = min(options.rounds, 2), 2, 0.01
    return options


def make_plan(options: argparse.Namespace) -> Plan:
    places = {"in": [True], "out": [False], "both": [True, False]}[options.place]
    return Plan(
        sizes=options.sizes,
        places=places,
        rounds=options.rounds,
        turn_s=options.turn,
        most_iterations=options.iterations,
        seed=options.seed,
        timeout_s=options.timeout,
        build=options.build,
    )


class Results:
    def __init__(self, options: argparse.Namespace):
        self._options = options
        self._started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.cases: list[Case] = []
        self.skipped: list[dict] = []
        self.idle: list[dict] = []
        self.failed = False

    def note(self, link: str, ranks: int, name: str, why: str) -> None:
        self.skipped.append({"link": link, "ranks": ranks, "contestant": name, "why": why})

    def exit_code(self) -> int:
        verdicts = [entry.verdict for case in self.cases for entry in case.entries]
        if any(verdict["wrong"] or not verdict["identical"] for verdict in verdicts):
            return _EXIT_WRONG
        return _EXIT_FAILED if self.failed else _EXIT_OK

    def json(self) -> dict:
        names = ("rounds", "iterations", "turn", "seed", "nice", "quick")
        plan = {name: getattr(self._options, name) for name in names}
        return {
            "schema": report.SCHEMA,
            "started": self._started,
            "command_line": shlex.join(sys.argv),
            "machine": report.machine(),
            "settings": {**plan, "build": str(self._options.build)},
            "units": report.UNITS,
            "cases": [report.case_json(case) for case in self.cases],
            "skipped": self.skipped,
            "idle_cpu": self.idle,
        }

    def text(self) -> str:
        lines = [report.table(self.cases)] if self.cases else []
        for one in self.skipped:
            lines.append(f"{one['link']}, {one['ranks']} ranks, without {one['contestant']}: {one['why']}")
        for one in self.idle:
            if one["processors"] > _IDLE_LIMIT:
                used = f"{one['contestant']} used {one['processors']:.2f} processors while others were measured"
                lines.append(f"WARNING: {one['link']}, {one['ranks']} ranks: {used}")
        return "\n".join(lines)


def run_bench(link: Link, ranks: int, options: argparse.Namespace, folder: pathlib.Path, results: Results) -> None:
    with Bench(link, ranks, make_plan(options), folder) as bench:
        say(f"{link.name}, {ranks} ranks: starting")
        bench.start(options.contestants)
        for case in bench.cases():
            results.cases.append(case)
            say(report.table([case]).strip("\n"))
        for name, why in {**bench.skipped, **bench.failed}.items():
            results.note(link.name, ranks, name, why)
        results.failed = results.failed or bool(bench.failed)
        for name, (used, elapsed) in bench.idle.items():
            processors = used / max(elapsed, 1e-9)
            results.idle.append({"link": link.name, "ranks": ranks, "contestant": name, "processors": processors})


def run_link(link: Link, ranks: int, options: argparse.Namespace, folder: pathlib.Path, results: Results) -> None:
    if isinstance(link, Namespaces):
        why = link.why_not()
        if why:
            results.note(link.name, ranks, "everybody", why)
            return
    with link:
        try:
            if isinstance(link, Namespaces):
                link.build(ranks)
        except LinkError as error:
            results.note(link.name, ranks, "everybody", str(error))
            results.failed = True
            return
        run_bench(link, ranks, options, folder, results)


def write(results: Results, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = results.json()
    (folder / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "table.txt").write_text(results.text().strip("\n") + "\n")
    written = ["results.json", "table.txt"]
    try:
        plot.draw(document, str(folder / "ratios.png"))
        written.append("ratios.png")
    except (ImportError, ValueError) as error:
        say(f"no picture: {error}")
    say(f"written to {folder}: {', '.join(written)}")


def run_all(options: argparse.Namespace, results: Results) -> None:
    # A short path: a socket's may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="fcmp-") as folder:
        for number, link in enumerate(options.links):
            for ranks in options.ranks:
                run_link(link, ranks, options, pathlib.Path(folder) / f"{number}-{ranks}", results)


def _end(signal_number, _frame) -> None:
    raise SystemExit(128 + signal_number)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    if options.nice:
        try:
            os.nice(options.nice)  # children inherit it
        except PermissionError:
            say(f"--nice {options.nice} needs root")
            return _EXIT_USAGE
    results = Results(options)
    output = options.output or _TOP / "build" / "compare" / time.strftime("%Y-%m-%dT%H-%M-%S")
    try:
        run_all(options, results)
        code = results.exit_code()
    except KeyboardInterrupt:
        say("interrupted: cases that were finished are shown")
        code = 128 + signal.SIGINT
    print(results.text().strip("\n"))
    write(results, output)
    return code


if __name__ == "__main__":
    sys.exit(main())
