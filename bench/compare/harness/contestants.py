"""Who takes part: how each is named, what it needs, and how its ranks are started."""

import dataclasses
import os
import pathlib
import re
import shutil
import sys

from .group import Command
from .links import Link, Namespaces

WORKERS = pathlib.Path(__file__).resolve().parent.parent / "workers"

#: Open MPI frees its temporaries to the system after each call otherwise, and faulting them in again takes ten times
#: as long as the all-reduce: a comparison without these would be a gift.
OMPI_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
OMPI_VARIANTS = ("vader", "ucx", "tcp")
KINDS = ("ferrule", "ompi", "gloo", "hook")
HOOKS = ("fp16", "powersgd:1", "powersgd:4")


@dataclasses.dataclass
class Place:
    """Where and for whom a contestant is started."""

    link: Link
    ranks: int
    folder: pathlib.Path
    socket: pathlib.Path
    build: pathlib.Path
    timeout_s: float


@dataclasses.dataclass
class Contestant:
    """The spec is what the user wrote, and the name in all results."""

    spec: str

    @property
    def is_ferrule(self) -> bool:
        return False

    def why_not(self, place: Place) -> str | None:
        """Why it cannot take part here; None if it can."""
        raise NotImplementedError

    def commands(self, place: Place) -> list[Command]:
        raise NotImplementedError

    def why_not_in(self, in_place: bool) -> str | None:
        """Why it sits out in or out of place."""
        del in_place
        return None


class Ferrule(Contestant):
    """ferrule:CODEC[@ALGORITHM][?SETTING=VALUE;...]; the setting BUILD is another build folder."""

    def __init__(self, spec: str):
        super().__init__(spec)
        what, _, settings = spec.partition("?")
        codec, _, algorithm = what.partition(":")[2].partition("@")
        self.codec = codec or "none"
        self.algorithm = algorithm or "auto"
        self.settings = dict(pair.split("=", 1) for pair in settings.split(";") if pair)
        self.build = self.settings.pop("BUILD", None)

    @property
    def is_ferrule(self) -> bool:
        return True

    def _program(self, place: Place) -> pathlib.Path:
        return (pathlib.Path(self.build) if self.build else place.build) / "bin" / "compare-ferrule"

    def why_not(self, place: Place) -> str | None:
        program = self._program(place)
        return None if program.exists() else f"{program} is not there: build the target compare-ferrule"

    def commands(self, place: Place) -> list[Command]:
        settings = {**place.link.ferrule_settings(), "FERRULE_TIMEOUT": f"{place.timeout_s:g}s", **self.settings}
        common = ["--ranks", str(place.ranks), "--socket", str(place.socket), "--codec", self.codec]
        common += ["--algorithm", self.algorithm, "--rendezvous", f"file://{place.folder}/rendezvous"]
        program = str(self._program(place).resolve())
        return [
            Command([*place.link.prefix(rank), program, "--rank", str(rank), *common], settings)
            for rank in range(place.ranks)
        ]


class OpenMpi(Contestant):
    """ompi:vader, ompi:ucx or ompi:tcp."""

    def __init__(self, spec: str):
        super().__init__(spec)
        self.variant = spec.partition(":")[2]

    def why_not(self, place: Place) -> str | None:
        if place.link.kind == "latency":
            return "only Ferrule has this throttle"
        if self.variant == "vader" and place.link.kind != "shm":
            return "vader is shared memory"
        if self.variant == "tcp" and place.link.kind == "shm":
            return "not on shared memory: see vader and ucx"
        if shutil.which("mpirun") is None:
            return "mpirun is not installed: install openmpi-bin and libopenmpi-dev"
        program = place.build / "bin" / "compare-ompi"
        return None if program.exists() else f"{program} is not there: install libopenmpi-dev and build again"

    def _layers(self, link: Link) -> tuple[list[str], dict[str, str]]:
        """Arguments and variables that choose how Open MPI moves bytes."""
        if self.variant == "vader":
            return ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"], {}
        if self.variant == "tcp":
            device = ["--mca", "btl_tcp_if_include", link.interface]
            return ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", *device], {}
        # It steps back on its own where it finds no network that it likes.
        arguments = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
        if link.kind == "shm":
            return arguments, {"UCX_TLS": "self,shm"}
        return arguments, {"UCX_TLS": "self,tcp", "UCX_NET_DEVICES": link.interface}

    def commands(self, place: Place) -> list[Command]:
        link = place.link
        layers, variables = self._layers(link)
        argv = [*link.prefix(0), "mpirun", "-np", str(place.ranks), "--bind-to", "none", "--oversubscribe"]
        if os.geteuid() == 0:
            argv.append("--allow-run-as-root")
        if link.hosts > 1 or place.ranks > (os.cpu_count() or 1):
            argv += ["--mca", "mpi_yield_when_idle", "1"]
        if isinstance(link, Namespaces):
            argv += ["--host", ",".join(link.address(rank) for rank in range(place.ranks)), "--leave-session-attached"]
            argv += ["--mca", "plm_rsh_agent", str(link.rsh_agent(place.folder)), "--mca", "plm_rsh_no_tree_spawn", "1"]
            argv += ["--mca", "oob_tcp_if_include", link.interface]
        variables = {**OMPI_MALLOC, **variables}
        for name in variables:
            argv += ["-x", name]
        program = str((place.build / "bin" / "compare-ompi").resolve())
        return [Command([*argv, *layers, program, "--socket", str(place.socket)], variables)]


class Torch(Contestant):
    """gloo through torch.distributed; or, as hook:NAME, one of torch's own DDP hooks on a bucket, over gloo."""

    def __init__(self, spec: str):
        super().__init__(spec)
        self.hook = spec.partition(":")[2]

    def why_not(self, place: Place) -> str | None:
        if place.link.kind == "latency":
            return "only Ferrule has this throttle"
        if not _has_torch():
            return f"{sys.executable} has no torch: run scripts/setup"
        return None

    def why_not_in(self, in_place: bool) -> str | None:
        return "a hook reduces its bucket in place" if self.hook and not in_place else None

    def commands(self, place: Place) -> list[Command]:
        common = [sys.executable, str(WORKERS / "torch_worker.py"), "--ranks", str(place.ranks)]
        common += ["--socket", str(place.socket), "--meet", str(place.folder / "meet")]
        common += ["--timeout", str(place.timeout_s), "--hook", self.hook]
        variables = {"GLOO_SOCKET_IFNAME": place.link.interface, "PYTHONDONTWRITEBYTECODE": "1"}
        return [
            Command([*place.link.prefix(rank), *common, "--rank", str(rank)], variables) for rank in range(place.ranks)
        ]


_torch_found: list[bool] = []


def _has_torch() -> bool:
    if not _torch_found:
        import importlib.util

        _torch_found.append(importlib.util.find_spec("torch") is not None)
    return _torch_found[0]


def parse_contestants(text: str) -> list[Contestant]:
    """Specs separated by commas; 'ompi' and 'hook' stand for all of theirs. A setting's value may have commas too."""
    made: list[Contestant] = []
    for spec in re.split(rf",(?=(?:{'|'.join(KINDS)})\b)", text):
        kind, _, value = spec.partition(":")
        if kind == "ferrule":
            made.append(Ferrule(spec))
        elif kind == "ompi" and value in ("", *OMPI_VARIANTS):
            made += [OpenMpi(f"ompi:{variant}") for variant in OMPI_VARIANTS if value in ("", variant)]
        elif kind == "hook" and value in ("", *HOOKS):
            made += [Torch(f"hook:{hook}") for hook in HOOKS if value in ("", hook)]
        elif spec == "gloo":
            made.append(Torch(spec))
        else:
            known = "ferrule:CODEC[@ALGORITHM][?SETTING=VALUE;...], ompi[:vader|:ucx|:tcp], gloo"
            raise ValueError(f"unknown contestant '{spec}': {known}, hook[:{'|:'.join(HOOKS)}]")
    twice = sorted({one.spec for one in made if [other.spec for other in made].count(one.spec) > 1})
    if twice:
        raise ValueError(f"named twice: {', '.join(twice)}")
    return made
