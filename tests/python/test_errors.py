"""Every wrong call gives a FerruleError that says what is wrong, with a code that says what to do."""

import pickle

import ferrule
import numpy
import pytest


@pytest.fixture
def comm():
    (sole,) = ferrule.Communicator.local(1)
    with sole:
        yield sole


def ones(count=256, dtype=numpy.float32):
    return numpy.ones(count, dtype)


def read_only():
    values = ones()
    values.setflags(write=False)
    return values


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        (lambda: [1.0, 2.0], "invalid_argument", "list"),
        (lambda: b"read-only bytes", "invalid_argument", "read-only"),
        (read_only, "invalid_argument", "read-only"),
        (lambda: ones()[::2], "invalid_argument", "contiguous"),
        (lambda: numpy.ones((4, 4), numpy.float32).T, "invalid_argument", "contiguous"),
        (lambda: ones(dtype=numpy.complex64), "unsupported", "element type"),
        (lambda: ones(dtype=numpy.int16), "unsupported", "element type"),
        (lambda: ones(dtype=bool), "unsupported", "element type"),
    ],
)
def test_arrays(comm, make, code, text):
    with pytest.raises(ferrule.FerruleError, match=text) as caught:
        comm.all_reduce(make())
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"codec": "int9"}, None, "int9"),
        ({"codec": "int4:block=5"}, None, "block"),
        ({"codec": "INT4!"}, "invalid_argument", "INT4"),
        ({"algo": "carrier_pigeon"}, None, "carrier_pigeon"),
        ({"op": "median"}, "invalid_argument", "median"),
        ({"op": "max", "codec": "int4"}, "unsupported", "int4"),
        ({"residual": 3}, "invalid_argument", "Residual"),
        ({"timeout": -1}, "invalid_argument", "timeout"),
        ({"timeout": float("nan")}, "invalid_argument", "timeout"),
        ({"out": numpy.ones(3, numpy.float32)}, "invalid_argument", "out"),
        ({"out": numpy.ones(256, numpy.float64)}, "invalid_argument", "out"),
    ],
)
def test_options(comm, arguments, code, text):
    with pytest.raises(ferrule.FerruleError, match=text) as caught:
        comm.all_reduce(ones(), **arguments)
    # A name that nobody knows may be called either; the library decides.
    assert caught.value.code in ((code,) if code else ("invalid_argument", "unsupported"))


@pytest.mark.parametrize("dtype", (numpy.int32, numpy.float64))
def test_lossy_codec_with_an_exact_type(comm, dtype):
    with pytest.raises(ferrule.FerruleError) as caught:
        comm.all_reduce(ones(dtype=dtype), codec="int4")
    assert caught.value.code == "unsupported"


def test_residual_of_another_length(comm):
    with pytest.raises(ferrule.FerruleError) as caught:
        comm.all_reduce(ones(256), codec="int4", residual=ferrule.Residual(255))
    assert caught.value.code == "invalid_argument"


def test_settings():
    with pytest.raises(ferrule.FerruleError, match="colour"):
        ferrule.Communicator.local(1, colour="red")
    with pytest.raises(ferrule.FerruleError):
        ferrule.Communicator.local(0)
    with pytest.raises(ferrule.FerruleError, match="smoke"):
        ferrule.Communicator.local(1, transport="smoke")


@pytest.mark.parametrize("name", ("transport", "codec", "algo", "link", "fault"))
def test_settings_of_a_wrong_type(name):
    with pytest.raises(ferrule.FerruleError, match=f"{name} must be a string or None, not int") as caught:
        ferrule.Communicator.local(1, **{name: 5})
    assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize(("value", "type_name"), (("5", "str"), ([5], "list")))
def test_timeout_of_a_wrong_type(value, type_name):
    with pytest.raises(ferrule.FerruleError, match=f"timeout must be a number .* not {type_name}") as caught:
        ferrule.Communicator.local(1, timeout=value)
    assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize(("value", "type_name"), ((5, "int"), (ones(), "ndarray")))
def test_residual_of_a_wrong_type(comm, value, type_name):
    for call in (ferrule.Codec("int4").encode, comm.all_reduce):
        with pytest.raises(ferrule.FerruleError, match=f"ferrule.Residual or None, not {type_name}") as caught:
            call(ones(), residual=value)
        assert caught.value.code == "invalid_argument"


def test_the_exception_itself():
    error = ferrule.FerruleError("text", "timeout")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.code) == ("text", "timeout")
    assert isinstance(error, RuntimeError)
