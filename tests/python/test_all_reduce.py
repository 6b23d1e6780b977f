"""all_reduce on local ranks: element types, operations, shapes, buffers."""

import array

import ferrule
import numpy
import pytest
from ranks import run_threads

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")
OPS = {
    "sum": lambda parts: numpy.sum(parts, axis=0),
    "avg": lambda parts: numpy.sum(parts, axis=0) / len(parts),
    "min": lambda parts: numpy.min(parts, axis=0),
    "max": lambda parts: numpy.max(parts, axis=0),
    "prod": lambda parts: numpy.prod(parts, axis=0),
}


def small_integers(rank, dtype, count=1000):
    """Values whose sums and products over four ranks are exact in every element type."""
    return numpy.random.RandomState(rank).randint(0, 4, count).astype(dtype)


def gaussian(rank, count=5000):
    return numpy.random.RandomState(100 + rank).standard_normal(count).astype(numpy.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_operations(dtype):
    parts = [small_integers(rank, dtype) for rank in range(4)]

    def body(comm):
        results = {}
        for op in OPS:
            if op == "avg" and not dtype.startswith("float"):
                continue
            values = parts[comm.rank].copy()
            assert comm.all_reduce(values, op=op) is values
            results[op] = values
        return results

    for results in run_threads(4, body):
        for op, values in results.items():
            numpy.testing.assert_array_equal(values, OPS[op](parts).astype(dtype), err_msg=op)


@pytest.mark.parametrize("codec", ("int4", "int8:block=256", "bf16", "fp16", "int4:round=stochastic"))
@pytest.mark.parametrize("op", ("sum", "avg"))
def test_lossy_codec_is_near_and_identical(codec, op):
    parts = [gaussian(rank) for rank in range(4)]

    def body(comm):
        return comm.all_reduce(parts[comm.rank].copy(), op=op, codec=codec, seed=5, step=7)

    results = run_threads(4, body)
    exact = OPS[op]([part.astype(numpy.float64) for part in parts])
    coder = ferrule.Codec(codec)
    # Each rank's encode, then one of the sum; twice the sum's bound, because what is encoded is not the exact sum.
    total = numpy.sum(parts, axis=0, dtype=numpy.float32)
    bound = sum(coder.error_bound(part) for part in parts) + 2 * coder.error_bound(total)
    assert 0 < numpy.abs(results[0] - exact).max() <= bound / (4 if op == "avg" else 1)
    for values in results[1:]:
        assert values.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("count", (0, 1, 3, 127, 129, 4999))
def test_odd_counts(count):
    def body(comm):
        exact = comm.all_reduce(numpy.full(count, comm.rank + 1.0, numpy.float32))
        lossy = comm.all_reduce(numpy.full(count, comm.rank + 1.0, numpy.float32), codec="int8")
        return exact, lossy

    for exact, lossy in run_threads(3, body):
        numpy.testing.assert_array_equal(exact, numpy.full(count, 6.0))
        numpy.testing.assert_allclose(lossy, numpy.full(count, 6.0), rtol=0.02)


def test_out_of_place_leaves_the_input_alone():
    def body(comm):
        values = gaussian(comm.rank)
        values.setflags(write=False)  # as an input, it need not be writable
        out = numpy.empty_like(values)
        assert comm.all_reduce(values, out=out) is out
        numpy.testing.assert_array_equal(values, gaussian(comm.rank))
        return out

    numpy.testing.assert_array_equal(run_threads(2, body)[0], gaussian(0) + gaussian(1))


def test_shapes_and_other_buffers():
    def body(comm):
        matrix = comm.all_reduce(numpy.ones((3, 4, 5), numpy.float32))
        scalar = comm.all_reduce(numpy.array(2.0))
        plain = comm.all_reduce(array.array("d", [1.0, 2.0]))
        raw = comm.all_reduce(bytearray(b"\x01\x02"))
        view = comm.all_reduce(memoryview(bytearray(4)).cast("i"))
        return matrix, scalar, list(plain), bytes(raw), view[0]

    matrix, scalar, plain, raw, view = run_threads(2, body)[0]
    assert matrix.shape == (3, 4, 5) and (matrix == 2).all()
    assert (float(scalar), plain, raw, view) == (4.0, [2.0, 4.0], b"\x02\x04", 0)


def test_communicator_codec_is_the_default():
    def body(comm):
        lossy = comm.all_reduce(gaussian(comm.rank))
        exact = comm.all_reduce(gaussian(comm.rank), codec="none")
        whole = comm.all_reduce(numpy.full(20000, 3, numpy.int64))
        return lossy, exact, whole

    lossy, exact, whole = run_threads(2, body, codec="int8")[0]
    numpy.testing.assert_array_equal(exact, gaussian(0) + gaussian(1))
    assert 0 < numpy.abs(lossy - exact).max() < 0.2
    assert (whole == 6).all()  # integers stay exact under any default


@pytest.mark.parametrize("algo", ferrule.algorithms())
def test_every_algorithm(algo):
    def body(comm):
        return comm.all_reduce(small_integers(comm.rank, "float32"), algo=algo)

    expected = sum(small_integers(rank, "float32") for rank in range(4))
    for values in run_threads(4, body):
        numpy.testing.assert_array_equal(values, expected)


def test_attributes_and_context_manager():
    def body(comm):
        with comm:
            comm.all_reduce(gaussian(comm.rank), codec="int4")
            assert comm.size == 2 and comm.transport.startswith("loopback") and not comm.closed
        assert comm.closed and f"rank {comm.rank} of 2" in repr(comm)
        comm.close()  # again: nothing
        with pytest.raises(ferrule.FerruleError, match="closed"):
            comm.all_reduce(gaussian(0))
        return comm.rank, comm.stats()

    for rank, (found, stats) in enumerate(run_threads(2, body)):
        assert found == rank
        assert stats["collectives"] >= 1
        assert 2000 < stats["bytes_sent"] < 20000  # 5000 elements of int4, and what the ranks agree on
        assert stats["bytes_received"] > 0 and stats["messages_sent"] > 0
        assert stats["scratch_bytes"] > 0


def test_a_sole_rank():
    (comm,) = ferrule.Communicator.local(1)
    with comm:
        numpy.testing.assert_array_equal(comm.all_reduce(gaussian(0)), gaussian(0))


def test_a_mean_with_weights():
    """As docs/fault_tolerance.md shows it; then a weight that is none, which all ranks hear of."""

    def body(comm):
        values = numpy.full(1000, comm.rank, numpy.float32)
        comm.all_reduce(values, op="avg", weight=comm.rank + 1)
        with pytest.raises(ferrule.FerruleError, match="weight of rank 2 .* is -1") as caught:
            comm.all_reduce(values.copy(), op="avg", weight=-1 if comm.rank == 2 else 1)
        assert caught.value.code == "invalid_argument"
        work = comm.all_reduce_async(values.copy(), op="avg", weight=1)
        assert work.wait() == pytest.approx(values)
        return values

    for values in run_threads(3, body):
        assert values == pytest.approx(numpy.full(1000, (0 * 1 + 1 * 2 + 2 * 3) / 6))
