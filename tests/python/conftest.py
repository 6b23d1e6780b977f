"""The tests need the built package: PYTHONPATH=build/<preset>/python, as ctest sets it, or an installed wheel."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
def two_ranks():
    """What each of two torch ranks saw, by scenario. One start for all tests that need it."""
    return _run(2)


@pytest.fixture(scope="session")
def three_ranks():
    return _run(3)


@pytest.fixture(scope="session")
def four_ranks():
    return _run(4)


def _run(size):
    import torch_ranks

    return torch_ranks.run(size)
