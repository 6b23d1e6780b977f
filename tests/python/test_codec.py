"""Codecs by themselves, and residuals."""

import ferrule
import numpy
import pytest
from ranks import run_threads


def gaussian(count=1000, seed=0):
    return numpy.random.RandomState(seed).standard_normal(count).astype(numpy.float32)


@pytest.mark.parametrize("spec", ("none", "bf16", "fp16", "int2", "int4", "int8", "int4:block=32,round=stochastic"))
@pytest.mark.parametrize("count", (0, 1, 127, 128, 1000))
def test_round_trip(spec, count):
    codec = ferrule.Codec(spec)
    values = gaussian(count)
    encoded = codec.encode(values, seed=1, step=2)
    assert isinstance(encoded, bytes) and len(encoded) <= codec.max_encoded_bytes(count)
    assert encoded == codec.encode(values, seed=1, step=2)
    decoded = codec.decode(encoded, count)
    assert decoded.dtype == numpy.float32 and decoded.shape == (count,)
    if count:
        assert numpy.abs(decoded - values).max() <= codec.error_bound(values)


def test_every_registered_codec_can_be_made():
    assert {"none", "bf16", "int4", "int8"} <= set(ferrule.codecs())
    for name in ferrule.codecs():
        codec = ferrule.Codec(name)
        assert codec.spec.startswith(name) and codec.block >= 1 and name in repr(codec)


def test_compression():
    assert 4_000_000 / ferrule.Codec("int4").max_encoded_bytes(1_000_000) > 7.7
    assert 4_000_000 / ferrule.Codec("int8").max_encoded_bytes(1_000_000) > 3.9


def test_stochastic_rounding_follows_its_keys():
    codec = ferrule.Codec("int4:round=stochastic")
    values = gaussian()
    encodings = {codec.encode(values, seed=seed, step=step) for seed in (0, 1) for step in (0, 1)}
    assert len(encodings) == 4


def test_residual_makes_the_running_sum_right():
    codec, residual, values = ferrule.Codec("int4"), ferrule.Residual(1000), gaussian()
    sent = numpy.zeros(1000)
    for step in range(50):
        sent += codec.decode(codec.encode(values, residual=residual, step=step), 1000)
    numpy.testing.assert_allclose(sent + residual.numpy(), 50.0 * values, atol=1e-3)
    assert numpy.abs(sent - 50.0 * values).max() < 1.0


@pytest.mark.parametrize("data", (b"", b"short", bytes(10_000)))
def test_wrong_number_of_bytes(data):
    with pytest.raises(ferrule.FerruleError) as caught:
        ferrule.Codec("int4").decode(data, 1000)
    assert caught.value.code == "invalid_argument"


def test_any_bytes_decode_safely():
    codec = ferrule.Codec("int4")
    size = codec.max_encoded_bytes(1000)
    for seed in range(20):
        assert codec.decode(numpy.random.RandomState(seed).bytes(size), 1000).shape == (1000,)


def test_bad_specs():
    for spec in ("", "int4:", "int4:block", "int4:block=0", "nothing", "int4:colour=red", "x" * 300):
        with pytest.raises(ferrule.FerruleError) as caught:
            ferrule.Codec(spec)
        assert caught.value.code in ("invalid_argument", "unsupported")


def test_residual_values():
    residual = ferrule.Residual(4)
    assert "4 elements" in repr(residual)
    assert len(residual) == 4 and residual.numpy().tolist() == [0, 0, 0, 0]
    residual.assign(numpy.arange(4, dtype=numpy.float32))
    copy = residual.numpy()
    copy[:] = 9
    assert residual.numpy().tolist() == [0, 1, 2, 3]
    for wrong in (numpy.zeros(3, numpy.float32), numpy.zeros(4), [0, 1, 2, 3]):
        with pytest.raises(ferrule.FerruleError):
            residual.assign(wrong)
    assert len(ferrule.Residual(0).numpy()) == 0
    residual.assign(numpy.full(2, 9, numpy.float32), start=2)
    assert residual.numpy().tolist() == [0, 1, 9, 9] and residual.numpy(1, 2).tolist() == [1, 9]
    residual.scale(0.5)
    assert residual.numpy(start=2).tolist() == [4.5, 4.5]
    other = ferrule.Residual(4)
    other.copy_from(residual)
    residual.scale(0)
    assert other.numpy().tolist() == [0, 0.5, 4.5, 4.5]
    for call in (
        lambda: residual.numpy(3, 2),
        lambda: residual.numpy(5),
        lambda: residual.assign(numpy.zeros(2, numpy.float32), start=3),
        lambda: residual.copy_from(ferrule.Residual(3)),
    ):
        with pytest.raises(ferrule.FerruleError):
            call()


@pytest.mark.parametrize("algo", ("direct", "ring", "tree"))
@pytest.mark.parametrize("steps", (1, 10))
def test_ledger_of_an_all_reduce(algo, steps):
    """Nothing is lost: what went in is what came out, and what the residuals hold."""
    ranks, count = 3, 3000

    def body(comm):
        residual = ferrule.Residual(count)
        put_in, came_out = numpy.zeros(count), numpy.zeros(count)
        for step in range(steps):
            values = gaussian(count, seed=100 * comm.rank + step)
            put_in += values
            came_out += comm.all_reduce(values, codec="int4", algo=algo, residual=residual, step=step)
        return put_in, came_out, residual.numpy()

    results = run_threads(ranks, body)
    inputs = sum(put_in for put_in, _, _ in results)
    outputs = results[0][1]
    left = sum(residual for _, _, residual in results)
    assert numpy.abs(left).max() > 0
    numpy.testing.assert_allclose(outputs + left, inputs, atol=1e-5 * numpy.abs(inputs).max() * steps)


def test_a_failed_collective_leaves_the_residual():
    comms = ferrule.Communicator.local(2)
    residual = ferrule.Residual(256)
    residual.assign(numpy.full(256, 0.5, numpy.float32))
    with pytest.raises(ferrule.FerruleError):
        comms[0].all_reduce(gaussian(256), codec="int4", residual=residual, timeout=0.3)
    assert (residual.numpy() == 0.5).all()
    for comm in comms:
        comm.abort()
        comm.close()
