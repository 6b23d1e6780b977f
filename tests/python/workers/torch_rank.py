"""One rank of the torch tests: runs every scenario in one process group, and prints what each saw as JSON.

A scenario is a function that returns a dict; an assertion that fails in one is reported under its name, so that the
others still run. All ranks run them in the same order.
"""

import os
import warnings

import ferrule
import ferrule.torch
import torch
import torch.distributed as dist
from torch import nn

from torch_common import ddp, digest, inputs, local_gradients, mlp, on_all_ranks, scenario, step_once


def check_mean(gradients, parts, name, codec):
    """A compressed gradient against the exact mean, with the codec's own bounds."""
    total = sum(part[name].double() for part in parts)
    error = (gradients[name].double() - total / len(parts)).abs().max().item()
    coder = ferrule.Codec(codec)
    bound = sum(coder.error_bound(part[name].float().numpy()) for part in parts)
    bound += 2 * coder.error_bound(total.float().numpy())
    assert 0 < error <= bound / len(parts), (name, error, bound)


@scenario
def mean_within_bound():
    seen = {}
    for codec in ("int8", "int4", "bf16", "int4:round=stochastic"):
        wrapped = ddp(mlp())
        ferrule.torch.compress(wrapped, codec, error_feedback=False)
        parts = on_all_ranks(local_gradients(wrapped.module, inputs()))
        gradients = step_once(wrapped, inputs())
        # Blocks may reach over the edge of two parameters: the bound is taken over both compressed ones together.
        joined = [{"w": torch.cat([part["0.weight"].flatten(), part["2.weight"].flatten()])} for part in parts]
        mean = {"w": torch.cat([gradients["0.weight"].flatten(), gradients["2.weight"].flatten()])}
        check_mean(mean, joined, "w", codec)
        digests = on_all_ranks(digest(gradients.values()))
        assert len(set(digests)) == 1, "ranks differ"
        seen[codec] = ferrule.torch.stats(wrapped)
    assert seen["int4"]["compressed"] == 2 and seen["int4"]["exact"] == 4, seen["int4"]
    return seen


@scenario
def small_parameters_are_exact():
    wrapped = ddp(mlp())
    ferrule.torch.compress(wrapped, "int2")
    parts = on_all_ranks(local_gradients(wrapped.module, inputs()))
    gradients = step_once(wrapped, inputs())
    for name in ("0.bias", "2.bias", "4.weight", "4.bias"):
        expected = (parts[0][name] + parts[1][name]) / 2
        assert torch.equal(gradients[name], expected), name
    assert not torch.equal(gradients["0.weight"], (parts[0]["0.weight"] + parts[1]["0.weight"]) / 2)
    return {}


@scenario
def codec_none_is_exact():
    wrapped = ddp(mlp())
    ferrule.torch.compress(wrapped, "none")
    parts = on_all_ranks(local_gradients(wrapped.module, inputs()))
    gradients = step_once(wrapped, inputs())
    for name, gradient in gradients.items():
        assert torch.equal(gradient, (parts[0][name] + parts[1][name]) / 2), name
    return ferrule.torch.stats(wrapped)


class Recorder:
    """Stands where the hook's reducer has its layouts, and notes which parameters each bucket held."""

    def __init__(self, wrapped):
        table = ferrule.torch._registry.engine_of(wrapped).table
        names = {id(parameter): name for name, parameter in wrapped.module.named_parameters()}
        self.buckets = []
        find = table.find

        def find_and_note(parameters, dtype):
            self.buckets.append([names[id(parameter)] for parameter in parameters])
            return find(parameters, dtype)

        table.find = find_and_note


def signature_model():
    torch.manual_seed(0)
    model = nn.Module()
    for i, rows in enumerate((16, 24, 32, 40)):
        model.register_parameter(f"p{i}", nn.Parameter(torch.zeros(rows, 128)))
    model.register_parameter("small", nn.Parameter(torch.zeros(7)))
    return model


class Signature(nn.Module):
    """Every parameter has a constant gradient of its own: a fixed pattern, on a scale a thousand times its neighbour's."""

    def __init__(self):
        super().__init__()
        self.model = signature_model()
        for i, (name, parameter) in enumerate(self.model.named_parameters()):
            generator = torch.Generator().manual_seed(77 * i + dist.get_rank())
            pattern = torch.randn(parameter.shape, generator=generator) * 1000.0**i
            self.register_buffer(f"pattern_{name}", pattern)

    def forward(self, _):
        terms = [
            (parameter * getattr(self, f"pattern_{name}")).sum() for name, parameter in self.model.named_parameters()
        ]
        return sum(terms)


def residuals_of(wrapped):
    return ferrule.torch.state_dict(wrapped)["residuals"]


def ledger_errors(wrapped, put_in, came_out):
    """Per parameter: how far (what came out + what is left) is from (what went in), over all ranks, relative."""
    left = {f"model.{name.split('.')[-1]}": value for name, value in residuals_of(wrapped).items()}
    errors = {}
    for name in put_in:
        mine = left.get(name)
        rest = sum(on_all_ranks(torch.zeros(1) if mine is None else mine.double().flatten()))
        total = sum(on_all_ranks(put_in[name].double().flatten()))
        out = came_out[name].double().flatten() * dist.get_world_size()
        errors[name] = ((out + rest - total).abs().max() / total.abs().max()).item()
    return errors


@scenario
def residuals_follow_their_parameters():
    """DDP rebuilds its buckets after the first step, in another order. The ledger of each parameter must hold."""
    wrapped = ddp(Signature(), bucket_cap_mb=0.01, broadcast_buffers=False)
    ferrule.torch.compress(wrapped, "int4")
    recorder = Recorder(wrapped)
    names = [name for name, _ in wrapped.module.named_parameters()]
    put_in = {name: torch.zeros_like(p) for name, p in wrapped.module.named_parameters()}
    came_out = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in wrapped.module.named_parameters()}
    per_step = []
    for _ in range(6):
        before = len(recorder.buckets)
        wrapped.zero_grad()
        wrapped(None).backward()
        per_step.append(recorder.buckets[before:])
        for name, parameter in wrapped.module.named_parameters():
            put_in[name] += getattr(wrapped.module, f"pattern_{name.split('.')[-1]}")
            came_out[name] += parameter.grad
    assert per_step[0] != per_step[1], "DDP did not rebuild its buckets: the test tests nothing"
    assert per_step[1] == per_step[5] and len(per_step[1]) > 1
    residuals = residuals_of(wrapped)
    assert set(residuals) == {name for name in names if "small" not in name}
    assert all(value.abs().max() > 0 for value in residuals.values())
    errors = ledger_errors(wrapped, put_in, came_out)
    assert max(errors.values()) < 1e-5, errors
    return {"buckets": [len(step) for step in per_step], "errors": errors}


@scenario
def disabled():
    os.environ["FERRULE_DISABLE"] = "1"
    try:
        wrapped = ddp(mlp())
        assert ferrule.torch.compress(wrapped, "int2") is wrapped
        plain = ddp(mlp())
        mine, theirs = step_once(wrapped, inputs()), step_once(plain, inputs())
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        seen = ferrule.torch.stats(wrapped)
        assert seen.pop("codec") == "none" and not any(seen.values()), seen
        assert ferrule.torch.state_dict(wrapped) == {}
        ferrule.torch.load_state_dict(wrapped, {"0.weight": torch.zeros(3)})
        assert ferrule.torch.state_dict(wrapped) == {}
        try:
            ferrule.torch.stats(plain)
        except ferrule.FerruleError as error:
            return {"text": str(error), "keys": sorted([*seen, "codec"])}
        raise AssertionError("stats of a model that is not compressed")
    finally:
        del os.environ["FERRULE_DISABLE"]


def communicator(group, **config):
    store = dist.distributed_c10d._get_default_store()
    return ferrule.Communicator.from_store(store, dist.get_rank(), dist.get_world_size(), group, **config)


@scenario
def errors_surface_in_backward():
    with communicator("doomed", timeout=30) as comm:
        wrapped = ddp(mlp())
        ferrule.torch.compress(wrapped, "int4", communicator=comm)
        step_once(wrapped, inputs())
        dist.barrier()
        comm.abort()
        try:
            step_once(wrapped, inputs(1))
        except RuntimeError as error:
            assert "aborted" in str(error), error
            return {"text": str(error)}
    raise AssertionError("backward did not raise")


@scenario
def sparse_gradients_are_refused():
    with communicator("sparse") as comm:
        wrapped = ddp(nn.EmbeddingBag(100, 32, sparse=True, mode="sum"))
        ferrule.torch.compress(wrapped, "int4", communicator=comm)
        try:
            wrapped(torch.tensor([[1, 2, 3]])).sum().backward()
        except RuntimeError as error:
            assert "sparse" in str(error), error
            return {"text": str(error)}
    raise AssertionError("backward did not raise")


def train(codec, steps=20, **options):
    """Returns (digest of the parameters on this rank, losses)."""
    wrapped = ddp(mlp(seed=3))
    ferrule.torch.compress(wrapped, codec, **options)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        batch = inputs(step % 2)
        optimizer.zero_grad()
        loss = (wrapped(batch) - batch[:, :3]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return digest(wrapped.parameters()), losses


@scenario
def training_stays_together():
    results = {}
    for codec in ("int4", "int4:round=stochastic", "none"):
        mine, losses = train(codec, seed=11)
        again, _ = train(codec, seed=11)
        assert len(set(on_all_ranks(mine))) == 1, "ranks differ"
        assert mine == again, "two runs differ"
        assert sum(losses[-4:]) < 0.5 * sum(losses[:4]), losses
        results[codec] = losses[-1]
    other, _ = train("int4:round=stochastic", seed=12)
    stochastic, _ = train("int4:round=stochastic", seed=11)
    assert other != stochastic, "the seed has no effect"
    return results


@scenario
def other_float_types():
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        wrapped = ddp(mlp(dtype=dtype))
        ferrule.torch.compress(wrapped, "int8")
        parts = on_all_ranks(local_gradients(wrapped.module, inputs(dtype=dtype)))
        gradients = step_once(wrapped, inputs(dtype=dtype))
        assert len(set(on_all_ranks(digest(gradients.values())))) == 1
        for name, gradient in gradients.items():
            assert gradient.dtype == dtype
            mean = sum(part[name].double() for part in parts) / 2
            scale = mean.abs().max().item() + 1e-12
            error = (gradient.double() - mean).abs().max().item() / scale
            assert error < (1e-15 if dtype == torch.float64 else 0.03), (dtype, name, error)
        stats = ferrule.torch.stats(wrapped)
        assert (stats["compressed"] == 0) == (dtype == torch.float64), stats
    return {}


@scenario
def accumulation_reduces_once():
    wrapped = ddp(mlp())
    ferrule.torch.compress(wrapped, "int8")
    wrapped.zero_grad()
    with wrapped.no_sync():
        wrapped(inputs(0)).square().sum().backward()
        wrapped(inputs(1)).square().sum().backward()
    assert ferrule.torch.stats(wrapped)["steps"] == 0
    wrapped(inputs(2)).square().sum().backward()
    assert ferrule.torch.stats(wrapped)["steps"] == 1
    gradient = wrapped.module[2].weight.grad
    bare = mlp()
    for step in range(3):
        bare(inputs(step)).square().sum().backward()
    mean = sum(on_all_ranks(bare[2].weight.grad)) / 2
    error = ((gradient - mean).abs().max() / mean.abs().max()).item()
    assert error < 0.02, error
    return {"error": error}


@scenario
def residuals_can_be_saved():
    """The first step after a restart delivers what the last step before it had left behind."""
    before = ddp(mlp())
    ferrule.torch.compress(before, "int4")
    for step in range(3):
        step_once(before, inputs(step))
    saved = ferrule.torch.state_dict(before)
    resumed = ddp(mlp())
    ferrule.torch.compress(resumed, "int4")
    ferrule.torch.load_state_dict(resumed, saved)
    reloaded = ferrule.torch.state_dict(resumed)
    assert saved.keys() == reloaded.keys() and saved["step"] == reloaded["step"] == 3
    saved, reloaded = saved["residuals"], reloaded["residuals"]
    assert set(saved) == set(reloaded) == {"0.weight", "2.weight"}
    assert all(torch.equal(saved[name], reloaded[name]) for name in saved)
    parts = local_gradients(resumed.module, inputs(3))
    gradients = step_once(resumed, inputs(3))
    left = residuals_of(resumed)
    errors = {}
    for name in saved:
        put_in, rest = parts[name].double() + saved[name], left[name].double()
        balance = sum(on_all_ranks(put_in - rest)) - 2 * gradients[name].double()
        errors[name] = (balance.abs().max() / put_in.abs().max()).item()
    assert max(errors.values()) < 1e-5, errors
    return errors


@scenario
def residuals_of_another_model_are_refused():
    wrapped = ddp(mlp())
    ferrule.torch.compress(wrapped, "int4")
    good = torch.ones_like(wrapped.module[0].weight)
    saved = {**ferrule.torch.state_dict(wrapped), "residuals": {"0.weight": good, "gone": good, "lost": good}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ferrule.torch.load_state_dict(wrapped, saved)
    assert [str(w.message).count("2 of 3") for w in caught] == [1] and "gone, lost" in str(caught[0].message), caught
    assert set(residuals_of(wrapped)) == {"0.weight"}
    try:
        ferrule.torch.load_state_dict(wrapped, {**saved, "residuals": {"0.weight": good[1:]}})
    except ferrule.FerruleError as error:
        assert error.code == "invalid_argument"
        assert all(text in str(error) for text in ("'0.weight'", "(63, 40)", "(64, 40)")), error
        assert torch.equal(residuals_of(wrapped)["0.weight"], good), "a refused load changed something"
        return {}
    raise AssertionError("no error")


@scenario
def a_communicator_over_other_ranks_is_refused():
    texts = []
    store = dist.distributed_c10d._get_default_store()
    swapped = ferrule.Communicator.from_store(store, 1 - dist.get_rank(), 2, "swapped")
    (alone,) = ferrule.Communicator.local(1)
    for comm in (swapped, alone):
        with comm:
            try:
                ferrule.torch.compress(ddp(mlp()), communicator=comm)
            except ferrule.FerruleError as error:
                assert error.code == "invalid_argument"
                texts.append(str(error))
    mine = f"rank {dist.get_rank()} of 2"
    assert len(texts) == 2 and all(mine in text for text in texts), texts
    assert f"rank {1 - dist.get_rank()} of 2" in texts[0] and "rank 0 of 1" in texts[1], texts
    return {}


@scenario
def compress_twice_is_an_error():
    wrapped = ddp(mlp())
    ferrule.torch.compress(wrapped, "int4")
    for call in (lambda: ferrule.torch.compress(wrapped), lambda: ferrule.torch.compress(ddp(mlp()), "int99")):
        try:
            call()
        except ferrule.FerruleError:
            continue
        raise AssertionError("no error")
    return {}


@scenario
def dlpack_tensors():
    with communicator("tensors") as comm:
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
            tensor = torch.full((5, 7), comm.rank + 1).to(dtype)
            assert comm.all_reduce(tensor) is tensor
            assert (tensor == 3).all(), tensor
        for wrong in (torch.ones(4, requires_grad=True), torch.ones(4, 4).t(), torch.ones(4, dtype=torch.complex64)):
            try:
                comm.all_reduce(wrong)
            except ferrule.FerruleError as error:
                assert error.code in ("invalid_argument", "unsupported")
                continue
            raise AssertionError("no error")
    return {}
