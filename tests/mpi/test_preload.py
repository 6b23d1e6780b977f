"""libferrule_mpi.so under programs in C, Fortran and Python: exact until asked, then only large float sums are lossy."""
import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
INT8 = [("FERRULE_CODEC", "int8")]
INT8_ERROR = "0.02"  # two encodes of a block's largest magnitude / 254, and more than enough for their sum


def test_without_a_codec_everything_is_passed_on(mpi):
    run = mpi.run(mpi.program("calls"), "0")
    assert "calls: ok" in run.out
    assert len(run.summaries()) == 4
    assert all("were passed on to MPI" in text for text in run.summaries().values())


def test_int8_touches_large_float_sums_only(mpi):
    run = mpi.run(mpi.program("calls"), INT8_ERROR, settings=INT8)
    assert "calls: ok" in run.out
    assert len(run.summaries()) == 4
    for text in run.summaries().values():
        # 3 blocking, 4 of communicators made on the way, and 3 under way, which MPICH keeps.
        assert "by Ferrule (int8)" in text and text.startswith("7 of " if mpi.name == "mpich" else "10 of "), text
        assert "x fewer" in text


def test_a_program_without_threads_gets_its_requests_from_mpi(mpi):
    run = mpi.run(mpi.program("calls"), INT8_ERROR, settings=[*INT8, ("CALLS_SINGLE", "1")])
    assert "calls: ok" in run.out
    assert all(text.startswith("7 of ") for text in run.summaries().values())


def test_none_is_exact(mpi):
    run = mpi.run(mpi.program("calls"), "0", settings=[("FERRULE_CODEC", "none")])
    assert "calls: ok" in run.out
    assert all("by Ferrule (none)" in text for text in run.summaries().values())


def test_one_rank_needs_nobody(mpi):
    run = mpi.run(mpi.program("calls"), "0", ranks=1, settings=INT8)
    assert "calls: ok" in run.out


@pytest.mark.parametrize("binding", ["mpifh", "usempi", "f08"])
def test_fortran(mpi, binding):
    run = mpi.run(mpi.program("fortran_" + binding), INT8_ERROR, settings=INT8)
    assert "fortran: ok" in run.out, run.out
    assert len(run.summaries()) == 4
    calls = "2 of " if mpi.name == "mpich" else "3 of "
    assert all(text.startswith(calls) for text in run.summaries().values()), run.err


def test_mpi4py(mpi):
    python = os.environ.get("MPI4PY_PYTHON", "/usr/bin/python3")
    if not os.path.exists(python) or subprocess.run([python, "-c", "import mpi4py"], capture_output=True).returncode:
        pytest.skip(f"{python} has no mpi4py")
    linked = subprocess.run([python, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())"],
                            capture_output=True, text=True).stdout
    if ("Open MPI" in linked) != (mpi.name == "openmpi"):
        pytest.skip(f"mpi4py here is built for another MPI than {mpi.name}")
    run = mpi.run(python, str(HERE / "with_mpi4py.py"), INT8_ERROR, settings=INT8)
    assert "mpi4py: ok" in run.out
    assert all(text.startswith("2 of ") for text in run.summaries().values())


def test_the_error_is_measured_when_asked(mpi):
    run = mpi.run(mpi.program("calls"), INT8_ERROR, settings=[*INT8, ("FERRULE_MPI_MEASURE", "1")])
    assert "calls: ok" in run.out
    for text in run.summaries().values():
        assert "in 7 measured" in text, text
        assert 0 < float(text.split("largest relative error ")[1].split()[0]) < 0.02, text


def test_summaries_can_be_fewer(mpi):
    assert list(mpi.run(mpi.program("calls"), "0", settings=[("FERRULE_MPI_SUMMARY", "rank0")]).summaries()) == [0]
    assert not mpi.run(mpi.program("calls"), "0", settings=[("FERRULE_MPI_SUMMARY", "off")]).summaries()


def test_a_bad_codec_ends_the_program_with_its_name(mpi):
    run = mpi.run(mpi.program("calls"), "0", settings=[("FERRULE_CODEC", "int9")], check=False)
    assert run.code != 0
    assert "ferrule_mpi: FERRULE_CODEC" in run.err and "int9" in run.err


def test_ranks_that_disagree_are_told_both_values(mpi):
    script = 'test "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 && export FERRULE_CODEC=int4; exec "$0" "$@"'
    run = mpi.run("/bin/sh", "-c", script, mpi.program("calls"), "0", settings=INT8, check=False)
    assert run.code != 0
    assert "rank 1 has FERRULE_CODEC=int4" in run.err and "rank 0 has FERRULE_CODEC=int8" in run.err


def test_a_rank_that_stays_away_is_an_error_with_its_number(mpi):
    run = mpi.run(mpi.program("stays_away"), ranks=2, settings=[*INT8, ("FERRULE_TIMEOUT", "2s")], check=False)
    assert run.code != 0
    assert "ferrule_mpi: MPI_Allreduce" in run.err and "rank 1" in run.err
    assert "rank 0: error returned: a collective of Ferrule failed" in run.err


def test_a_process_without_all_reduces_is_told(mpi):
    run = mpi.run("/bin/true", ranks=1)
    assert "loaded, but this process has made no all-reduce" in run.err


@pytest.mark.parametrize("arguments,text", [
    (["./app"], "say what to take the place of"),
    (["--mpi"], "no program given"),
    (["--mpi", "/no/such/program"], "no program '/no/such/program'"),
    (["--mpi=other", "/bin/true"], "no preload for 'other'"),
    (["--bad"], "unknown option '--bad'"),
])
def test_mistakes_of_ferrule_run(arguments, text):
    done = subprocess.run([os.environ["FERRULE_RUN"], *arguments], text=True, capture_output=True)
    assert done.returncode == 2 and text in done.stderr, done.stderr
