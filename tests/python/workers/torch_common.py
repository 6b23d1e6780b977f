"""What the torch workers share: scenarios in one process group, reported as JSON, and small models."""

import datetime
import hashlib
import traceback

import torch
import torch.distributed as dist
from torch import nn

SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


def digest(tensors):
    hasher = hashlib.sha256()
    for tensor in tensors:
        hasher.update(tensor.detach().flatten().view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()


def on_all_ranks(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def mlp(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).to(dtype)


def ddp(model, **options):
    return nn.parallel.DistributedDataParallel(model, **options)


def inputs(step=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * dist.get_rank() + step)
    return torch.randn(8, 40, generator=generator).to(dtype)


def local_gradients(model, batch):
    """What this rank would contribute: the gradients of the bare module."""
    model.zero_grad()
    model(batch).square().sum().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    return gradients


def step_once(wrapped, batch):
    wrapped.zero_grad()
    wrapped(batch).square().sum().backward()
    return {name: parameter.grad.clone() for name, parameter in wrapped.module.named_parameters()}


def run(chosen):
    """Runs scenarios, all ranks in the same order, and returns what each saw as {"module.name": report}. `chosen`: names by
    module, none meaning all."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    report = {}
    for function in SCENARIOS:
        module, name = function.__module__, function.__name__
        if chosen[module] and name not in chosen[module]:
            continue
        try:
            report[f"{module}.{name}"] = {"ok": True, **function()}
        except Exception:
            report[f"{module}.{name}"] = {"ok": False, "trace": traceback.format_exc()}
            traceback.print_exc()  # where a rank that fails alone leaves the others waiting, this is all there is
        dist.barrier()
    dist.destroy_process_group()
    return report
