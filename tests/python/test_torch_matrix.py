"""Features of real training x codecs, on two ranks, and some of them on three, where the order of additions counts."""

import importlib.util
import re

import pytest
from ranks import WORKERS, run_processes

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

WORKER = WORKERS / "torch_matrix.py"
NAMES = re.findall(r"^    (\w+),$", WORKER.read_text().partition("\nFEATURES = (")[2].partition("\n)")[0], re.MULTILINE)
ON_THREE = ("plain", "grad_scaler", "find_unused_parameters", "join")


@pytest.fixture(scope="module")
def on_two():
    return run_processes(2, WORKER, deadline_s=240)


@pytest.fixture(scope="module")
def on_three():
    return run_processes(3, WORKER, *ON_THREE, deadline_s=240)


@pytest.mark.parametrize("name", NAMES)
def test_feature(on_two, name):
    check(on_two, name)


@pytest.mark.parametrize("name", ON_THREE)
def test_feature_on_three_ranks(on_three, name):
    check(on_three, name)


def check(reports, name):
    for rank, report in enumerate(reports):
        assert report[name]["ok"], f"rank {rank}:\n{report[name].get('trace')}"


def test_codecs_differ(on_two):
    """The tolerances would also pass if nothing were compressed."""
    for name in NAMES:
        seen = on_two[0][name]["distance"]
        if name not in ("doubles", "complex_parameters"):
            assert seen["none"] < seen["int8"] < seen["int4"], (name, seen)
