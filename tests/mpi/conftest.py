"""How the programs of these tests are started. Environment variables say where they were built (CMakeLists.txt)."""
import os
import pathlib
import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

PROGRAMS = pathlib.Path(os.environ["FERRULE_MPI_PROGRAMS"])
FERRULE_RUN = os.environ["FERRULE_RUN"]
MPIS = os.environ["FERRULE_MPIS"].split()
DEADLINE_S = 120


@dataclass
class Run:
    code: int
    out: str
    err: str

    def summaries(self):
        """What each rank printed at the end, by rank."""
        found = re.findall(r"^ferrule_mpi: rank (\d+): (.*)$", self.err, re.M)
        return {int(rank): text for rank, text in found}


@dataclass
class Mpi:
    name: str

    def program(self, name):
        path = PROGRAMS / self.name / name
        if not path.exists():
            pytest.skip(f"{name} was not built for {self.name}")
        return str(path)

    def run(self, *command, ranks=4, preload=True, settings=(), launcher=(), check=True,
            deadline_s=DEADLINE_S):
        """mpirun, the preload between it and the command. `settings` are (name, value) pairs."""
        line = [f"mpirun.{self.name}", "-n", str(ranks), *launcher]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FERRULE_", "LD_PRELOAD"))}
        environment.update(settings)
        if self.name == "openmpi":
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            line += ["--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none"]
            line += ["--mca", "mpi_yield_when_idle", "1"]
        if preload:
            line += [FERRULE_RUN, f"--mpi={self.name}"]
        done = subprocess.run([*line, *command], env=environment, text=True, capture_output=True,
                              timeout=deadline_s)
        run = Run(done.returncode, done.stdout, done.stderr)
        assert not check or run.code == 0, run.out + run.err
        return run


@pytest.fixture(params=MPIS)
def mpi(request):
    if shutil.which(f"mpirun.{request.param}") is None:
        pytest.skip(f"no mpirun.{request.param}")
    return Mpi(request.param)
