"""What the torch tests share: scenarios that ran on several ranks."""

import importlib.util
import re

import pytest
from ranks import WORKERS, run_processes

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

# Of the matrix on three ranks, where the order of additions counts.
ON_THREE = ("plain", "grad_scaler", "find_unused_parameters", "join")
_MODULES = {
    2: ("torch_rank", "torch_controls", "torch_matrix"),
    3: ("torch_resume", "torch_matrix:" + ",".join(ON_THREE)),
    4: ("torch_fsdp",),
}


def run(size):
    return run_processes(size, WORKERS / "torch_run.py", *_MODULES[size], deadline_s=400)


def scenarios(module):
    """Names of those in a worker's file."""
    return re.findall(r"^@scenario\ndef (\w+)", (WORKERS / f"{module}.py").read_text(), re.MULTILINE)


def check(reports, name):
    """Every rank's scenario went well."""
    for rank, report in enumerate(reports):
        assert report[name]["ok"], f"rank {rank}:\n{report[name].get('trace')}"
