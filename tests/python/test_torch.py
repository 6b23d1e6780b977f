"""ferrule.torch on two gloo ranks. Importing torch is what costs, so all scenarios run in one pair of processes."""

import importlib.util
import pathlib
import re

import ferrule
import pytest
from ranks import WORKERS, run_processes

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md"
WORKER = WORKERS / "torch_rank.py"
NAMES = re.findall(r"^@scenario\ndef (\w+)", WORKER.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def reports():
    """What each rank saw, by scenario."""
    return run_processes(2, WORKER, deadline_s=240)


@pytest.mark.parametrize("name", NAMES)
def test_scenario(reports, name):
    for rank, report in enumerate(reports):
        assert report[name]["ok"], f"rank {rank}:\n{report[name].get('trace')}"


def test_stats(reports):
    for report in reports:
        seen = report["mean_within_bound"]
        assert seen["int4"]["steps"] == 1 and seen["int4"]["seconds"] > 0
        # A tiny model: headers and exact parameters weigh more than in a real one.
        assert seen["int4"]["ratio"] > 3 and seen["int8"]["ratio"] > 2
        assert seen["int4"]["bytes"] < seen["int8"]["bytes"] < seen["bf16"]["bytes"]
        exact = report["codec_none_is_exact"]
        assert 0.7 < exact["ratio"] <= 1.0 and exact["compressed"] == 0


def test_errors_name_their_code(reports):
    for report in reports:
        assert "ferrule (aborted)" in report["errors_surface_in_backward"]["text"]
        assert "ferrule (unsupported)" in report["sparse_gradients_are_refused"]["text"]
        assert "compress(model) first" in report["disabled"]["text"]


def test_stats_of_a_disabled_model_have_all_keys(reports):
    for report in reports:
        assert report["disabled"]["keys"] == sorted(report["codec_none_is_exact"].keys() - {"ok"})


def test_compress_takes_only_ddp():
    torch = pytest.importorskip("torch")
    import ferrule.torch

    with pytest.raises(TypeError, match="DistributedDataParallel"):
        ferrule.torch.compress(torch.nn.Linear(2, 2))


def test_documentation_runs(tmp_path):
    """The examples of docs/pytorch.md, one after the other, as one training script on two ranks."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    script = tmp_path / "train.py"
    script.write_text("\n".join([*blocks, 'print("null")']))
    run_processes(2, script, deadline_s=120, TMPDIR=str(tmp_path))
