"""What compress() can be told, checkpoints, and FSDP2."""

import pytest
from torch_ranks import check, scenarios


@pytest.mark.parametrize("name", scenarios("torch_controls"))
def test_control(two_ranks, name):
    check(two_ranks, f"torch_controls.{name}")


@pytest.mark.parametrize("name", scenarios("torch_resume"))
def test_checkpoint(three_ranks, name):
    check(three_ranks, f"torch_resume.{name}")


@pytest.mark.parametrize("name", scenarios("torch_fsdp"))
def test_fsdp(four_ranks, name):
    check(four_ranks, f"torch_fsdp.{name}")
