"""Starts the ranks of a training run on this machine, and leaves none behind."""

import contextlib
import ctypes
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile

from ferrule._ferrule import library_info

_PR_SET_PDEATHSIG = 1
_GRACE_S = 5


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_parent() -> None:
    """Even SIGKILL of the driver ends the ranks."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _job_secret() -> dict[str, str]:
    """A secret that only these ranks know, unless there is one, or the library was built without authentication."""
    if os.environ.get("FERRULE_JOB_SECRET") or os.environ.get("FERRULE_JOB_SECRET_FILE"):
        return {}
    return {"FERRULE_JOB_SECRET": secrets.token_hex(32)} if "authentication: libsodium" in library_info() else {}


def _environment(rank: int, ranks: int, port: int, link: str | None, secret: dict[str, str]) -> dict[str, str]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    environment.update(secret)
    environment.pop("FERRULE_DISABLE", None)  # the demo is about what it switches off
    if link:
        environment["FERRULE_LINK"] = link
    return environment


class RanksFailed(RuntimeError):
    """A rank ended with an error; the text has the end of what it wrote."""


def _stop(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _check(processes: list[subprocess.Popen], logs: list) -> None:
    """All have ended well, or RanksFailed with the words of one that has not."""
    for rank, (process, log) in enumerate(zip(processes, logs, strict=True)):
        if process.returncode != 0:
            log.seek(0)
            tail = log.read().decode(errors="replace")[-4000:]
            raise RanksFailed(f"rank {rank} ended with {process.returncode}:\n{tail}")


def _wait_all(processes: list[subprocess.Popen]) -> None:
    """Until all have ended; once one has failed the others get a few seconds, then they are stopped."""
    pending = list(processes)
    while pending:
        with contextlib.suppress(subprocess.TimeoutExpired):
            pending[0].wait(0.2)
        pending = [process for process in pending if process.poll() is None]
        if any(process.poll() for process in processes):
            _stop(pending)
            return


def run_ranks(ranks: int, runs: list[dict], link: str | None = None):
    """Trains `runs` one after the other on so many ranks. Yields what rank 0 reports: progress and result records."""
    script = pathlib.Path(__file__).with_name("train.py")
    port = _free_port()
    secret = _job_secret()
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(ranks)]
        processes: list[subprocess.Popen] = []
        stack.callback(_stop, processes)
        for rank in range(ranks):
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(script), "--runs", json.dumps(runs)],
                    env=_environment(rank, ranks, port, link, secret),
                    stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                    stderr=logs[rank],
                    preexec_fn=_die_with_parent,
                )
            )
        for line in processes[0].stdout:
            if line.startswith(b"{"):
                yield json.loads(line)
        _wait_all(processes)
        _check(processes, logs)
