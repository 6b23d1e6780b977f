"""What compress() can be told, and checkpoints. One set of processes runs all scenarios of a worker."""

import importlib.util
import re

import pytest
from ranks import WORKERS, run_processes

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

RANKS = {"torch_controls.py": 2, "torch_resume.py": 3}
SCENARIOS = [
    (worker, name)
    for worker in RANKS
    for name in re.findall(r"^@scenario\ndef (\w+)", (WORKERS / worker).read_text(), re.MULTILINE)
]
_reports = {}


def reports_of(worker):
    """What each rank saw, by scenario. A worker that fails once is not run again."""
    if worker not in _reports:
        _reports[worker] = None
        _reports[worker] = run_processes(RANKS[worker], WORKERS / worker, deadline_s=240)
    assert _reports[worker] is not None, "its processes failed, see the first test"
    return _reports[worker]


@pytest.mark.parametrize("worker, name", SCENARIOS)
def test_scenario(worker, name):
    for rank, report in enumerate(reports_of(worker)):
        assert report[name]["ok"], f"rank {rank}:\n{report[name].get('trace')}"
