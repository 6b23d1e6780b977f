"""Ranks that are processes: launcher variables, stores, absent peers, Ctrl-C, and a clean stdout."""

import importlib.util
import json
import pathlib
import signal
import time

import ferrule
import pytest
from ranks import WORKERS, finish, free_port, run_processes, start_process


@pytest.mark.skipif("ucx" not in ferrule.transports(), reason="this build has no UCX transport")
def test_from_env():
    reports = run_processes(3, WORKERS / "env_rank.py", "ucx")
    assert [report["rank"] for report in reports] == [0, 1, 2]
    expected = 3 * sum(i % 7 for i in range(100_000)) + 3 * 100_000
    for report in reports:
        assert report["size"] == 3 and "ucx" in report["transport"]
        assert report["exact"] == expected
        assert report["lossy"] == reports[0]["lossy"]
        assert report["mean"] == pytest.approx(expected / 300_000, rel=0.01)


@pytest.mark.skipif("ucx" not in ferrule.transports(), reason="this build has no UCX transport")
def test_stdout_holds_results_only(tmp_path):
    """With the loudest log level, stdout is still what the program printed, and nothing else."""
    port = free_port()
    processes = [
        start_process(WORKERS / "env_rank.py", "ucx", rank=rank, size=2, port=port, FERRULE_DEBUG="TRACE")
        for rank in range(2)
    ]
    for status, out, err in finish(processes):
        assert status == 0, err
        assert len(out.splitlines()) == 1 and json.loads(out)["size"] == 2
        assert "FERRULE" in err


@pytest.mark.skipif("ucx" not in ferrule.transports(), reason="this build has no UCX transport")
def test_any_store(tmp_path):
    reports = run_processes(2, WORKERS / "store_rank.py", tmp_path)
    assert [report["sum"] for report in reports] == [3.0, 3.0]


def test_a_store_that_fails_is_what_the_caller_sees():
    class Broken:
        def set(self, key, value):
            raise ConnectionError("the store is on fire")

        def get(self, key):
            self.set(key, b"")

    with pytest.raises(ConnectionError, match="on fire"):
        ferrule.Communicator.from_store(Broken(), 0, 2, "test", timeout=5)


@pytest.mark.parametrize("rank", (0, 1))
def test_absent_peer(rank):
    with pytest.raises(ferrule.FerruleError) as caught:
        ferrule.Communicator.connect(rank, 2, f"tcp://127.0.0.1:{free_port()}", timeout=1)
    assert caught.value.code in ("timeout", "system")
    assert str(caught.value)


def test_bad_rendezvous():
    for rendezvous in ("", "tcp://", "carrier://pigeon", "tcp://127.0.0.1:notaport"):
        with pytest.raises(ferrule.FerruleError):
            ferrule.Communicator.connect(0, 2, rendezvous, timeout=2)


@pytest.mark.parametrize("where", ("all_reduce", "work", "connect"))
def test_ctrl_c_ends_a_wait(where):
    process = start_process(WORKERS / "interrupted.py", where, free_port())
    assert process.stdout.readline() == "waiting\n"
    with pytest.raises(Exception, match="timed out"):
        process.wait(0.5)  # it does wait
    process.send_signal(signal.SIGINT)
    ((status, out, err),) = finish([process], deadline_s=20)
    assert (status, out) == (0, "interrupted\n"), err


@pytest.mark.skipif("ucx" not in ferrule.transports(), reason="this build has no UCX transport")
def test_ctrl_c_leaves_no_process_and_no_file():
    """A terminal interrupts all processes of a job at once."""
    before = ucx_files()
    port = free_port()
    processes = [start_process(WORKERS / "looping.py", rank=rank, size=3, port=port) for rank in range(3)]
    for process in processes:
        assert process.stdout.readline() == "reducing\n"
    for process in processes:
        process.send_signal(signal.SIGINT)
    for status, _, err in finish(processes, deadline_s=30):
        assert status != 0 and ("KeyboardInterrupt" in err or "aborted" in err or "peer_lost" in err), err
    deadline = time.monotonic() + 10  # for those of other programs, which go by themselves
    while ucx_files() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not ucx_files() - before


def ucx_files():
    return {path for path in pathlib.Path("/dev/shm").glob("ucx*")}


def test_info_module():
    spec = importlib.util.find_spec("ferrule.info")
    process = start_process(spec.origin)
    ((status, out, err),) = finish([process])
    assert status == 0, err
    for text in (ferrule.__version__, "python:", "numpy:", "torch:", "WORLD_SIZE=1"):
        assert text in out


def test_import_brings_no_torch():
    import subprocess
    import sys

    code = "import sys, ferrule; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert out.stdout.strip() == "[]"
