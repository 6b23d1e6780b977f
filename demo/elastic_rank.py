"""One rank of the elastic demo: trains, and when another rank dies goes on with those that are left.

Started by elastic.py. Each line on stdout is a JSON record: {"step", "ranks", "loss", "pid"} of the lowest rank.
"""

import argparse
import json
import os
import sys

import numpy
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import digits
import ferrule

# What a rank that is left can do something about; anything else is an error of the program.
_SURVIVED_BY_SHRINK = ("peer_lost", "timeout", "aborted", "corrupt")
_TRIES = 5


class Training:
    """A model, its optimizer (SGD with momentum) and its residual, as flat arrays: what all ranks hold alike, but for the
    residual."""

    def __init__(self, arguments: argparse.Namespace):
        torch.manual_seed(arguments.seed)
        self.images, self.labels, self.test_images, self.test_labels = digits.load()
        self.model = digits.Net(arguments.width)
        self.values = parameters_to_vector(self.model.parameters()).detach().clone()
        self.velocity = torch.zeros_like(self.values)
        self.residual = ferrule.Residual(self.values.numel())
        self.batch, self.codec, self.seed = arguments.batch, arguments.codec, arguments.seed
        self.step = 0  # finished

    def gradient(self, comm: ferrule.Communicator) -> tuple[torch.Tensor, float]:
        """Of this rank's share of the step's images, and its loss. Shares follow the number of ranks that there are."""
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + self.step)
        chosen = torch.randint(len(self.labels), (comm.size, self.batch), generator=draw)[comm.rank]
        vector_to_parameters(self.values, self.model.parameters())
        self.model.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.images[chosen]), self.labels[chosen])
        loss.backward()
        return torch.cat([parameter.grad.flatten() for parameter in self.model.parameters()]), loss.item()

    def one_step(self, comm: ferrule.Communicator) -> float:
        """Returns the mean loss over the ranks."""
        gradient, loss = self.gradient(comm)
        comm.all_reduce(gradient, op="avg", codec=self.codec, residual=self.residual)
        self.velocity = 0.9 * self.velocity + gradient
        self.values = self.values - 0.03 * self.velocity
        self.step += 1
        mean = numpy.array([loss])
        comm.all_reduce(mean, op="avg")
        return float(mean[0])

    def agree(self, comm: ferrule.Communicator) -> None:
        """The last step that anybody has finished holds: some may have ended it well while it failed for others."""
        newest = numpy.array([self.step])
        comm.all_reduce(newest, op="max")
        state = torch.cat([self.values, self.velocity])
        if self.step != newest[0]:
            state.fill_(-torch.inf)  # loses against the values of every rank that has them
        comm.all_reduce(state, op="max", codec="none")
        self.values, self.velocity = state.chunk(2)
        self.step = int(newest[0])


def go_on(comm: ferrule.Communicator, training: Training) -> ferrule.Communicator:
    """The survivors' communicator. Another death meanwhile is an error of shrink or agree: then again."""
    for attempt in range(_TRIES):
        try:
            smaller = comm.shrink()
            comm.close()
            comm = smaller
            training.agree(comm)
            return comm
        except ferrule.FerruleError as error:
            if error.code not in _SURVIVED_BY_SHRINK or attempt + 1 == _TRIES:
                raise
    raise AssertionError("unreachable")


def train(comm: ferrule.Communicator, training: Training, steps: int) -> None:
    while training.step < steps:
        try:
            loss = training.one_step(comm)
        except ferrule.FerruleError as error:
            if error.code not in _SURVIVED_BY_SHRINK:
                raise
            print(f"{error}; going on without", file=sys.stderr, flush=True)
            comm = go_on(comm, training)
            continue
        if comm.rank == 0:
            print(json.dumps({"step": training.step, "ranks": comm.size, "loss": loss, "pid": os.getpid()}), flush=True)
    vector_to_parameters(training.values, training.model.parameters())
    if comm.rank == 0:
        accuracy = digits.accuracy(training.model, training.test_images, training.test_labels)
        print(json.dumps({"accuracy": accuracy, "ranks": comm.size}), flush=True)
    comm.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--place", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16, help="images a rank and step")
    parser.add_argument("--codec", default="int4")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(arguments)
    comm = ferrule.Communicator.connect(arguments.rank, arguments.ranks, arguments.place)
    train(comm, training, arguments.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
