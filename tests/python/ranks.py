"""Ranks for the tests: threads of this process, or processes of their own. Both with a deadline."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import ferrule

DEADLINE_S = 60
WORKERS = pathlib.Path(__file__).with_name("workers")


def run_threads(size, body, **config):
    """body(comm) on every rank of a local group, one thread each. Returns the results in rank order; raises the first
    error."""
    comms = ferrule.Communicator.local(size, **config)
    results, errors = [None] * size, [None] * size

    def drive(rank):
        try:
            results[rank] = body(comms[rank])
        except BaseException as error:  # handed to the test's thread
            errors[rank] = error

    threads = [threading.Thread(target=drive, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "a rank hangs"
    for comm in comms:
        comm.close()
    for error in errors:
        if error is not None:
            raise error
    return results


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_process(script, *arguments, rank=0, size=1, port=0, **environment):
    """A worker script as one rank, with a launcher's variables."""
    variables = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes, deadline_s=DEADLINE_S):
    """Waits for all; kills them at the deadline. Returns (status, stdout, stderr) of each."""
    ended = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=deadline_s)
            ended.append((process.returncode, out, err))
        return ended
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def run_processes(size, script, *arguments, deadline_s=DEADLINE_S, **environment):
    """A worker script on `size` ranks. Each prints one JSON value as its last line; returns these in rank order."""
    port = free_port()
    processes = [
        start_process(script, *arguments, rank=rank, size=size, port=port, **environment) for rank in range(size)
    ]
    ended = finish(processes, deadline_s)
    for status, _, err in ended:
        assert status == 0, err[-4000:]
    return [json.loads(out.strip().splitlines()[-1]) for _, out, _ in ended]
