"""One rank of the FSDP2 tests: four ranks, sharded over all of them, or over two with two replicas."""

import io

import ferrule
import ferrule.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import torch_common
from torch_common import digest, inputs, on_all_ranks, scenario

STEPS = 30


def net():
    torch.manual_seed(12)
    return nn.Sequential(nn.Linear(40, 96), nn.ReLU(), nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 3)))


def sharded(mesh=None, policy=None, **options):
    model = net()
    settings = {} if policy is None else {"mp_policy": policy}
    fully_shard(model[2], mesh=mesh, **settings)
    fully_shard(model, mesh=mesh, **settings)
    return ferrule.torch.compress(model, **options) if options else model


def train(model, steps=STEPS, first=0, scaler=None):
    """Losses, the mean over ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(first, first + steps):
        batch = inputs(step % 4)
        optimizer.zero_grad()
        loss = (model(batch) - batch[:, :3]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [sum(each) / len(each) for each in zip(*on_all_ranks(losses))]


def full(model):
    """The whole parameters, in this rank's view: from the exact shards."""
    return [parameter.full_tensor().detach() for parameter in model.parameters()]


@scenario
def loss_curve_and_bytes():
    reference = train(sharded())
    seen = {"fp32": reference[-1]}
    for options in (
        {"reduce_scatter": "int8"},
        {"reduce_scatter": "int4"},
        {"reduce_scatter": "int4", "all_gather": "int8"},
        {"reduce_scatter": "none", "all_gather": "int8"},
    ):
        model = sharded(**options)
        losses = train(model)
        assert_identical(model)
        assert max(abs(a - b) for a, b in zip(losses, reference)) < 0.05 * reference[0], (options, losses, reference)
        assert losses[-1] < 0.5 * losses[0]
        stats = ferrule.torch.stats(model)
        name = " ".join(f"{key}={value}" for key, value in options.items())
        seen[name] = {"loss": losses[-1], **{key: value for key, value in stats.items() if key.endswith("bytes")}}
        if options["reduce_scatter"] != "none":
            assert stats["steps"] == STEPS
            assert_ratio(stats, "reduce_scatter", {"int8": 3.0, "int4": 4.5}[options["reduce_scatter"]])
        else:
            assert stats["reduce_scatter_bytes"] == 0
        if "all_gather" in options:
            assert_ratio(stats, "all_gather", 3.0)
        else:
            assert stats["all_gather_bytes"] == 0
    return seen


def assert_identical(model):
    """All ranks compute with the same parameters: the decoded ones, the owner of a shard too."""
    assert len(set(on_all_ranks(digest(full(model))))) == 1
    assert len(set(on_all_ranks(digest([model(torch.ones(4, 40))])))) == 1


def assert_ratio(stats, kind, least):
    """Raw bytes are those that an exact collective of the same tensors sends: shards of whole rows, padded."""
    ranks = dist.get_world_size()
    if kind == "reduce_scatter":
        shapes = [tuple(parameter.shape) for parameter in net().parameters()]
        shard = sum(-(-shape[0] // ranks) * (shape[1] if len(shape) > 1 else 1) for shape in shapes)
        assert stats["reduce_scatter_raw_bytes"] == STEPS * shard * 4 * (ranks - 1), stats
    assert stats[f"{kind}_raw_bytes"] / stats[f"{kind}_bytes"] > least, stats


@scenario
def exact_steps_are_torchs_own():
    """Warm-up and the switch: without compression the numbers are those of plain FSDP, up to the order of additions."""
    plain, warm = sharded(), sharded(reduce_scatter="int4", warmup_steps=3)
    assert close(full_after(plain, 3), full_after(warm, 3), 1e-5)
    assert not close(full_after(plain, 1), full_after(warm, 1), 1e-5)
    off = sharded(reduce_scatter="int4", all_gather="int4")
    ferrule.torch.set_enabled(off, False)
    assert close(full_after(sharded(), 3), full_after(off, 3), 1e-5)
    return {}


def full_after(model, steps):
    train(model, steps)
    return full(model)


def close(one, other, tolerance):
    one, other = (torch.cat([each.flatten() for each in values]) for values in (one, other))
    return ((one - other).norm() / other.norm()).item() < tolerance


@scenario
def replicas_average_their_shards():
    """Hybrid sharding: two groups of two; exact inside, int4 between them."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    reference = train(sharded())
    for options in ({"reduce_scatter": "none", "all_reduce": "int4"}, {"all_reduce": "none", "reduce_scatter": "int8"}):
        model = sharded(mesh["shard"], replicas=mesh.get_group("replicate"), **options)
        losses = train(model)
        assert_identical(model)
        assert max(abs(a - b) for a, b in zip(losses, reference)) < 0.05 * reference[0], (options, losses, reference)
        stats = ferrule.torch.stats(model)
        lossy = options["all_reduce"] == "int4"
        assert (stats["all_reduce_raw_bytes"] / stats["all_reduce_bytes"] > 4) == lossy, stats
    try:
        sharded(mesh, replicas=mesh.get_group("replicate"))
    except ferrule.FerruleError as error:
        assert "two dimensions" in str(error), error
        return {}
    raise AssertionError("no error")


@scenario
def mixed_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reference, losses = train(sharded(policy=policy)), train(sharded(policy=policy, reduce_scatter="int4", all_gather="int8"))
    assert max(abs(a - b) for a, b in zip(losses, reference)) < 0.1 * reference[0], (losses, reference)
    return {"bf16": reference[-1], "compressed": losses[-1]}


@scenario
def resume():
    whole = sharded(reduce_scatter="int4:round=stochastic")
    train_plainly(whole, 0, 6)
    first = sharded(reduce_scatter="int4:round=stochastic")
    train_plainly(first, 0, 3)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "ferrule": ferrule.torch.state_dict(first)}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=False)
    for keeps in (True, False):
        second = sharded(reduce_scatter="int4:round=stochastic")
        second.load_state_dict(saved["model"])
        if keeps:
            ferrule.torch.load_state_dict(second, saved["ferrule"])
        train_plainly(second, 3, 6)
        assert (digest(full(second)) == digest(full(whole))) == keeps
    for wrong, text in (({"w": 1}, "format"), ({**saved["ferrule"], "rank": 9}, "each rank loads"), ({**saved["ferrule"], "world_size": 9}, "reset")):
        try:
            ferrule.torch.load_state_dict(second, wrong)
        except ferrule.FerruleError as error:
            assert text in str(error), error
        else:
            raise AssertionError("no error")
    ferrule.torch.load_state_dict(second, {**saved["ferrule"], "world_size": 9}, other_world="reset")
    return {}


def train_plainly(model, first, last):
    """Without momentum, so that the parameters are all there is to save."""
    for step in range(first, last):
        model(inputs(step)).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.05 * parameter.grad)
                parameter.grad = None


@scenario
def residuals_follow_the_loss_scale():
    plain, scaled = (sharded(reduce_scatter="int4") for _ in range(2))
    scale = 1.0
    ferrule.torch.set_scaler(scaled, lambda: scale)
    for step in range(4):
        for model, factor in ((plain, 1.0), (scaled, scale)):
            (model(inputs(step)).square().mean() * factor).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.05 / factor * parameter.grad)
                    parameter.grad = None
        scale *= 8.0 if step % 2 else 0.25
    assert digest(full(plain)) == digest(full(scaled))
    return {}


@scenario
def options_of_the_other_kind_are_refused():
    model = sharded(reduce_scatter="int4")
    calls = (
        (lambda: sharded(rules={"*": "int8"}), "rules"),
        (lambda: sharded(clip_norm=1.0), "clip_norm"),
        (lambda: ferrule.torch.compress(model), "compressed already"),
        (lambda: ferrule.torch.compress(torch_common.ddp(net()), all_gather="int8"), "all_gather"),
        (lambda: ferrule.torch.set_weight(model, 2.0), "set_weight()"),
        (lambda: ferrule.torch.average_parameters(model), "average_parameters()"),
    )
    for call, text in calls:
        try:
            call()
        except ferrule.FerruleError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
    return {}
