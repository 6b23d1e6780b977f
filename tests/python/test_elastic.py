"""The elastic demo, short: whichever rank is killed, the others finish the training."""

import json
import pathlib
import subprocess
import sys

import pytest

import ferrule

pytest.importorskip("torch")
pytest.importorskip("sklearn")

DEMO = pathlib.Path(__file__).parents[2] / "demo" / "elastic.py"


@pytest.mark.skipif("ucx" not in ferrule.transports(), reason="ranks are processes")
@pytest.mark.parametrize("victim", [0, 2])
def test_training_goes_on_with_three_of_four(victim, tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, str(DEMO), f"--victim={victim}", "--steps=60", "--width=32", f"--out={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "elastic.json").read_text())
    assert result["ranks_left"] == 3
    steps = [record["step"] for record in result["steps"]]
    assert steps == sorted(steps) and steps[-1] == 60
    losses = [record["loss"] for record in result["steps"]]
    before = [record["loss"] for record in result["steps"] if record["ranks"] == 4]
    assert sum(losses[-10:]) / 10 < sum(before[:10]) / 10, "the loss has gone on falling"
    assert (tmp_path / "elastic.png").stat().st_size > 10_000
