"""The collectives beside all_reduce, and sends and receives, from Python."""

import pathlib

import numpy as np
import pytest

import ferrule
from ranks import run_threads

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "collectives.md"


def whole(size, each=50):
    return np.arange(size * each, dtype=np.float32)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_parts_of_all_ranks(size):
    def body(comm):
        part = np.empty(50, np.float32)
        assert comm.reduce_scatter(whole(size) + comm.rank, part, op="sum") is part
        np.testing.assert_array_equal(part, size * whole(size)[50 * comm.rank :][:50] + sum(range(size)))
        everything = np.empty(size * 50, np.float32)
        comm.all_gather(part, everything)
        np.testing.assert_array_equal(everything, size * whole(size) + sum(range(size)))
        swapped = np.empty(size, np.int64)
        comm.all_to_all(np.arange(size) + 10 * comm.rank, swapped)
        np.testing.assert_array_equal(swapped, 10 * np.arange(size) + comm.rank)

    run_threads(size, body)


def test_uneven_parts_and_any_element_type():
    counts = [3, 0, 5]

    def body(comm):
        part = np.array([(comm.rank, i) for i in range(counts[comm.rank])], np.dtype([("rank", "i2"), ("i", "i4")]))
        flags = np.array([comm.rank == 1, True])
        everywhere = np.empty(6, bool)
        comm.all_gather(flags, everywhere)
        np.testing.assert_array_equal(everywhere, [False, True, True, True, False, True])
        part = np.full(counts[comm.rank], comm.rank, np.complex64)
        everything = np.empty(8, np.complex64) if comm.rank == 2 else None
        comm.gather(part, everything, root=2, counts=counts)
        if comm.rank == 2:
            np.testing.assert_array_equal(everything, [0] * 3 + [2] * 5)
        back = np.empty(counts[comm.rank], np.complex64)
        comm.scatter(everything, back, root=2, counts=counts)
        np.testing.assert_array_equal(back, part)
        sent = [1, 2, 3]
        received = [comm.rank + 1] * 3
        out = np.empty(sum(received), np.int16)
        comm.all_to_all(np.full(6, comm.rank, np.int16), out, sent, received)
        np.testing.assert_array_equal(out, np.repeat([0, 1, 2], comm.rank + 1))

    run_threads(3, body)


def test_roots():
    def body(comm):
        array = np.full(10, comm.rank, np.int64)
        comm.broadcast(array, root=1)
        assert (array == 1).all()
        total = np.zeros(4)
        comm.reduce(np.full(4, comm.rank + 1.0), root=2, op="max", out=total if comm.rank == 2 else None)
        assert (total == (3 if comm.rank == 2 else 0)).all()
        mine = np.full(4, 1.0)
        comm.reduce(mine, root=0)
        assert comm.rank != 0 or (mine == 3).all()

    run_threads(3, body)


def test_asynchronous_ones():
    def body(comm):
        parts = [np.full(1000, comm.rank + i, np.float32) for i in range(5)]
        everything = [np.empty(2000, np.float32) for _ in parts]
        works = [comm.all_gather_async(part, out) for part, out in zip(parts, everything)]
        works.append(comm.barrier_async())
        for i, work in enumerate(works[:-1]):
            assert work.wait() is everything[i]
            np.testing.assert_array_equal(everything[i][::1000], [i, i + 1])
        assert works[-1].wait() is None

    run_threads(2, body)


def test_error_feedback_of_a_reduce_scatter():
    def body(comm):
        generator = np.random.default_rng(comm.rank)
        residual, total, exact = ferrule.Residual(2000), np.zeros(1000), np.zeros(1000)
        for step in range(30):
            gradient = generator.normal(size=2000).astype(np.float32)
            part, right = np.empty(1000, np.float32), np.empty(1000, np.float32)
            comm.reduce_scatter(gradient, part, codec="int4", residual=residual, step=step)
            comm.reduce_scatter(gradient, right)
            total += part
            exact += right
        return np.abs(total - exact).max()

    assert max(run_threads(2, body)) < 1.0  # one step's error, not thirty


def test_point_to_point():
    def body(comm):
        for count in (5, 50000):
            mine, got = np.full(count, comm.rank, np.int32), np.empty(count, np.int32)
            sent = comm.send_async(mine, (comm.rank + 1) % 3, tag=2)
            assert comm.recv(got, (comm.rank + 2) % 3, tag=2) == (comm.rank + 2) % 3
            sent.wait()
            assert (got == (comm.rank + 2) % 3).all()
        if comm.rank == 0:
            got = np.empty(1, np.int32)
            assert {comm.recv(got) for _ in range(2)} == {1, 2}
            work = comm.recv_async(got, tag=5)
            work.wait()
            assert work.source == 1
        else:
            comm.send(np.zeros(1, np.int32), 0)
            if comm.rank == 1:
                comm.send(np.zeros(1, np.int32), 0, tag=5)
        comm.barrier()

    run_threads(3, body)


def test_what_does_not_fit_is_refused():
    def body(comm):
        part, everything = np.zeros(4, np.float32), np.zeros(8, np.float32)
        for call, text in (
            (lambda: comm.all_gather(part, part), "must be as many for each of 2 ranks"),
            (lambda: comm.all_gather(part, everything, counts=[8]), "there are 1 for 2 ranks"),
            (lambda: comm.all_gather(part, everything, counts=[4, 5]), "add up to 36"),
            (lambda: comm.broadcast(part, root=5), "root 5 of broadcast"),
            (lambda: comm.broadcast(part, codec="int4"), "broadcast is always exact"),
            (lambda: comm.barrier(speed=3), "no option is called 'speed'"),
            (lambda: comm.send(part, comm.rank), "this rank itself"),
            (lambda: comm.reduce(part.astype(np.int8), op="sum"), "element type that is not supported"),
        ):
            with pytest.raises(ferrule.FerruleError, match=text):
                call()
        comm.barrier()

    run_threads(2, body)


def test_ranks_that_disagree_are_named():
    def body(comm):
        with pytest.raises(ferrule.FerruleError, match="count is .* on rank .* but .* on rank") as caught:
            comm.all_gather(np.zeros(3 + comm.rank, np.float32), np.empty(2 * (3 + comm.rank), np.float32), codec="none")
        return caught.value.code

    assert run_threads(2, body) == ["mismatch", "mismatch"]


def test_the_page_s_example():
    text = PAGE.read_text()
    example = text[text.index("```python\n") + 10 :]
    names = {}
    exec(example[: example.index("```")], names)  # noqa: S102
    run_threads(4, names["rank_body"])
