"""One rank of the matrix: each feature of real training, with each codec, against torch's own all-reduce.

A feature is a function of a codec (None: plain DDP) that trains a small model and yields, after every step, the model and
its loss. Ranks must hold the same bits after every step; `none` must end where plain DDP ends, and lossy codecs near it.
"""


import ferrule.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from torch_common import ddp, digest, inputs, mlp, on_all_ranks, scenario

CODECS = ("none", "int8", "int4")
if "topk" in ferrule.codecs():
    CODECS += ("topk:ratio=0.125",)
STEPS = 12
# How far the parameters may end from those of plain DDP, as a part of the way that they have gone (L2): what one step's
# rounding leaves undelivered, with error feedback.
TOLERANCE = {"none": 1e-6, "int8": 0.01, "int4": 0.05, "topk:ratio=0.125": 0.3}


def compressed(wrapped, codec, **options):
    return wrapped if codec is None else ferrule.torch.compress(wrapped, codec, min_elements=64, **options)


def optimizer_of(wrapped):
    return torch.optim.SGD(wrapped.parameters(), lr=0.02, momentum=0.5)


def loss_of(wrapped, batch):
    return (wrapped(batch)[:, :3] - batch[:, :3]).square().mean()


def plain_loop(wrapped, optimizer=None, batch_of=inputs, loss=loss_of):
    optimizer = optimizer or optimizer_of(wrapped)
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(wrapped, batch_of(step % 4))
        value.backward()
        optimizer.step()
        yield wrapped, value


def plain(codec):
    yield from plain_loop(compressed(ddp(mlp()), codec))


def grad_scaler(codec):
    """A step overflows on one rank only; the scale goes down, and up again."""
    wrapped = ddp(mlp())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=4)
    compressed(wrapped, codec, **({} if codec is None else {"scaler": scaler}))
    optimizer = optimizer_of(wrapped)
    scales = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(wrapped, inputs(step % 4))
        factor = torch.inf if step == 3 and dist.get_rank() == 1 else 1.0
        scaler.scale(loss * factor).backward()
        before = digest(wrapped.parameters())
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        assert (digest(wrapped.parameters()) == before) == (step == 3), "skips the overflow, and nothing else"
        yield wrapped, loss
    assert scales[2:4] == [1024.0, 512.0] and scales[-1] > 512.0, scales


def no_sync(codec):
    wrapped = compressed(ddp(mlp()), codec)
    optimizer = optimizer_of(wrapped)
    for step in range(STEPS):
        optimizer.zero_grad()
        with wrapped.no_sync():
            loss_of(wrapped, inputs(step % 4)).backward()
        loss = loss_of(wrapped, inputs(step % 4 + 4))
        loss.backward()
        optimizer.step()
        yield wrapped, loss
    if codec is not None:
        assert ferrule.torch.stats(wrapped)["steps"] == STEPS


class Branches(nn.Module):
    """`rare` is used in some steps, `odd` by odd ranks only, `never` never."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.common = nn.Linear(40, 40)
        self.rare, self.odd, self.never = nn.Linear(40, 40), nn.Linear(40, 40), nn.Linear(40, 40)
        self.uses_rare = True

    def forward(self, batch):
        batch = self.common(batch)
        if self.uses_rare:
            batch = self.rare(batch)
        return self.odd(batch) if dist.get_rank() % 2 else batch


def find_unused_parameters(codec):
    wrapped = compressed(ddp(Branches(), find_unused_parameters=True), codec)
    model = wrapped.module
    optimizer = optimizer_of(wrapped)
    for step in range(STEPS):
        optimizer.zero_grad()
        model.uses_rare = step % 3 == 0
        frozen = residual_of(wrapped, codec, "rare.weight")
        loss = loss_of(wrapped, inputs(step % 4))
        loss.backward()
        assert model.never.weight.grad is None
        assert (model.rare.weight.grad is None) == (not model.uses_rare)
        assert model.odd.weight.grad is not None
        if frozen is not None:
            now = residual_of(wrapped, codec, "rare.weight")
            assert torch.equal(frozen, now) == (not model.uses_rare or not now.any()), step
        optimizer.step()
        yield wrapped, loss


def residual_of(wrapped, codec, name):
    return None if codec is None else ferrule.torch.state_dict(wrapped)["residuals"].get(name)


def static_graph(codec):
    yield from plain_loop(compressed(ddp(mlp(), static_graph=True, bucket_cap_mb=0.01), codec))


def gradient_as_bucket_view(codec):
    yield from plain_loop(compressed(ddp(mlp(), gradient_as_bucket_view=True, bucket_cap_mb=0.01), codec))


def two_models(codec):
    """As in adversarial training; and a metric between them."""
    first, second = compressed(ddp(mlp(seed=1)), codec), compressed(ddp(mlp(seed=2)), codec)
    for (one, loss), (two, _) in zip(plain_loop(first), plain_loop(second)):
        metric = torch.tensor([dist.get_rank() + 0.1])
        dist.all_reduce(metric)
        assert metric.item() == torch.tensor([sum(rank + 0.1 for rank in range(dist.get_world_size()))]).item()
        yield nn.ModuleList([one.module, two.module]), loss


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.encode, self.middle, self.decode = nn.Linear(40, 48), nn.Linear(48, 48), nn.Linear(48, 40)
        self.decode.weight = nn.Parameter(self.decode.weight.detach().t().contiguous().t())
        self.encode.weight = nn.Parameter(torch.randn(48, 40) / 7)
        self.middle.weight.requires_grad_(False)

    def forward(self, batch):
        hidden = torch.relu(self.encode(batch))
        hidden = self.middle(hidden)
        return self.decode(hidden) + nn.functional.linear(hidden, self.encode.weight.t())


class TiedEmbedding(nn.Module):
    """One matrix under two names, as in language models, and a frozen layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.into, self.frozen, self.out = nn.Linear(40, 40, bias=False), nn.Linear(40, 40), nn.Linear(40, 40)
        self.out.weight = self.into.weight
        self.frozen.requires_grad_(False)

    def forward(self, batch):
        return self.out(torch.relu(self.frozen(self.into(batch))))


def tied_and_frozen(codec):
    wrapped = compressed(ddp(TiedEmbedding()), codec)
    frozen = digest(wrapped.module.frozen.parameters())
    yield from plain_loop(wrapped)
    assert digest(wrapped.module.frozen.parameters()) == frozen
    if codec not in (None, "none"):
        assert set(ferrule.torch.state_dict(wrapped)["residuals"]) == {"into.weight"}


def transposed_weight(codec):
    """A parameter that is not contiguous."""
    yield from plain_loop(compressed(ddp(Tied()), codec))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Linear(16, 4)

    def forward(self, batch):
        pictures = batch.reshape(len(batch), 4, 2, 5).to(memory_format=torch.channels_last)
        return self.last(self.second(torch.relu(self.first(pictures))).mean((2, 3)))


def channels_last(codec):
    model = Images().to(memory_format=torch.channels_last)
    assert not model.second.weight.is_contiguous()
    wrapped = compressed(ddp(model), codec)
    yield from plain_loop(wrapped)
    assert residual_of(wrapped, codec, "second.weight") is None or (
        residual_of(wrapped, codec, "second.weight").shape == model.second.weight.shape
    )


def doubles(codec):
    """Float64 is never compressed."""
    wrapped = compressed(ddp(mlp(dtype=torch.float64)), codec)
    yield from plain_loop(wrapped, batch_of=lambda step: inputs(step, torch.float64))
    if codec is not None:
        assert ferrule.torch.stats(wrapped)["compressed"] == 0


def halves(codec):
    wrapped = compressed(ddp(mlp(dtype=torch.bfloat16)), codec)
    yield from plain_loop(wrapped, batch_of=lambda step: inputs(step, torch.bfloat16))


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        torch.manual_seed(6)
        self.first, self.second, self.last = nn.Linear(40, 48), nn.Linear(48, 48), nn.Linear(48, 3)
        self.use_reentrant = use_reentrant

    def forward(self, batch):
        hidden = torch.relu(self.first(batch))
        hidden = checkpoint(lambda x: torch.relu(self.second(x)), hidden, use_reentrant=self.use_reentrant)
        return self.last(hidden)


def activation_checkpointing(codec):
    yield from plain_loop(compressed(ddp(Checkpointed(False)), codec))


def reentrant_checkpointing(codec):
    yield from plain_loop(compressed(ddp(Checkpointed(True), static_graph=True), codec))


def compiled(codec):
    """The model is compiled, then wrapped; aot_eager traces as inductor does, without its C++ compiler."""
    torch._dynamo.reset()
    yield from plain_loop(compressed(ddp(torch.compile(mlp(), backend="aot_eager")), codec))


def compiled_outside(codec):
    """torch.compile of the wrapped model: the graph is split at bucket edges, the hook runs as ever."""
    torch._dynamo.reset()
    wrapped = compressed(ddp(mlp()), codec)
    outside = torch.compile(wrapped, backend="aot_eager")
    optimizer = optimizer_of(wrapped)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(outside, inputs(step % 4))
        loss.backward()
        optimizer.step()
        yield wrapped, loss
    if codec is not None:
        assert ferrule.torch.stats(wrapped)["steps"] == STEPS


def uneven(codec, counts, **options):
    """Ranks with different numbers of batches; those that are done answer for the others."""
    wrapped = compressed(ddp(mlp()), codec)
    optimizer = optimizer_of(wrapped)
    loss = loss_of(wrapped, inputs(0))
    loss.backward()
    yield wrapped, loss
    with wrapped.join(**options):
        for step in range(counts[dist.get_rank()]):
            optimizer.zero_grad()
            loss_of(wrapped, inputs(step % 4)).backward()
            optimizer.step()
    # torch has given the parameters of one that was last to all; the optimizers' momentum it leaves apart.
    optimizer.zero_grad()
    loss = loss_of(wrapped, inputs(0))
    loss.backward()
    yield wrapped, loss
    if codec is not None:
        assert ferrule.torch.stats(wrapped)["steps"] == max(counts) + 2


def join(codec):
    yield from uneven(codec, (5, 7, 6))


def join_of_none(codec):
    """One rank has nothing at all; the mean is over those that have something."""
    yield from uneven(codec, (0, 3, 2), divide_by_initial_world_size=False)


class Shapes(nn.Module):
    """No dimension, one, four, and no element at all."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        shapes = ((), (1,), (7,), (3, 5), (2, 3, 4, 5), (5, 0, 2), (40, 3))
        self.all = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in shapes)

    def forward(self, batch):
        *others, last = self.all
        return batch @ last + sum(parameter.sum() for parameter in others) / 40


def odd_shapes(codec):
    yield from plain_loop(compressed(ddp(Shapes()), codec))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.weight = nn.Parameter(torch.randn(40, 40, dtype=torch.complex64) / 6)

    def forward(self, batch):
        return torch.view_as_real(batch.to(torch.complex64) @ self.weight).sum(-1)


def complex_parameters(codec):
    """Reduced exactly, as pairs of numbers."""
    yield from plain_loop(compressed(ddp(Complex()), codec))


FEATURES = (
    join,
    join_of_none,
    odd_shapes,
    complex_parameters,
    plain,
    grad_scaler,
    no_sync,
    find_unused_parameters,
    static_graph,
    gradient_as_bucket_view,
    two_models,
    tied_and_frozen,
    transposed_weight,
    channels_last,
    doubles,
    halves,
    activation_checkpointing,
    reentrant_checkpointing,
    compiled,
    compiled_outside,
)


def run(feature, codec):
    """(parameters at the start, at the end); checks ranks after every step."""
    start, losses = None, []
    steps = feature(codec)
    for model, loss in steps:
        parameters = list(model.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        assert gradients, "nothing was reduced"
        digests = on_all_ranks(digest([*parameters, *gradients]))
        assert len(set(digests)) == 1, f"ranks differ after step {len(losses)}"
        if start is None:
            start = flat(parameters)
        losses.append(loss.item())
    return start, flat(parameters), [sum(each) for each in zip(*on_all_ranks(losses))]


def flat(parameters):
    real = [torch.view_as_real(each) if each.is_complex() else each for each in map(torch.Tensor.detach, parameters)]
    return torch.cat([each.double().flatten() for each in real])


def distance(feature, codec, reference):
    """From where plain DDP ends, as a part of its way since the first step."""
    _, end, _ = run(feature, codec)
    start, wanted, _ = reference
    return ((end - wanted).norm() / (wanted - start).norm()).item()


def make_scenario(feature):
    def check():
        reference = run(feature, None)
        losses = reference[2]
        assert len(losses) < STEPS or sum(losses[-4:]) < sum(losses[:4]), "the reference does not learn"
        seen = {}
        for codec in CODECS:
            limit = 1e-12 if feature is doubles else TOLERANCE[codec]
            if feature is halves:  # rounding of parameters and results to bfloat16 sets in
                limit = max(limit, 0.2)
            if feature in (join, join_of_none):  # a short way, of which the last residuals are a larger part
                limit *= 5
            seen[codec] = distance(feature, codec, reference)
            assert seen[codec] <= limit, (codec, seen)
        return {"distance": seen}

    check.__name__ = feature.__name__
    check.__module__ = __name__
    return check


for each in FEATURES:
    scenario(make_scenario(each))
