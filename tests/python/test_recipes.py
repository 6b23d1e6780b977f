"""Each script of docs/recipes.md under torchrun, with the real packages where they are installed."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OWN = ROOT / ".venv-recipes" / "bin" / "python"  # made by scripts/setup --with-recipes
PYTHON = str(OWN) if OWN.exists() else sys.executable
RECIPES = dict(re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", (ROOT / "docs/recipes.md").read_text(), re.M | re.S))


def missing_module(script):
    """The first module of the script's imports that is not installed; None if there is none."""
    names = re.findall(r"^(?:import|from) (\S+)", script, re.MULTILINE)
    tries = "\n".join(f"name = '{name}'; importlib.import_module(name)" for name in names)
    code = f"import importlib, sys\ntry:\n{re.sub('^', '    ', tries, flags=re.M)}\nexcept ImportError:\n    print(name)\n"
    ended = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip() or None


def test_the_page_has_recipes():
    assert {"torchrun", "Lightning", "Accelerate", "Hugging Face Trainer"} <= set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name, tmp_path):
    missing = missing_module(RECIPES[name])
    if missing is not None:
        pytest.skip(f"{missing} is not installed: scripts/setup --with-recipes")
    script = tmp_path / "train.py"
    script.write_text(RECIPES[name])
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.communicate()
    assert process.returncode == 0, output[-6000:]
