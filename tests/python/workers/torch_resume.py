"""One rank of the checkpoint tests: three ranks, and groups of two of them for a change of the world size."""

import io
import logging

import ferrule
import ferrule.torch
import torch
import torch.distributed as dist
from torch import nn

from torch_common import ddp, digest, inputs, on_all_ranks, scenario

STEPS, STOP = 12, 4


class Net(nn.Module):
    """Several buckets, channels last, and a part that is frozen."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.first, self.second = nn.Linear(40, 64), nn.Linear(64, 64)
        self.picture = nn.Conv2d(4, 8, 3, padding=1).to(memory_format=torch.channels_last)
        self.frozen, self.last = nn.Linear(128, 32), nn.Linear(32, 3)
        self.frozen.requires_grad_(False)

    def forward(self, batch):
        hidden = torch.relu(self.second(torch.relu(self.first(batch))))
        picture = hidden.reshape(-1, 4, 4, 4).to(memory_format=torch.channels_last)
        return self.last(torch.relu(self.frozen(self.picture(picture).flatten(1))))


class Training:
    """A run that can be saved and resumed: model, optimizer, scaler, and what the hook remembers."""

    def __init__(self, saved=None, group=None, other_world=None, **options):
        self.model = ddp(Net(), bucket_cap_mb=0.01, process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)
        ferrule.torch.compress(
            self.model, "int4:round=stochastic", min_elements=64, scaler=self.scaler, clip_spikes=1.2, warmup_steps=1, **options
        )
        if saved is not None:
            state = torch.load(io.BytesIO(saved), weights_only=True)
            self.model.module.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scaler.load_state_dict(state["scaler"])
            ferrule.torch.load_state_dict(self.model, state["ferrule"])

    def save(self):
        file = io.BytesIO()
        parts = {"model": self.model.module, "optimizer": self.optimizer, "scaler": self.scaler}
        state = {name: part.state_dict() for name, part in parts.items()}
        torch.save({**state, "ferrule": ferrule.torch.state_dict(self.model)}, file)
        return file.getvalue()

    def train(self, first, last):
        for step in range(first, last):
            self.optimizer.zero_grad()
            batch = inputs(step) * (5.0 if step == 10 else 1.0)
            loss = (self.model(batch) - batch[:, :3]).square().mean()
            self.scaler.scale(loss * (torch.inf if step == 5 and dist.get_rank() == 0 else 1.0)).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def residuals(self):
        return ferrule.torch.state_dict(self.model)["residuals"]

    def digest(self):
        return digest([*self.model.parameters(), *self.residuals().values()])


@scenario
def resume_is_bit_for_bit():
    """Twelve steps, or four, a restart, and eight: with stochastic rounding, an overflow, a spike and a growing scale."""
    whole = Training(algo="ring")
    whole.train(0, STEPS)
    first = Training(algo="ring")
    first.train(0, STOP)
    saved = first.save()
    second = Training(saved)  # "auto": what an auto of the first run has chosen comes with the state
    assert second.residuals().keys() == first.residuals().keys()
    assert all(torch.equal(value, first.residuals()[name]) for name, value in second.residuals().items())
    second.train(STOP, STEPS)
    assert second.digest() == whole.digest(), "the resumed run is another one"
    assert ferrule.torch.state_dict(second.model)["units"] == ferrule.torch.state_dict(whole.model)["units"]
    seen = on_all_ranks(ferrule.torch.stats(whole.model))
    assert all(each["spikes"] > 0 and each["skipped"] == 1 for each in seen), seen
    # Each part of the state counts: without it the run is another one.
    for key, value in (("step", 0), ("residuals", {}), ("units", []), ("norms", {}), ("loss_scale", 64.0)):
        state = torch.load(io.BytesIO(saved), weights_only=True)
        state["ferrule"][key] = value
        file = io.BytesIO()
        torch.save(state, file)
        other = Training(file.getvalue())
        other.train(STOP, STEPS)
        same = on_all_ranks(other.digest() == whole.digest())
        assert not any(same), (key, same)
    return {"buckets": len(ferrule.torch.state_dict(whole.model)["units"])}


def total(states):
    names = states[0]["residuals"].keys()
    return {name: sum(state["residuals"][name].double() for state in states) for name in names}


class Messages(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def loaded(group, states, **options):
    """The residuals of all ranks of the group after loading, and what was logged here."""
    wrapped = ferrule.torch.compress(ddp(Net(), process_group=group), "int4", min_elements=64)
    log = Messages()
    logging.getLogger("ferrule.torch").addHandler(log)
    ferrule.torch.load_state_dict(wrapped, states, **options)
    logging.getLogger("ferrule.torch").removeHandler(log)
    mine = ferrule.torch.state_dict(wrapped)
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, mine, group=group)
    return wrapped, every, log.texts


@scenario
def another_world_size():
    """Three ranks become two, and two become three."""
    run = Training()
    run.train(0, 3)
    states = on_all_ranks(ferrule.torch.state_dict(run.model))
    pair = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        smaller = None
    else:
        wrapped, smaller, texts = loaded(pair, states)
        check_share(smaller, states, 1.0)
        assert texts == (["residuals of 3 ranks go on with 2: sum"] if dist.get_rank() == 0 else []), texts
        _, others, _ = loaded(pair, states, other_world="mean")
        check_share(others, states, 2 / 3)
        _, others, _ = loaded(pair, states, other_world="reset")
        assert not any(value.any() for state in others for value in state["residuals"].values())
        assert_goes_on(wrapped)
        for wrong in (states[dist.get_rank()], states[:2]):
            try:
                loaded(pair, wrong)
            except ferrule.FerruleError as error:
                assert "all 3" in str(error) and error.code == "invalid_argument", error
            else:
                raise AssertionError("no error")
    (smaller, _, _) = on_all_ranks(smaller)
    _, larger, _ = loaded(None, smaller)
    check_share(larger, states, 1.0)
    return {}


def check_share(every, states, factor):
    before, after = total(states), {}
    for state in every:
        for name, value in state["residuals"].items():
            after[name] = after.get(name, 0) + value.double()
    assert before.keys() == after.keys() and all(value.any() for value in before.values())
    for name, value in before.items():
        assert torch.allclose(after[name], value * factor, rtol=1e-5, atol=1e-6 * value.abs().max()), name


def assert_goes_on(wrapped):
    before = {name: value.any() for name, value in ferrule.torch.state_dict(wrapped)["residuals"].items()}
    wrapped(inputs()).square().sum().backward()
    digests = [None] * 2
    gradients = [parameter.grad for parameter in wrapped.parameters() if parameter.grad is not None]
    dist.all_gather_object(digests, digest(gradients), group=wrapped.process_group)
    assert before and len(set(digests)) == 1


@scenario
def foreign_states_are_refused():
    run = Training()
    state = ferrule.torch.state_dict(run.model)
    other = {**state, "rank": (dist.get_rank() + 1) % 3}
    for wrong, text in (({"w": 1}, "format 1"), (other, "each rank loads what it saved"), ({**state, "format": 7}, "format 1")):
        try:
            ferrule.torch.load_state_dict(run.model, wrong)
        except ferrule.FerruleError as error:
            assert text in str(error), error
        else:
            raise AssertionError("no error")
    try:
        ferrule.torch.load_state_dict(run.model, state, other_world="drop")
    except ferrule.FerruleError as error:
        assert "sum, mean and reset" in str(error)
    return {}
