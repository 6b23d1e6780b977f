"""One rank of the tests of what compress() can be told: rules, warm-up, switch, loss scale, clips, weights, delivery."""

import threading

import ferrule
import ferrule.torch
import torch
import torch.distributed as dist
from torch import nn

from torch_common import ddp, digest, inputs, local_gradients, mlp, on_all_ranks, scenario, step_once


def made(codec="int4", *, model=None, **options):
    return ferrule.torch.compress(ddp(model or mlp()), codec, **options)


def residuals(wrapped):
    return ferrule.torch.state_dict(wrapped)["residuals"]


def flat(values):
    return torch.cat([value.double().flatten() for value in values.values()])


def exact_mean(wrapped, batch):
    parts = on_all_ranks(local_gradients(wrapped.module, batch))
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}


def close(one, other, tolerance=1e-6):
    return (flat(one) - flat(other)).norm() <= tolerance * flat(other).norm()


def refused(call, *texts):
    try:
        call()
    except (ferrule.FerruleError, RuntimeError, TypeError) as error:
        assert all(text in str(error) for text in texts), error
        return
    raise AssertionError("no error")


@scenario
def rules():
    wrapped = made("int4", rules={"4.bias": "none", "*.bias": "int8", "0.*": "none"})
    mean = exact_mean(wrapped, inputs())
    gradients = step_once(wrapped, inputs())
    equal = {name for name in mean if torch.equal(mean[name], gradients[name])}
    assert equal == {"0.weight", "4.weight", "4.bias"}, equal
    assert ferrule.torch.stats(wrapped)["compressed"] == 3
    refused(lambda: made(rules={"fc*": "int8"}), "fc*", "0.weight")
    refused(lambda: made(rules={"*": "int9000"}), "int9000")
    doubles = mlp(dtype=torch.float64)
    refused(lambda: made(rules={"0.weight": "int8"}, model=doubles), "0.weight", "float64")
    return {}


@scenario
def half_precision_means():
    """The sum of two ranks' gradients is beyond float16, their mean is not; and small ones are not divided to nothing."""
    for value in (40000.0, 6e-8):
        for codec in ("none", "int8"):
            model = nn.Linear(64, 64, bias=False).half()
            wrapped = made(codec, model=model)
            (wrapped(torch.ones(1, 64).half()) * value).sum().backward()
            expected = torch.tensor(value).half().float()
            gradient = model.weight.grad.float()
            assert (gradient - expected).abs().max() <= 0.01 * expected, (codec, value, gradient.max())
    return {}


@scenario
def warm_up():
    wrapped = made("int4", warmup_steps=2)
    for step in range(3):
        mean = exact_mean(wrapped, inputs(step))
        gradients = step_once(wrapped, inputs(step))
        assert (digest(mean.values()) == digest(gradients.values())) == (step < 2), step
        assert any(value.any() for value in residuals(wrapped).values()) == (step >= 2), step
    return {}


@scenario
def switch():
    """Off: exact, and the first exact step delivers what was left. On again: compressed."""
    wrapped = made("int4")
    for step in range(3):
        step_once(wrapped, inputs(step))
    left = residuals(wrapped)
    owed = {name: sum(on_all_ranks(value)) / dist.get_world_size() for name, value in left.items()}
    assert all(value.any() for value in owed.values())
    ferrule.torch.set_enabled(wrapped, False)
    mean = exact_mean(wrapped, inputs(3))
    gradients = step_once(wrapped, inputs(3))
    wanted = {name: value + owed.get(name, 0) for name, value in mean.items()}
    assert close(gradients, wanted) and not close(gradients, mean, 1e-3)
    assert not any(value.any() for value in residuals(wrapped).values())
    mean = exact_mean(wrapped, inputs(4))
    assert digest(step_once(wrapped, inputs(4)).values()) == digest(mean.values())
    ferrule.torch.set_enabled(wrapped, True)
    mean = exact_mean(wrapped, inputs(5))
    assert digest(step_once(wrapped, inputs(5)).values()) != digest(mean.values())
    return {}


def train_scaled(scales, overflow_at=(), steps=8):
    """Trains with a loss scale that each step has its own of; the gradients are unscaled before the optimizer's step."""
    wrapped = made("int4:round=stochastic", measure_every=0)
    if scales is not None:
        ferrule.torch.set_scaler(wrapped, lambda: scales[step])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
    for step in range(steps):
        scale = scales[step] if scales else 1.0
        optimizer.zero_grad()
        before = residuals(wrapped)
        loss = wrapped(inputs(step)).square().mean() * scale
        overflows = step in overflow_at
        if overflows and dist.get_rank() == 1:  # in one element: the other blocks of the step are as ever
            loss = loss + wrapped.module[2].weight[3, 3] * torch.inf
        loss.backward()
        gradients = [parameter.grad for parameter in wrapped.parameters()]
        finite = all(gradient.isfinite().all() for gradient in gradients)
        assert on_all_ranks(finite) == [not overflows] * dist.get_world_size()
        if finite:
            torch._foreach_mul_(gradients, 1 / scale)
            optimizer.step()
        elif scales:
            after = residuals(wrapped)
            same = scales[step] / scales[max(step - 1, 0)]
            assert all(torch.equal(after[name], before[name] * same) for name in before), "overflow left its mark"
        assert all(value.isfinite().all() for value in residuals(wrapped).values())
    return wrapped


@scenario
def loss_scale():
    """Powers of two change no bit, so any loss scale that the residuals follow gives the unscaled run's parameters."""
    reference = train_scaled(None)
    ups_and_downs = [2.0**power for power in (16, 16, 15, 3, 3, 18, 18, 0)]
    scaled = train_scaled(ups_and_downs)
    assert digest(scaled.parameters()) == digest(reference.parameters())
    forgotten = made("int4")
    refused(lambda: ferrule.torch.set_scaler(forgotten, 3.0), "get_scale")
    ferrule.torch.set_scaler(forgotten, lambda: 0.0)
    refused(lambda: step_once(forgotten, inputs()), "loss scale is 0.0")
    return {}


@scenario
def overflow():
    """An overflow on one rank is seen on all, and is gone from the next step."""
    scaled = train_scaled([2.0**16] * 4 + [2.0**15] * 4, overflow_at=(3,))
    assert ferrule.torch.stats(scaled)["skipped"] == 1
    train_scaled(None, overflow_at=(2,))
    return {}


@scenario
def clip_by_bucket():
    """Each rank's gradient is bounded before the mean; the loss scale does not count."""
    batch = inputs() * (20.0 if dist.get_rank() == 1 else 0.01)
    parts = on_all_ranks(local_gradients(mlp(), batch))
    norms = [flat(part).norm().item() for part in parts]
    assert norms[0] < 10 < norms[1], norms
    wanted = {name: sum(part[name] * min(1, 10 / norm) for part, norm in zip(parts, norms)) / 2 for name in parts[0]}
    for scale in (1.0, 1024.0):
        wrapped = made("none", clip_norm=10.0, scaler=lambda: scale)
        wrapped.zero_grad()
        (wrapped(batch).square().sum() * scale).backward()
        gradients = {name: parameter.grad / scale for name, parameter in wrapped.module.named_parameters()}
        assert close(gradients, wanted), scale
        assert ferrule.torch.stats(wrapped)["clipped"] == dist.get_rank()
    infinite = made("none", clip_norm=10.0)
    gradients = step_once(infinite, batch * torch.inf)
    assert not any(value.isfinite().all() for value in gradients.values()), "an overflow must stay one"
    refused(lambda: made(clip_norm=0.0), "clip_norm")
    return {"norms": norms}


@scenario
def clip_spikes():
    """A spike on one rank is brought down to what is usual for its parameter, and its residual goes."""
    wrapped = made("int4", clip_spikes=3.0)
    for step in range(10):
        usual = step_once(wrapped, inputs(step % 3))
    assert ferrule.torch.stats(wrapped)["spikes"] == 0
    state = ferrule.torch.state_dict(wrapped)
    if dist.get_rank() == 1:  # as if earlier spikes had left much behind
        for value in state["residuals"].values():
            value += 1000.0
    ferrule.torch.load_state_dict(wrapped, state)
    batch = inputs() * (30.0 if dist.get_rank() == 1 else 1.0)
    spiked = step_once(wrapped, batch)
    assert ferrule.torch.stats(wrapped)["spikes"] == 6 * dist.get_rank()
    assert flat(spiked).norm() < 4 * flat(usual).norm(), (flat(spiked).norm(), flat(usual).norm())
    bare = flat(exact_mean(wrapped, batch)).norm()
    assert bare > 50 * flat(usual).norm()
    return {}


@scenario
def weighted_mean():
    samples = 3.0 if dist.get_rank() == 0 else 1.0
    for codec, tolerance in (("none", 1e-6), ("int8", 0.01)):
        wrapped = made(codec)
        parts = on_all_ranks(local_gradients(wrapped.module, inputs()))
        weights = on_all_ranks(samples)
        wanted = {
            name: sum(part[name] * weight for part, weight in zip(parts, weights)) / sum(weights) for name in parts[0]
        }
        ferrule.torch.set_weight(wrapped, samples)
        assert close(step_once(wrapped, inputs()), wanted, tolerance), codec
        ferrule.torch.set_weight(wrapped, 0.0)
        assert not flat(step_once(wrapped, inputs())).any() or codec != "none"
    refused(lambda: step_once(wrapped, inputs()), "set_weight()")
    refused(lambda: ferrule.torch.set_weight(wrapped, -1.0), "not negative")
    return {}


@scenario
def delivery():
    """Each gradient is in the buffer when its callback comes; all have come when backward() ends."""
    wrapped = made("int4", model=mlp(), min_elements=64)
    names = dict(wrapped.module.named_parameters())
    buffer = torch.full((sum(each.numel() for each in names.values()) + 5,), -1.0)
    seen = []

    def on_piece(name, start, count):
        seen.append((name, buffer[start : start + count].clone(), threading.current_thread() is threading.main_thread()))

    offsets = ferrule.torch.deliver(wrapped, buffer, on_piece)
    gradients = step_once(wrapped, inputs())
    assert sorted(name for name, _, _ in seen) == sorted(names) == sorted(offsets)
    for name, value, in_main in seen:
        assert torch.equal(value, gradients[name].flatten()) and not in_main, name
    assert torch.equal(buffer[:-5], torch.cat([gradients[name].flatten() for name in names]))
    assert (buffer[-5:] == -1).all()
    ferrule.torch.deliver(wrapped, None)
    step_once(wrapped, inputs(1))
    assert len(seen) == len(names)
    refused(lambda: ferrule.torch.deliver(wrapped, buffer[:7]), "at least")

    def fails(*_):
        raise ValueError("no room")

    ferrule.torch.deliver(wrapped, buffer, fails)
    refused(lambda: step_once(wrapped, inputs()), "no room")
    return {}


@scenario
def parameter_averaging():
    """Ranks that went apart are together again, bit for bit, in the exact mean; compressed training goes on."""
    model = nn.Sequential(nn.Linear(40, 48), nn.BatchNorm1d(48), nn.Linear(48, 3))
    wrapped = made("int4", model=model)
    step_once(wrapped, inputs())
    left = residuals(wrapped)
    with torch.no_grad():
        for tensor in [*model.parameters(), model[1].running_mean]:
            tensor.add_(torch.randn_like(tensor) * (dist.get_rank() + 1))
    floats = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    wanted = {name: sum(on_all_ranks(value)).double() / 2 for name, value in floats.items()}
    assert len(set(on_all_ranks(digest(model.parameters())))) == 2, "they are apart"
    ferrule.torch.average_parameters(wrapped)
    assert len(set(on_all_ranks(digest(model.state_dict().values())))) == 1
    assert close({name: model.state_dict()[name] for name in wanted}, wanted, 1e-7)
    assert all(torch.equal(value, left[name]) for name, value in residuals(wrapped).items())
    gradients = step_once(wrapped, inputs(1))
    assert len(set(on_all_ranks(digest(gradients.values())))) == 1
    return {}


class Writer:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, tag, value, step):
        self.scalars[tag] = (float(value), step)


@scenario
def statistics():
    errors = {}
    for codec in ("none", "int8", "int4"):
        for feedback in (True, False):
            wrapped = made(codec, measure_every=2, error_feedback=feedback)
            assert ferrule.torch.stats(wrapped)["relative_error"] is None
            for step in range(3):
                step_once(wrapped, inputs(step))
            errors[codec, feedback] = ferrule.torch.stats(wrapped)["relative_error"]
            writer = Writer()
            ferrule.torch.log_stats(wrapped, writer, step=7)
            seen = {tag.partition("/")[2]: value for tag, (value, step) in writer.scalars.items() if step == 7}
            assert seen["bytes_per_step"] * 3 == ferrule.torch.stats(wrapped)["bytes"] and seen["ratio"] > 0
            assert seen.get("relative_error") == errors[codec, feedback]
    assert errors["none", True] is None
    assert 0 < errors["int8", True] < 0.01 < errors["int4", True] < 0.3, errors
    # Without feedback the error is that of one step alone: here it can be had from outside.
    wrapped = made("int4", measure_every=1, error_feedback=False)
    mean, gradients = exact_mean(wrapped, inputs()), step_once(wrapped, inputs())
    outside = (flat(gradients) - flat(mean)).norm() / flat(mean).norm()
    measured = ferrule.torch.stats(wrapped)["relative_error"]
    assert 0.3 < measured / outside < 3, (measured, outside)
    return {}


@scenario
def disabled_models_take_all_calls():
    import os
    import warnings

    os.environ["FERRULE_DISABLE"] = "1"
    try:
        wrapped = made("int4", rules={"*.bias": "none"}, clip_norm=1.0)
        ferrule.torch.set_enabled(wrapped, False)
        ferrule.torch.set_scaler(wrapped, lambda: 2.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ferrule.torch.set_weight(wrapped, 2.0)
        assert ["plain means" in str(each.message) for each in caught] == [True]
        ferrule.torch.average_parameters(wrapped)
        ferrule.torch.log_stats(wrapped, Writer(), 0)
        refused(lambda: ferrule.torch.deliver(wrapped, torch.zeros(9)), "FERRULE_DISABLE")
    finally:
        del os.environ["FERRULE_DISABLE"]
    return {}
