"""Communicators made of communicators: split and shrink."""

import numpy
import pytest
from ranks import run_threads

import ferrule


def test_split_groups_by_color_and_orders_by_key():
    def body(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        assert part.size == 2 and part.rank == (1 if comm.rank < 2 else 0)
        values = numpy.full(10, comm.rank, dtype=numpy.float32)
        part.all_reduce(values)
        comm.all_reduce(numpy.ones(3, dtype=numpy.int64))
        part.close()
        return values[0]

    assert run_threads(4, body) == [2.0, 4.0, 2.0, 4.0]


def test_a_negative_color_takes_no_part():
    def body(comm):
        part = comm.split(-1 if comm.rank == 0 else 0)
        if part is None:
            return 0
        with part:
            return part.size

    assert run_threads(3, body) == [0, 2, 2]


@pytest.mark.parametrize("residuals", ["keep", "reset"])
def test_survivors_go_on(residuals):
    def body(comm):
        residual = ferrule.Residual(1000)
        values = numpy.linspace(-1, 1, 1000, dtype=numpy.float32) * (comm.rank + 1)
        comm.all_reduce(values.copy(), codec="int4", residual=residual)
        if comm.rank == 1:
            comm.close()
            return None
        with pytest.raises(ferrule.FerruleError):
            comm.all_reduce(values.copy(), codec="int4", residual=residual)
        with comm.shrink(residuals=residuals) as smaller:
            result = smaller.all_reduce(values.copy(), codec="int4", residual=residual)
            return smaller.rank, smaller.size, result.tobytes()

    first, gone, last = run_threads(3, body, timeout=20.0)
    assert gone is None
    assert first[:2] == (0, 2) and last[:2] == (1, 2)
    assert first[2] == last[2], "the survivors hold the same bits"


def test_an_unknown_policy_is_named():
    (comm,) = ferrule.Communicator.local(1)
    with comm, pytest.raises(ferrule.FerruleError, match="keep and reset"):
        comm.shrink(residuals="perhaps")


def test_a_closed_communicator_is_refused():
    (comm,) = ferrule.Communicator.local(1)
    comm.close()
    with pytest.raises(ferrule.FerruleError, match="closed"):
        comm.split(0)
