"""What to put into a bug report: python -m ferrule.info"""

import importlib.metadata
import os
import platform
import sys

from ferrule._ferrule import library_info

# What the launchers that Ferrule recognises set.
_LAUNCHER_PREFIXES = ("OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_")
_LAUNCHER_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def launcher_variables() -> dict[str, str]:
    """The launcher's variables in this process's environment."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _LAUNCHER_NAMES or name.startswith(_LAUNCHER_PREFIXES)
    }


def text() -> str:
    """The report. No package is imported for it."""
    launcher = launcher_variables()
    lines = [
        library_info().rstrip("\n"),
        f"python: {platform.python_version()} ({sys.executable})",
        *(f"{package}: {_version(package)}" for package in ("numpy", "torch")),
        "launcher: " + ("none recognised" if not launcher else ""),
        *(f"  {name}={value}" for name, value in launcher.items()),
    ]
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    print(text())
