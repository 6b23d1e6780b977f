"""Worker processes: starting them, reading what they tell, taking their stacks when they hang."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field


@dataclass
class Event:
    name: str  # "connecting", "call", "done", "failed", "next", "wrong", ...
    time_ns: int  # CLOCK_MONOTONIC, the same for all processes and for time.monotonic_ns()
    rest: str


@dataclass
class Rank:
    number: int
    process: subprocess.Popen
    events: list[Event] = field(default_factory=list)
    unread: bytes = b""
    killed: bool = False
    ended: bool = False  # and all that it has told was read

    def last(self, name: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.name == name), None)

    def first(self, name: str) -> Event | None:
        return next((event for event in self.events if event.name == name), None)

    def count(self, name: str) -> int:
        return sum(event.name == name for event in self.events)

    @property
    def pid(self) -> int:
        said = self.first("connecting")
        return int(said.rest) if said else self.process.pid

    def finished(self) -> bool:
        """Nothing more is to be expected before the driver lets it go."""
        return self.ended or any(
            self.first(name) for name in ("next", "unconnected", "closed", "wrong")
        )

    def send_signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, number)


class World:
    """The ranks of one run."""

    def __init__(self) -> None:
        self.ranks: list[Rank] = []
        self._selector = selectors.DefaultSelector()

    def start(self, command: list[str], environment: dict[str, str]) -> Rank:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        rank = Rank(len(self.ranks), process)
        self.ranks.append(rank)
        self._selector.register(process.stdout, selectors.EVENT_READ, rank)
        return rank

    def read(self, seconds: float) -> None:
        """Takes in what the ranks have told; returns after `seconds` or as soon as there is something."""
        if not self._selector.get_map():
            time.sleep(min(seconds, 0.01))
            return
        for key, _ in self._selector.select(max(seconds, 0)):
            rank = key.data
            data = os.read(key.fd, 65536)
            if not data:
                self._selector.unregister(key.fileobj)
                rank.process.wait(20)  # it has closed its stdout: it has ended, or is about to
                rank.ended = True
                continue
            *lines, rank.unread = (rank.unread + data).split(b"\n")
            for line in lines:
                name, when, *rest = line.decode(errors="replace").split(" ", 2)
                rank.events.append(Event(name, int(when), rest[0] if rest else ""))

    def read_until(self, condition, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.read(min(left, 0.5))
        return True

    def let_go(self) -> None:
        for rank in self.ranks:
            rank.process.stdin.close()

    def end(self) -> dict[int, str]:
        """Ends what still runs. Returns what each rank has written to stderr."""
        errors = {}
        for rank in self.ranks:
            if rank.process.poll() is None:
                os.killpg(rank.process.pid, signal.SIGKILL)
                rank.process.wait()
            errors[rank.number] = rank.process.stderr.read().decode(errors="replace")
            for stream in (rank.process.stderr, rank.process.stdout):
                stream.close()
        self._selector.close()
        return errors


def stacks_of(rank: Rank) -> str:
    """The stacks of all threads, by whichever tool is there."""
    if rank.process.poll() is not None:
        return f"rank {rank.number} has ended with {rank.process.returncode}"
    pid = str(rank.pid)
    if shutil.which("gdb"):
        command = ["gdb", "-p", pid, "-batch", "-nx", "-ex", "thread apply all backtrace 25"]
    elif shutil.which("eu-stack"):
        command = ["eu-stack", "-p", pid]
    else:
        command = ["sh", "-c", f"cat /proc/{pid}/task/*/stack /proc/{pid}/task/*/wchan"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return f"rank {rank.number}, pid {pid}:\n{done.stdout[-6000:]}"
    except subprocess.TimeoutExpired:
        return f"rank {rank.number}, pid {pid}: {command[0]} hangs, too"
