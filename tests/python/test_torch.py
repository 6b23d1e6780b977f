"""ferrule.torch on two gloo ranks: the hook's basics, and the examples of its page."""

import pathlib
import re

import ferrule
import pytest
from ranks import run_processes
from torch_ranks import check, scenarios

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", scenarios("torch_rank"))
def test_scenario(two_ranks, name):
    check(two_ranks, f"torch_rank.{name}")


def test_stats(two_ranks):
    for report in two_ranks:
        seen = report["torch_rank.mean_within_bound"]
        assert seen["int4"]["steps"] == 1 and seen["int4"]["seconds"] > 0
        # A tiny model: headers and exact parameters weigh more than in a real one.
        assert seen["int4"]["ratio"] > 3 and seen["int8"]["ratio"] > 2
        assert seen["int4"]["bytes"] < seen["int8"]["bytes"] < seen["bf16"]["bytes"]
        exact = report["torch_rank.codec_none_is_exact"]
        assert 0.7 < exact["ratio"] <= 1.0 and exact["compressed"] == 0


def test_errors_name_their_code(two_ranks):
    for report in two_ranks:
        assert "ferrule (aborted)" in report["torch_rank.errors_surface_in_backward"]["text"]
        assert "ferrule (unsupported)" in report["torch_rank.sparse_gradients_are_refused"]["text"]
        assert "compress(model) first" in report["torch_rank.disabled"]["text"]


def test_stats_of_a_disabled_model_have_all_keys(two_ranks):
    for report in two_ranks:
        assert report["torch_rank.disabled"]["keys"] == sorted(report["torch_rank.codec_none_is_exact"].keys() - {"ok"})


def test_compress_takes_only_ddp():
    torch = pytest.importorskip("torch")
    import ferrule.torch

    with pytest.raises(TypeError, match="DistributedDataParallel"):
        ferrule.torch.compress(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("page", ("pytorch.md", "checkpointing.md"))
def test_documentation_runs(page, tmp_path):
    """The examples of a page, one after the other, as one training script on two ranks."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    script = tmp_path / "train.py"
    script.write_text("\n".join([*blocks, 'print("null")']))
    run_processes(2, script, deadline_s=240, TMPDIR=str(tmp_path))
