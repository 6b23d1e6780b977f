"""all_reduce_async: waiting, deadlines, dropped handles, abort."""

import gc
import threading
import weakref

import ferrule
import numpy
import pytest
from ranks import run_threads


def test_wait_returns_the_array():
    def body(comm):
        values = numpy.full(100_000, comm.rank + 1.0, numpy.float32)
        work = comm.all_reduce_async(values, codec="int8")
        assert work.wait() is values and work.done()
        assert work.wait(timeout=1) is values  # again: the same
        return values[0], work.bytes_sent

    for value, sent in run_threads(2, body):
        assert value == pytest.approx(3.0, rel=0.01)
        assert 100_000 <= sent < 110_000


def test_several_under_way():
    def body(comm):
        arrays = [numpy.full(1000, float(i), numpy.float32) for i in range(20)]
        works = [comm.all_reduce_async(values) for values in arrays]
        for work in works:
            work.wait()
        return [values[0] for values in arrays]

    for values in run_threads(3, body):
        assert values == [3.0 * i for i in range(20)]


def test_wait_with_a_timeout_and_a_late_peer():
    late = threading.Event()

    def body(comm):
        values = numpy.ones(10, numpy.float32)
        if comm.rank == 1:
            assert late.wait(30)
        work = comm.all_reduce_async(values)
        if comm.rank == 0:
            with pytest.raises(ferrule.FerruleError) as caught:
                work.wait(timeout=0.2)
            assert caught.value.code == "timeout"
            assert not work.done()
            late.set()
        work.wait()
        return values[0]

    assert run_threads(2, body) == [2.0, 2.0]


def test_a_dropped_handle_keeps_its_memory():
    go = threading.Event()

    def body(comm):
        values = numpy.ones(50_000, numpy.float32)
        alive = weakref.ref(values)
        if comm.rank == 1:
            assert go.wait(30)
            comm.all_reduce(values)
            comm.all_reduce(numpy.ones(4, numpy.float32))
            return True
        comm.all_reduce_async(values)  # nobody keeps the Work ...
        del values
        gc.collect()
        was_alive = alive() is not None  # ... but the collective still writes there
        go.set()
        comm.all_reduce(numpy.ones(4, numpy.float32))
        return was_alive

    assert run_threads(2, body) == [True, True]


def test_abort_from_another_thread():
    comms = ferrule.Communicator.local(2)
    threading.Timer(0.2, comms[0].abort).start()
    with pytest.raises(ferrule.FerruleError) as caught:
        comms[0].all_reduce(numpy.ones(10, numpy.float32), timeout=30)
    assert caught.value.code == "aborted"
    with pytest.raises(ferrule.FerruleError) as caught:
        comms[0].all_reduce(numpy.ones(10, numpy.float32))
    assert caught.value.code == "aborted"
    for comm in comms:
        comm.close()


def test_missing_peer_is_a_timeout():
    comms = ferrule.Communicator.local(2)
    with pytest.raises(ferrule.FerruleError) as caught:
        comms[0].all_reduce(numpy.ones(10, numpy.float32), timeout=0.3)
    assert caught.value.code == "timeout"
    for comm in comms:
        comm.abort()
        comm.close()


def test_ranks_that_disagree():
    def body(comm):
        with pytest.raises(ferrule.FerruleError, match="1[01]") as caught:
            comm.all_reduce(numpy.ones(10 + comm.rank, numpy.float32), timeout=20)
        return caught.value.code

    assert run_threads(2, body) == ["mismatch", "mismatch"]
