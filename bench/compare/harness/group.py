"""The ranks of one contestant: started, asked, stopped. Ranks sleep in a read of their socket between turns."""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

_PR_SET_PDEATHSIG = 1
_QUIT_S = 5
_TERM_S = 2
_TICKS = os.sysconf("SC_CLK_TCK")


class ContestantFailed(RuntimeError):
    """A rank failed, died or did not answer in time; the text says which and why."""


@dataclasses.dataclass
class Command:
    """A process to start: one rank, or a launcher of all ranks."""

    argv: list[str]
    env: dict[str, str] = dataclasses.field(default_factory=dict)


def _die_with_driver() -> None:
    """Even SIGKILL of the driver ends the ranks."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's, without what a launcher or an earlier experiment left for Ferrule, and one thread a rank."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("FERRULE_", "OMPI_", "UCX_"))}
    return {**inherited, "OMP_NUM_THREADS": "1", **extra}


class Group:
    def __init__(self, name: str, ranks: int, folder: pathlib.Path, timeout_s: float):
        self.name = name
        self.ranks = ranks
        self.timeout_s = timeout_s
        self.about = ""
        folder.mkdir(parents=True)
        self.folder = folder
        self.socket_path = folder / "socket"
        self._log = open(folder / "log", "w+b")
        self._processes: list[subprocess.Popen] = []
        self._streams: list = []
        self._pids: list[int] = []
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.socket_path))
        self._server.listen(ranks)

    def start(self, commands: list[Command]) -> None:
        """Does not wait for them: see meet()."""
        for command in commands:
            self._processes.append(
                subprocess.Popen(
                    command.argv,
                    env=environment(command.env),
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    start_new_session=True,
                    preexec_fn=_die_with_driver,
                )
            )

    def meet(self) -> None:
        """Until every rank has said hello."""
        deadline = time.monotonic() + self.timeout_s
        self._server.settimeout(0.1)
        hellos = []
        while len(hellos) < self.ranks:
            with contextlib.suppress(TimeoutError):
                connection, _ = self._server.accept()
                connection.settimeout(self.timeout_s)
                stream = connection.makefile("rw")
                connection.close()  # the stream has it now
                hellos.append((self._read(stream, "a rank"), stream))
                continue
            ended = [process.poll() for process in self._processes]
            if any(code is not None for code in ended):
                raise self._failure(f"a process ended with {[code for code in ended if code is not None][0]}")
            if time.monotonic() > deadline:
                raise self._failure(f"{len(hellos)} of {self.ranks} ranks came within {self.timeout_s:g} s")
        hellos.sort(key=lambda pair: pair[0]["rank"])
        self._streams = [stream for _, stream in hellos]
        self._pids = [hello["pid"] for hello, _ in hellos]
        self.about = hellos[0][0]["about"]

    def _failure(self, what: str) -> ContestantFailed:
        return ContestantFailed(f"{what}; {self.log_tail()}".rstrip("; "))

    def log_tail(self) -> str:
        """The last lines that the ranks wrote, on one line."""
        text = (self.folder / "log").read_bytes().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" -\t")]
        return " | ".join(lines[-6:])[-1000:]

    def _read(self, stream, who: str) -> dict:
        try:
            line = stream.readline()
        except TimeoutError:
            raise self._failure(f"{who} gave no answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise self._failure(f"{who}: {error}") from None
        if not line:
            time.sleep(0.2)  # its last words are still on their way into the log
            raise self._failure(f"{who} has died")
        return json.loads(line)

    def ask(self, line: str) -> list[dict]:
        """Sends a command to all ranks; their answers in order of rank."""
        for rank, stream in enumerate(self._streams):
            try:
                stream.write(line + "\n")
                stream.flush()
            except OSError as error:
                raise self._failure(f"rank {rank}: {error}") from None
        answers = [self._read(stream, f"rank {rank}") for rank, stream in enumerate(self._streams)]
        for rank, answer in enumerate(answers):
            if "error" in answer:
                raise ContestantFailed(f"rank {rank}: {answer['error']}")
        return answers

    def cpu_seconds(self) -> float:
        """Processor time of all ranks so far, all threads."""
        total = 0
        for pid in self._pids:
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / _TICKS

    def say_quit(self) -> None:
        for stream in self._streams:
            with contextlib.suppress(OSError, ValueError):
                stream.write("quit\n")
                stream.flush()

    def signal(self, number: int) -> None:
        """To whole sessions: launchers have children of their own."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def kill_ranks(self) -> None:
        """Ranks that outlived their launcher. The socket's path tells that it is still the one that said hello."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                if str(self.socket_path).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)

    def wait_until(self, deadline: float) -> None:
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))

    def free(self) -> None:
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        self._server.close()
        self._log.close()


def close(groups: list[Group]) -> None:
    """Ends them all, together: politely, then less so. Afterwards none of their processes is left."""

    def wait_all(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for group in groups:
            group.wait_until(deadline)

    for group in groups:
        group.say_quit()
    wait_all(_QUIT_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            group.signal(number)
        wait_all(_TERM_S)
    for group in groups:
        group.kill_ranks()
        group.free()
