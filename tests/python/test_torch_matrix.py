"""Features of real training x codecs, on two ranks, and some of them on three."""

import re

import pytest
from ranks import WORKERS
from torch_ranks import ON_THREE, check

_SOURCE = (WORKERS / "torch_matrix.py").read_text()
NAMES = re.findall(r"^    (\w+),$", _SOURCE.partition("\nFEATURES = (")[2].partition("\n)")[0], re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_feature(two_ranks, name):
    check(two_ranks, f"torch_matrix.{name}")


@pytest.mark.parametrize("name", ON_THREE)
def test_feature_on_three_ranks(three_ranks, name):
    check(three_ranks, f"torch_matrix.{name}")


def test_codecs_differ(two_ranks):
    """The tolerances would also pass if nothing were compressed."""
    for name in NAMES:
        seen = two_ranks[0][f"torch_matrix.{name}"]["distance"]
        if name not in ("doubles", "complex_parameters"):
            assert seen["none"] < seen["int8"] < seen["int4"], (name, seen)
