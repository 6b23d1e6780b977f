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


def test_layout_cut():
    """Where the parts of a bucket lie: large matrices together, the rest together, gaps closed."""
    torch = pytest.importorskip("torch")
    from ferrule.torch._layout import cut

    named = [("a", torch.zeros(4, 8)), ("b", torch.zeros(5)), ("c", torch.zeros(8, 8)), ("d", torch.zeros(2, 2))]
    lossy, exact = cut(named, torch.float32, 32)
    assert [(p.name, p.bucket_start, p.part_start) for p in lossy.pieces] == [("a", 0, 0), ("c", 37, 32)]
    assert [(p.name, p.bucket_start, p.part_start) for p in exact.pieces] == [("b", 32, 0), ("d", 101, 5)]
    bucket = torch.arange(105.0)
    packed = lossy.gather(bucket)
    assert packed.tolist() == [*range(32), *range(37, 101)]
    packed.neg_()
    lossy.scatter(bucket)
    assert bucket[31] == -31 and bucket[33] == 33 and bucket[100] == -100
    assert cut(named, torch.float64, 32)[0] is None
    assert cut(named, torch.float32, None)[0] is None


def test_residuals_move_between_layouts():
    """A parameter's residual goes with it through any change of buckets, and back."""
    torch = pytest.importorskip("torch")
    import numpy
    from ferrule.torch._residuals import LayoutTable

    a, b, c = (torch.zeros(8, 8) for _ in range(3))
    table = LayoutTable({id(a): "a", id(b): "b", id(c): "c"}, 1, True)
    table.find([a, b, c], torch.float32).residual.assign(numpy.repeat(numpy.float32([1, 2, 3]), 64))
    assert (table.find([c, a], torch.float32).residual.numpy() == numpy.repeat([3, 1], 64)).all()
    assert (table.find([b], torch.float32).residual.numpy() == 2).all()
    table.find([b], torch.float32).residual.assign(numpy.full(64, 5, numpy.float32))
    assert (table.find([a, b, c], torch.float32).residual.numpy() == numpy.repeat([1, 5, 3], 64)).all()
    assert table.counts() == (3, 0)
    values = table.values()
    table.load({"a": values["c"]})
    assert (table.find([b, a], torch.float32).residual.numpy() == numpy.repeat([0, 3], 64)).all()


def test_documentation_runs(tmp_path):
    """The examples of docs/pytorch.md, one after the other, as one training script on two ranks."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    script = tmp_path / "train.py"
    script.write_text("\n".join([*blocks, 'print("null")']))
    run_processes(2, script, deadline_s=120, TMPDIR=str(tmp_path))
