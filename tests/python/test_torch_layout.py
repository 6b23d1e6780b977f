"""Which gradients go together, with which codec, and where their residuals lie: without any process group."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import ferrule
from ferrule.torch._layout import Part, Unit, starts_of
from ferrule.torch._residuals import LayoutTable
from ferrule.torch._rules import Rules

INT4, INT8 = ferrule.Codec("int4").spec, ferrule.Codec("int8").spec


def table(sizes, rules=None, codec="int4", min_elements=1):
    """(table, parameters by name)"""
    parameters = {name: torch.zeros(size) for name, size in sizes.items()}
    names = {id(parameter): name for name, parameter in parameters.items()}
    return LayoutTable(names, Rules.make(codec, min_elements, rules), True), parameters


def names_of(layout):
    return {part.unit.codec: part.unit.names() for part in layout.parts}


def residual_of(layout):
    return layout.parts[0].unit.residual


def test_a_bucket_is_cut_by_codec():
    made, parameters = table({"a": (4, 8), "b": (5,), "c": (8, 8), "d": (2, 2)}, min_elements=32)
    layout = made.find(list(parameters.values()), torch.float32)
    assert names_of(layout) == {INT4: ["a", "c"], "none": ["b", "d"]}
    lossy, exact = layout.parts
    bucket = torch.arange(105.0)
    packed = lossy.gather(bucket)
    assert packed.tolist() == [*range(32), *range(37, 101)]
    assert exact.gather(bucket).tolist() == [*range(32, 37), *range(101, 105)]
    packed.neg_()
    lossy.scatter(bucket)
    assert bucket[31] == -31 and bucket[33] == 33 and bucket[100] == -100
    assert [view.numel() for view in lossy.views(bucket)] == [32, 64]
    assert names_of(made.find(list(parameters.values()), torch.float64)) == {"none": ["a", "b", "c", "d"]}


def test_a_unit_that_lies_in_a_row_is_a_view():
    unit = Unit(INT4, {"b": 8, "c": 8}, False)
    bucket = torch.zeros(24)
    Part(unit, starts_of({"a": 8, "b": 8, "c": 8}), torch.float32).gather(bucket).fill_(1)
    assert bucket.tolist() == [0.0] * 8 + [1.0] * 16


def test_rules_come_before_the_default():
    sizes = {"embed.weight": (64, 64), "fc.weight": (64, 64), "fc.bias": (64,), "norm.bias": (4,)}
    rules = {"fc.bias": "int8", "*.bias": "none", "embed*": "int8"}
    made, parameters = table(sizes, rules)
    layout = made.find(list(parameters.values()), torch.float32)
    assert names_of(layout) == {INT8: ["embed.weight", "fc.bias"], INT4: ["fc.weight"], "none": ["norm.bias"]}


@pytest.mark.parametrize(
    "rules, text",
    (({"*.bais": "none"}, "no parameter is called like '*.bais'"), ({"w": "int5000"}, "int5000"), ({"d": "int8"}, "float64")),
)
def test_wrong_rules_are_refused(rules, text):
    parameters = {"w": torch.zeros(4, 4), "d": torch.zeros(4, dtype=torch.float64)}
    with pytest.raises(ferrule.FerruleError, match=text.replace("*", r"\*")):
        Rules.make("int4", 1, rules).check(parameters)


@pytest.mark.parametrize("spec, exact", (("none", True), ("none/none", True), ("none/int4", False), ("auto:int4", False)))
def test_exact_codecs(spec, exact):
    assert (Rules.make(spec, 1, None).codec_of("w", torch.zeros(8, 8), torch.float32) == "none") == exact


def test_residuals_move_between_layouts():
    """A parameter's residual goes with it through any change of buckets, and back."""
    made, parameters = table({"a": (8, 8), "b": (8, 8), "c": (8, 8)})
    a, b, c = parameters.values()
    residual_of(made.find([a, b, c], torch.float32)).assign(numpy.repeat(numpy.float32([1, 2, 3]), 64))
    assert (residual_of(made.find([c, a], torch.float32)).numpy() == numpy.repeat([3, 1], 64)).all()
    assert (residual_of(made.find([b], torch.float32)).numpy() == 2).all()
    residual_of(made.find([b], torch.float32)).assign(numpy.full(64, 5, numpy.float32))
    assert (residual_of(made.find([a, b, c], torch.float32)).numpy() == numpy.repeat([1, 5, 3], 64)).all()
    assert made.counts() == (3, 0)
    made.load({"a": made.values()["c"]}, [])
    assert (residual_of(made.find([b, a], torch.float32)).numpy() == numpy.repeat([0, 3], 64)).all()
    made.scale(0.5)
    assert (made.values()["a"] == 1.5).all()


def test_a_plan_cuts_a_large_bucket_as_the_small_ones_were():
    """After a restart DDP begins with one bucket; the units, and with them all blocks, are those of before."""
    before, parameters = table({"a": (8, 8), "b": (8, 8), "c": (8, 8), "d": (4,)})
    a, b, c, d = parameters.values()
    before.find([d, b], torch.float32)
    before.find([c, a], torch.float32)
    plan, values = before.plan(), before.values()
    after = LayoutTable({id(p): name for name, p in parameters.items()}, Rules.make("int4", 1, None), True)
    after.load(values, plan)
    layout = after.find([a, b, c, d], torch.float32)
    assert sorted(part.unit.names() for part in layout.parts) == [["b"], ["c", "a"], ["d"]]
    units = after.units()
    after.find([d, b], torch.float32)
    after.find([c, a], torch.float32)
    assert set(after.units()) == set(units), "the same units go on when the buckets come back"
    after.load(values, [("int8", ["a", "b"], {}), *plan])
    layout = after.find([a, b, c, d], torch.float32)
    assert [part.unit.names() for part in layout.parts] == [["a", "b", "c"], ["d"]], "a plan that does not fit is none"


def test_roll_back():
    unit = Unit(INT4, {"a": 4, "b": 4}, True)
    ones, twos = numpy.full(8, 1, numpy.float32), numpy.full(8, 2, numpy.float32)
    unit.residual.assign(ones)
    unit.keep()
    unit.residual.assign(twos)
    unit.roll_back(unit.pieces[1])
    assert unit.residual.numpy().tolist() == [2] * 4 + [1] * 4
    unit.roll_back()
    assert unit.residual.numpy().tolist() == [1] * 8
    unit.forget(unit.pieces[0])
    assert unit.residual.numpy().tolist() == [0] * 4 + [1] * 4
