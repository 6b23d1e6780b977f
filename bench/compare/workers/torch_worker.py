"""One rank of torch as a contestant: gloo's all-reduce, or one of DDP's own hooks over gloo.

Commands and answers are those of worker.hpp. A hook is called as DDP calls it, on the bucket of a model with one
parameter, a matrix as square as its size allows (what PowerSGD compresses best); backward itself is not timed.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import socket
import sys
import time

import numpy
import torch
import torch.distributed as dist

PIECE = 1 << 20


def fill(seed: int, rank: int, first: int, count: int) -> numpy.ndarray:
    """The formula of data.cpp."""
    key = (seed * 0x9E3779B1 + rank * 0x85EBCA6B) & 0xFFFFFFFF
    bits = numpy.arange(first, first + count, dtype=numpy.uint64).astype(numpy.uint32)
    bits += numpy.uint32(key)
    bits *= numpy.uint32(2654435761)
    bits ^= bits >> numpy.uint32(15)
    bits *= numpy.uint32(0x2C1B3C6D)
    return (bits >> numpy.uint32(24)).astype(numpy.float32) - numpy.float32(128)


class Gloo:
    """dist.all_reduce is in place: out of place its user copies first, and that is timed."""

    exact = True
    average = False

    def about(self) -> str:
        return f"torch {torch.__version__}, gloo"

    def prepare(self, example: torch.Tensor, tensors: list[torch.Tensor]) -> None:
        del example, tensors

    def reduce(self, tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor)


class Hook:
    average = True

    def __init__(self, name: str):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

        self._name = name
        kind, _, rank = name.partition(":")
        # fp16 holds the averages of small whole numbers exactly.
        self.exact = kind == "fp16"
        if kind == "fp16":
            self._hook, self._make_state = default_hooks.fp16_compress_hook, lambda: dist.group.WORLD
        else:
            self._hook = powerSGD_hook.powerSGD_hook
            self._make_state = lambda: powerSGD_hook.PowerSGDState(
                dist.group.WORLD, matrix_approximation_rank=int(rank), start_powerSGD_iter=2
            )

    def about(self) -> str:
        return f"torch {torch.__version__}, DDP hook {self._name} over gloo, one square matrix"

    def prepare(self, example: torch.Tensor, tensors: list[torch.Tensor]) -> None:
        self._state = self._make_state()
        self._bucket = bucket_of(example.numel())
        for _ in range(3):  # PowerSGD starts with plain all-reduces
            tensors[0].copy_(example)  # of a matrix of zeros it makes NaN, for good
            self.reduce(tensors[0])

    def reduce(self, tensor: torch.Tensor) -> None:
        self._bucket.set_buffer(tensor)
        reduced = self._hook(self._state, self._bucket).wait()
        if reduced.data_ptr() != tensor.data_ptr():
            tensor.copy_(reduced)


def bucket_of(count: int) -> dist.GradBucket:
    """The bucket that DDP hands to a hook, for one parameter of this many elements."""
    rows = next(rows for rows in range(math.isqrt(count), 0, -1) if count % rows == 0)
    kept = []

    def keep(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        del state
        kept.append(bucket)
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model = torch.nn.Linear(count // rows, rows, bias=False)
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1 << 20)
    parallel.register_comm_hook(None, keep)
    parallel(torch.ones(1, count // rows)).sum().backward()
    return kept[0]


class Session:
    def __init__(self, rank: int, ranks: int, contestant: Gloo | Hook):
        self._rank = rank
        self._ranks = ranks
        self._contestant = contestant
        self._source = self._result = None
        self._seed = self._count = self._repeat = 0

    def answer(self, line: str) -> dict:
        command, *words = line.split()
        numbers = [int(word) for word in words]
        return getattr(self, f"do_{command}")(*numbers)

    def _tensors(self) -> list[torch.Tensor]:
        return [self._result[k * self._count : (k + 1) * self._count] for k in range(self._repeat)]

    def do_prepare(self, bytes_: int, repeat: int, seed: int) -> dict:
        self._count, self._repeat, self._seed = bytes_ // 4, repeat, seed
        total = self._count * repeat
        self._source, self._result = torch.empty(total), torch.zeros(total)
        for first in range(0, total, PIECE):
            count = min(PIECE, total - first)
            self._source[first : first + count] = torch.from_numpy(fill(seed, self._rank, first, count))
        self._contestant.prepare(self._source[: self._count], self._tensors())
        return {"ok": True}

    def do_release(self) -> dict:
        self._source = self._result = None
        return {"ok": True}

    def _iterate(self, in_place: int) -> int:
        if in_place:
            self._result.copy_(self._source)
        tensors = self._tensors()
        sources = None if in_place else [self._source[k * self._count :][: self._count] for k in range(self._repeat)]
        dist.barrier()
        start = time.perf_counter_ns()
        for k, tensor in enumerate(tensors):
            if sources:
                tensor.copy_(sources[k])
            self._contestant.reduce(tensor)
        return time.perf_counter_ns() - start

    def do_run(self, warmup: int, iterations: int, in_place: int) -> dict:
        times = [self._iterate(in_place) for _ in range(warmup + iterations)]
        dist.barrier()
        return {"times_ns": times[warmup:]}

    def do_verify(self, in_place: int) -> dict:
        self._iterate(in_place)
        dist.barrier()
        found = {"checked": 0, "wrong": 0, "max_error": 0.0, "error_squares": 0.0, "value_squares": 0.0}
        pieces = range(0, self._count * self._repeat, PIECE)
        for first in list(pieces)[self._rank :: self._ranks]:
            self._judge(first, min(PIECE, self._count * self._repeat - first), found)
        digest = hashlib.blake2b(self._result.numpy().view(numpy.uint8).data, digest_size=8).hexdigest()
        found = {name: value if math.isfinite(value) else None for name, value in found.items()}
        return {**found, "digest": digest, "wire_bytes": 0, "bounded": self._contestant.exact}

    def _judge(self, first: int, count: int, found: dict) -> None:
        expected = sum(fill(self._seed, rank, first, count).astype(numpy.float64) for rank in range(self._ranks))
        if self._contestant.average:
            expected /= self._ranks
        error = numpy.abs(self._result[first : first + count].numpy() - expected)
        # Where averages are no whole 1/8ths, fp16 rounds them: half a unit in eleven bits, and once more for each sum.
        allowed = 0.0
        if self._contestant.average and self._ranks & (self._ranks - 1):
            allowed = 2.0**-11 * 2 * 128 * self._ranks
        good = error <= allowed if self._contestant.exact else numpy.isfinite(error)
        found["checked"] += count
        found["wrong"] += int(count - numpy.count_nonzero(good))
        found["max_error"] = max(found["max_error"], float(error.max(initial=0.0)))
        found["error_squares"] += float(numpy.square(error).sum())
        found["value_squares"] += float(numpy.square(expected).sum())


def serve(path: str, session: Session, hello: dict) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        stream = connection.makefile("rw")
        print(json.dumps(hello), file=stream, flush=True)
        while (line := stream.readline().strip()) and line != "quit":
            try:
                answer = session.answer(line)
            except Exception as error:  # the driver reports it; this rank's part is over
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=stream, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--rank", "--ranks"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--socket", "--meet", "--hook"):
        parser.add_argument(name, required=True)
    parser.add_argument("--timeout", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{options.meet}",
        rank=options.rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(seconds=options.timeout),
    )
    contestant = Hook(options.hook) if options.hook else Gloo()
    hello = {"rank": options.rank, "pid": os.getpid(), "about": contestant.about()}
    serve(options.socket, Session(options.rank, options.ranks, contestant), hello)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
