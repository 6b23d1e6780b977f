"""Programs of Debian's packages, as they are: the same output with the preload as without."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
INT4 = [("FERRULE_CODEC", "int4")]  # these programs sum doubles, or few floats: never touched


def program(mpi, name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    linked = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    if ("libmpich" in linked) != (mpi.name == "mpich"):
        pytest.skip(f"{name} here is built for another MPI than {mpi.name}")
    return path


def thermodynamics(out):
    """The table of step, temperature, energies and pressure."""
    table = re.search(r"^Step Temp.*?(?=^Loop time)", out, re.M | re.S)
    assert table and table[0].count("\n") == 7, out
    return table[0]


def test_lammps(mpi):
    command = [program(mpi, "lmp"), "-in", str(HERE / "lammps_melt.in"), "-log", "none"]
    plain = mpi.run(*command, ranks=2, preload=False)
    preloaded = mpi.run(*command, ranks=2, settings=INT4)
    assert thermodynamics(preloaded.out) == thermodynamics(plain.out)
    assert all("were passed on to MPI" in text for text in preloaded.summaries().values())
    assert len(preloaded.summaries()) == 2


def checks(out):
    """The rows of ScaLAPACK's tables without the columns that hold times: sizes, grid and verdict."""
    rows = [line.split() for line in out.splitlines() if line.startswith("WALL")]
    assert rows and all(row[-1] == "PASSED" for row in rows), out
    return [row[:8] + row[-1:] for row in rows]


@pytest.mark.parametrize("name", ["xslu", "xsllt"])
def test_scalapack(mpi, name, monkeypatch):
    """LU and Cholesky in single precision on grids of one and two processes, in Fortran and C."""
    folder = pathlib.Path("/usr/lib/x86_64-linux-gnu/scalapack") / f"{mpi.name}-tests"
    if not (folder / name).exists():
        pytest.skip("scalapack-mpi-test is not installed")
    monkeypatch.chdir(folder)  # its input lies there
    plain = mpi.run(str(folder / name), ranks=2, preload=False)
    preloaded = mpi.run(str(folder / name), ranks=2, settings=INT4)
    assert checks(preloaded.out) == checks(plain.out)


def hpcc_input():
    """The package's own example, smaller: N = 200 on a grid of 1 x 2."""
    for name in ("_hpccinf.txt", "_hpccinf.txt.gz"):
        path = pathlib.Path("/usr/share/doc/hpcc/examples") / name
        if path.exists():
            text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()
            return re.sub(r"^2(\s+Ps)", r"1\1", re.sub(r"^1000(\s+Ns)", r"200\1", text, flags=re.M), flags=re.M)
    pytest.skip("hpcc's example input is not installed")


def hpcc_results(folder):
    """What does not depend on time: residuals, error counts, norms."""
    text = (folder / "hpccoutf.txt").read_text()
    found = dict(re.findall(r"^(\w*(?:residual|Errors|maxErr|Success|normI|norm1|resid)\w*)=(.*)$", text, re.M))
    assert found["Success"] == "1" and found["PTRANS_residual"] == "0", text
    return found


@pytest.mark.skipif(not os.environ.get("FERRULE_LONG"), reason="minutes on a busy machine: FERRULE_LONG=1 runs it")
def test_hpcc(mpi, tmp_path, monkeypatch):
    command, results = program(mpi, "hpcc"), []
    for preload in (False, True):
        folder = tmp_path / str(preload)
        folder.mkdir()
        (folder / "hpccinf.txt").write_text(hpcc_input())
        monkeypatch.chdir(folder)
        run = mpi.run(command, ranks=2, preload=preload, settings=INT4, deadline_s=600)
        assert not preload or len(run.summaries()) == 2
        results.append(hpcc_results(folder))
    assert results[0] == results[1]
