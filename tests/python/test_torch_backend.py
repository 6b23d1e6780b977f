"""The backend "ferrule" of torch.distributed, by name and with no import, on 2 to 4 processes."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import ranks  # noqa: E402

WORKER = ranks.WORKERS / "torch_backend.py"
# Against hangs only: importing torch alone may take half a minute on a busy machine.
DEADLINE_S = 300
SUITE = pathlib.Path(__file__).parents[2] / "scripts" / "torch_backend_tests"


def run_processes(size, *arguments, **environment):
    return ranks.run_processes(size, *arguments, deadline_s=DEADLINE_S, **environment, FERRULE_TUNING="builtin")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_operation(size):
    outcomes = run_processes(size, WORKER, "everything")
    assert [outcome["backend"] for outcome in outcomes] == ["ferrule"] * size


def test_beside_another_backend():
    outcomes = run_processes(2, WORKER, "everything", "cpu:ferrule,cuda:gloo")
    assert "ferrule" in outcomes[0]["backend"]


def test_as_a_process_group_for_older_torch():
    """Without backends written in Python: the reductions, parts and transfers through a process group of its own."""
    outcomes = run_processes(2, WORKER, "environment", TORCH_FERRULE_GROUP="1")
    assert all(outcome["error"] == 0 and outcome["gathered"] for outcome in outcomes)


def test_a_codec_for_large_float_sums_only():
    for outcome in run_processes(2, WORKER, "codec"):
        assert 0 < outcome["all_reduce"] < 0.3
        assert 0 < outcome["reduce_scatter"] < 0.3
        for exact in ("identical", "double", "integers", "max", "small", "broadcast", "taken back"):
            assert outcome[exact], exact


def test_a_codec_from_the_environment():
    for outcome in run_processes(2, WORKER, "environment", FERRULE_CODEC="int8"):
        assert 0 < outcome["error"] < 0.05
        assert outcome["gathered"], "what all_gather brings stays exact"
    for outcome in run_processes(2, WORKER, "environment"):
        assert outcome["error"] == 0


def test_a_monitored_barrier_names_who_is_missing():
    outcomes = run_processes(3, WORKER, "monitored")
    assert "Rank 1 failed to pass monitoredBarrier" in outcomes[0]["text"]


def test_abort_ends_what_waits():
    for outcome in run_processes(2, WORKER, "abort"):
        assert "aborted" in outcome["text"], outcome["text"]


def test_a_rank_that_is_killed_is_named():
    port = ranks.free_port()
    processes = [
        ranks.start_process(WORKER, "killed", rank=rank, size=3, port=port, FERRULE_TUNING="builtin")
        for rank in range(3)
    ]
    ended = ranks.finish(processes, DEADLINE_S)
    assert ended[1][0] == -signal.SIGKILL
    for rank in (0, 2):
        status, out, err = ended[rank]
        assert status == 0, err[-4000:]
        text = json.loads(out.strip().splitlines()[-1])["text"]
        assert "rank 1" in text and ("reduce_scatter #" in text or "broadcast #" in text), text


def test_a_subset_of_torchs_own_tests():
    """All of them: scripts/torch_backend_tests --all."""
    pytest.importorskip("expecttest")
    pytest.importorskip("hypothesis")
    ran = subprocess.run(
        [sys.executable, str(SUITE), "--ours-only", "--world", "2"], capture_output=True, text=True, timeout=1500
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
