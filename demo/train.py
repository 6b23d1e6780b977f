"""One rank of the demo's training: DistributedDataParallel over gloo, gradients through Ferrule.

Started by run.py and accuracy.py with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set (torchrun does the same).
Rank 0 writes one JSON line per progress report and per finished run to stdout.
"""

import argparse
import dataclasses
import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import digits
import ferrule
import ferrule.torch


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run."""

    codec: str = "int4"
    feedback: bool = True
    optimizer: str = "sgd"
    seed: int = 0
    epochs: int = 6
    batch: int = 16  # images a rank and step
    width: int = 768


def make_optimizer(run: Run, model: nn.Module) -> torch.optim.Optimizer:
    if run.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=1e-3)
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batches(run: Run, count: int):
    """Index tensors of this rank, epoch by epoch; every rank draws the same permutation and takes its own share."""
    rank, size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(run.seed)
    together = run.batch * size
    for _ in range(run.epochs):
        order = torch.randperm(count, generator=generator)
        for start in range(0, count - together + 1, together):
            yield order[start + rank * run.batch : start + (rank + 1) * run.batch]


def say(**fields) -> None:
    if dist.get_rank() == 0:
        print(json.dumps(fields), flush=True)


def mean_over_ranks(values: list[float]) -> list[float]:
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return (tensor / dist.get_world_size()).tolist()


def train(run: Run, communicator: ferrule.Communicator) -> dict:
    """Trains once and returns what was measured on this rank (the losses: over all)."""
    torch.manual_seed(run.seed)
    images, labels, test_images, test_labels = digits.load()
    model = nn.parallel.DistributedDataParallel(digits.Net(run.width))
    ferrule.torch.compress(
        model, run.codec, error_feedback=run.feedback, communicator=communicator, seed=run.seed
    )
    optimizer = make_optimizer(run, model)
    share = list(batches(run, len(labels)))
    # The rate falls to zero, so that the last steps settle instead of jumping about.
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / len(share))
    losses, step_ends_s = [], []
    dist.barrier()
    sent_before = communicator.stats()["bytes_sent"]
    start_s = time.monotonic()
    for step, chosen in enumerate(share):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        step_ends_s.append(time.monotonic() - start_s)
        say(progress=step + 1, steps=len(share), loss=losses[-1])
    sent = communicator.stats()["bytes_sent"] - sent_before
    return {
        **dataclasses.asdict(run),
        "accuracy": digits.accuracy(model.module, test_images, test_labels),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": len(share),
        "seconds": step_ends_s[-1],
        "bytes_per_step": sent / len(share),
        "losses": mean_over_ranks(losses),
        "step_ends_s": step_ends_s,
        "transport": communicator.transport,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default="[{}]", help="JSON list of runs, each with fields of Run")
    runs = [Run(**fields) for fields in json.loads(parser.parse_args().runs)]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    with ferrule.Communicator.from_store(store, dist.get_rank(), dist.get_world_size(), "demo") as communicator:
        for run in runs:
            say(result=train(run, communicator))
        dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
