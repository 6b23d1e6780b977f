"""The backend "ferrule" of torch.distributed: every operation over a ferrule.Communicator.

torch finds it by its entry point when the name is first used; nothing needs to be imported. Where torch has backends written
in Python it is one; before that it is a process group of its own.
"""

import datetime
import os

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator
from ferrule.torch import _backend_memory as memory
from ferrule.torch._backend_codec import codec_of
from ferrule.torch._backend_holder import note_source, teach_torch
from ferrule.torch._backend_work import BackendWork, Completer, TransferWork

NAME = "ferrule"
# Of monitored_barrier: no user's tag.
_BARRIER_TAG = 0xFFFFFFF0

_OPERATIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "prod",
}
_BITWISE = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def _look_up(table, op):
    return next((value for key, value in table.items() if op == key), None)


def _name_of(op) -> str:
    name = _look_up(_OPERATIONS, op)
    if name is None:
        raise ValueError(f"ferrule: the operation {op} is not supported; there are {', '.join(_OPERATIONS.values())}")
    return name


def _seconds(opts) -> float | None:
    """The deadline of one operation; None: the group's."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else 0
    return seconds if seconds > 0 else None


class Operations:
    """torch's operations, in the words of torch. `self._communicator` does them."""

    def _set_up(self, store, rank, size, timeout, group_name="", communicator_name=NAME):
        self._rank, self._size = rank, size
        self._group_name = group_name
        self._timeout_s = max(timeout.total_seconds(), 0.001)
        self._communicator = Communicator.from_store(store, rank, size, communicator_name, timeout=self._timeout_s)
        self._completer = Completer()
        self._sequence = 0

    # ---- what all have in common

    def _work(self, natives, outputs, finish=None, kind=BackendWork):
        self._sequence += 1
        return kind(self._completer, natives, outputs, finish)

    def _sum(self, buffer, op, opts):
        """Options of a collective that adds up."""
        codec = codec_of(self._group_name, buffer.flat, op)
        options = {"timeout": _seconds(opts)}
        return options if codec is None else {**options, "codec": codec}

    # ---- all-reduce, reduce, broadcast

    def allreduce(self, tensors, opts=None):
        opts = opts or dist.AllreduceOptions()
        bitwise = _look_up(_BITWISE, opts.reduceOp)
        if bitwise is not None:
            return self._combine_bits(tensors, bitwise, opts, range(self._size))
        name = _name_of(opts.reduceOp)
        buffers, natives = [], []
        for tensor in tensors:
            buffer, op = memory.as_numbers(tensor, name)
            natives.append(self._communicator.all_reduce_async(buffer.flat, op, **self._sum(buffer, op, opts)))
            buffers.append(buffer)
        return self._work(natives, list(tensors), lambda: [buffer.store() for buffer in buffers])

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts):
        bitwise = _look_up(_BITWISE, opts.reduceOp)
        if bitwise is not None:
            return self._combine_bits(tensors, bitwise, opts, [opts.rootRank])
        buffer, op = memory.as_numbers(tensors[0], _name_of(opts.reduceOp))
        native = self._communicator.reduce_async(buffer.flat, opts.rootRank, op, timeout=_seconds(opts))
        finish = buffer.store if self._rank == opts.rootRank else None
        return self._work([native], list(tensors), finish)

    def _combine_bits(self, tensors, operation, opts, ranks):
        """Bits are combined by whoever wants the result, of everybody's tensor: rare, and small."""
        natives, finishes = [], []
        for tensor in tensors:
            if tensor.is_floating_point() or tensor.is_complex():
                raise ValueError(f"ferrule: bitwise operations are of integers, not of {tensor.dtype}")
            mine = memory.as_bytes(tensor)
            everybody = torch.empty(self._size * mine.flat.numel(), dtype=torch.uint8)
            natives.append(self._communicator.all_gather_async(mine.flat, everybody, timeout=_seconds(opts)))
            finishes.append((tensor, everybody))

        def finish():
            for tensor, everybody in finishes:
                parts = everybody.view(tensor.dtype).view(self._size, *tensor.shape)
                result = parts[0]
                for part in parts[1:]:
                    result = operation(result, part)
                tensor.detach().copy_(result)

        return self._work(natives, list(tensors), finish if self._rank in ranks else None)

    def broadcast(self, tensors, opts=None):
        opts = opts or dist.BroadcastOptions()
        buffers = [memory.as_bytes(tensor) for tensor in tensors]
        root, timeout = opts.rootRank, _seconds(opts)
        natives = [self._communicator.broadcast_async(buffer.flat, root, timeout=timeout) for buffer in buffers]
        finish = None if self._rank == root else lambda: [buffer.store() for buffer in buffers]
        return self._work(natives, list(tensors), finish)

    # ---- gathers

    def _gather_bytes(self, part, counts, opts):
        """Starts an all-gather of bytes; returns where they come to, and the work."""
        everything = torch.empty(sum(counts), dtype=torch.uint8)
        even = len(set(counts)) == 1
        native = self._communicator.all_gather_async(
            part, everything, None if even else counts, timeout=_seconds(opts)
        )
        return everything, native

    def allgather(self, output_tensors, input_tensors, opts=None):
        natives, stores = [], []
        for outputs, tensor in zip(output_tensors, input_tensors):
            everything, native = self._gather_bytes(memory.as_bytes(tensor).flat, memory.byte_counts(outputs), opts)
            natives.append(native)
            stores.append((everything, outputs))
        finish = lambda: [memory.unpack(everything, outputs) for everything, outputs in stores]
        return self._work(natives, [tensor for outputs in output_tensors for tensor in outputs], finish)

    def allgather_coalesced(self, output_lists, input_list, opts=None):
        # torch has one list for each rank here, one list for each tensor in allgather.
        by_tensor = [[outputs[i] for outputs in output_lists] for i in range(len(input_list))]
        return self.allgather(by_tensor, input_list, opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(self, outputs, tensors, opts=None):
        natives, buffers = [], []
        for output, tensor in zip(outputs, tensors):
            if output.numel() != tensor.numel() * self._size or output.dtype != tensor.dtype:
                raise ValueError("output tensor size must be equal to world_size times input tensor size")
            whole = memory.as_bytes(output)
            part = memory.as_bytes(tensor).flat
            natives.append(self._communicator.all_gather_async(part, whole.flat, timeout=_seconds(opts)))
            buffers.append(whole)
        return self._work(natives, list(outputs), lambda: [buffer.store() for buffer in buffers])

    def gather(self, output_tensors, input_tensors, opts):
        root = self._rank == opts.rootRank
        outputs = list(output_tensors[0]) if root else []
        part = memory.as_bytes(input_tensors[0]).flat
        everything = torch.empty(self._size * part.numel(), dtype=torch.uint8) if root else None
        if root and any(tensor.numel() * tensor.element_size() != part.numel() for tensor in outputs):
            raise ValueError("ferrule: the tensors of a gather must all have the same size")
        native = self._communicator.gather_async(part, everything, opts.rootRank, timeout=_seconds(opts))
        return self._work([native], outputs, (lambda: memory.unpack(everything, outputs)) if root else None)

    def scatter(self, output_tensors, input_tensors, opts):
        root = self._rank == opts.rootRank
        part = memory.as_bytes(output_tensors[0])
        everything = memory.pack(input_tensors[0])[0] if root else None
        native = self._communicator.scatter_async(everything, part.flat, opts.rootRank, timeout=_seconds(opts))
        return self._work([native], list(output_tensors), part.store)

    # ---- reduce-scatters

    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        natives, buffers = [], []
        for output, inputs in zip(output_tensors, input_tensors):
            flat = [memory.as_numbers(tensor, _name_of(opts.reduceOp))[0].flat for tensor in inputs]
            part, op = memory.as_numbers(output, _name_of(opts.reduceOp))
            counts = [tensor.numel() for tensor in flat]
            whole = memory.Buffer(output, torch.cat(flat))
            natives.append(self._add_parts(whole, part, op, counts if len(set(counts)) > 1 else None, opts))
            buffers.append(part)
        return self._work(natives, list(output_tensors), lambda: [buffer.store() for buffer in buffers])

    def _add_parts(self, whole, part, op, counts, opts):
        return self._communicator.reduce_scatter_async(
            whole.flat, part.flat, op, counts, **self._sum(whole, op, opts)
        )

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, tensors, opts=None):
        opts = opts or dist.ReduceScatterOptions()
        name = _name_of(opts.reduceOp)
        natives, buffers = [], []
        for output, tensor in zip(outputs, tensors):
            if tensor.numel() != output.numel() * self._size or output.dtype != tensor.dtype:
                raise ValueError("input tensor size must be equal to world_size times output tensor size")
            whole, op = memory.as_numbers(tensor, name)
            part, _ = memory.as_numbers(output, name)
            natives.append(self._add_parts(whole, part, op, None, opts))
            buffers.append(part)
        return self._work(natives, list(outputs), lambda: [buffer.store() for buffer in buffers])

    # ---- all-to-all

    def all_to_all_single(self, output, tensor, output_split_sizes=(), input_split_sizes=(), opts=None):
        whole, mine = memory.as_bytes(output), memory.as_bytes(tensor)
        if not output_split_sizes and not input_split_sizes:
            for name, dimension in (("input", tensor), ("output", output)):
                if dimension.dim() > 0 and dimension.size(0) % self._size != 0:
                    raise ValueError(f"ferrule: the {name} of all_to_all_single has no equal part for each rank")
            native = self._communicator.all_to_all_async(mine.flat, whole.flat, timeout=_seconds(opts))
        else:
            received = self._split_bytes(output, output_split_sizes)
            sent = self._split_bytes(tensor, input_split_sizes)
            native = self._communicator.all_to_all_async(mine.flat, whole.flat, sent, received, timeout=_seconds(opts))
        return self._work([native], [output], whole.store)

    def _split_bytes(self, tensor, sizes):
        """Rows for each rank, in bytes; no sizes: as many for each."""
        rows = tensor.size(0) if tensor.dim() > 0 else 1
        row_bytes = tensor.numel() // rows * tensor.element_size() if rows else 0
        if not sizes:
            sizes = [rows // self._size] * self._size
        if sum(sizes) != rows:
            raise ValueError(f"ferrule: split sizes add up to {sum(sizes)}, and the tensor has {rows} rows")
        return [int(size) * row_bytes for size in sizes]

    def alltoall(self, output_tensors, input_tensors, opts=None):
        flat, sent = memory.pack(input_tensors)
        received = memory.byte_counts(output_tensors)
        everything = torch.empty(sum(received), dtype=torch.uint8)
        native = self._communicator.all_to_all_async(flat, everything, sent, received, timeout=_seconds(opts))
        outputs = list(output_tensors)
        return self._work([native], outputs, lambda: memory.unpack(everything, outputs))

    # ---- barriers

    def barrier(self, opts=None):
        return self._work([self._communicator.barrier_async(timeout=_seconds(opts))], [])

    def monitoredBarrier(self, opts, wait_all_ranks=False):
        """Rank 0 says who is missing: all of them, or the first it misses."""
        seconds = _seconds(opts) or self._timeout_s
        token = torch.zeros(1, dtype=torch.uint8)
        if self._rank != 0:
            try:
                self._communicator.send(token, 0, _BARRIER_TAG, timeout=seconds)
                # Rank 0 may have waited for others first.
                self._communicator.recv(token, 0, _BARRIER_TAG, timeout=2 * seconds + 1)
            except FerruleError as error:
                # As gloo says it: programs look for the words.
                raise FerruleError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                    f"send/recv from rank 0: {error}",
                    error.code,
                ) from error
            return
        comers = {
            rank: self._communicator.recv_async(torch.empty_like(token), rank, _BARRIER_TAG, timeout=seconds)
            for rank in range(1, self._size)
        }
        missing = [rank for rank in comers if not self._has_come(comers[rank])]
        if missing and not wait_all_ranks:
            missing = missing[:1]
        if missing:
            ranks = ", ".join(str(rank) for rank in missing)
            raise RuntimeError(
                f"[Rank 0]: Rank{'s' if len(missing) > 1 else ''} {ranks} failed to pass monitoredBarrier in "
                f"{round(seconds * 1000)} ms"
            )
        for rank in comers:
            self._communicator.send(token, rank, _BARRIER_TAG, timeout=seconds)

    def _has_come(self, native):
        try:
            native.wait()
        except RuntimeError:
            return False
        return True

    # ---- point to point

    def send(self, tensors, dst, tag=0):
        mine = memory.as_bytes(tensors[0])
        native = self._communicator.send_async(mine.flat, dst, tag)
        return self._work([native], list(tensors), kind=TransferWork)

    def recv(self, tensors, src, tag=0):
        return self._receive(tensors, src, tag)

    def recvAnysource(self, tensors, tag=0):
        return self._receive(tensors, None, tag)

    def _receive(self, tensors, src, tag):
        buffer = memory.as_bytes(tensors[0])
        native = self._communicator.recv_async(buffer.flat, src, tag)

        def finish():
            buffer.store()
            note_source(tensors[0], native.source)

        return self._work([native], list(tensors), finish, kind=TransferWork)

    # ---- life

    def abort(self):
        self._communicator.abort()

    def shutdown(self):
        self._completer.close()
        self._communicator.close()

    def getBackendName(self):
        return NAME

    def getSequenceNumberForGroup(self):
        return self._sequence

    def setSequenceNumberForGroup(self):
        self._sequence = 0

    # ---- names of older and of newer torch

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    recv_anysource = recvAnysource
    monitored_barrier = monitoredBarrier


def has_python_backends() -> bool:
    """Whether this torch lets a backend be written in Python."""
    return hasattr(c10d, "Backend") and hasattr(c10d.Backend, "all_gather_single")


class Group(Operations, dist.ProcessGroup):
    """A process group of its own: for torch without backends written in Python."""

    def __init__(self, store, rank, size, timeout):
        dist.ProcessGroup.__init__(self, rank, size)
        self._set_up(store, rank, size, timeout)

    def name(self):
        return NAME

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def getRank(self):
        return self._rank

    def getSize(self):
        return self._size


def _make_group(store, rank, size, timeout):
    return Group(store, rank, size, timeout)


if has_python_backends():

    class Backend(Operations, c10d.Backend):
        """One of a process group's backends."""

        def __init__(self, store, rank, size, options):
            c10d.Backend.__init__(self, rank, size)
            self._options = options
            self._set_up(store, rank, size, options._timeout, str(options.group_name))

        @property
        def options(self):
            return self._options

        @property
        def supports_splitting(self):
            return True

        @property
        def supports_coalescing(self):
            return False  # sends and receives need no grouping, and torch calls the *_coalesced operations

        def setTimeout(self, timeout):
            self._options._timeout = timeout

        def split(self, store, ranks, options):
            ranks = list(ranks)
            if self._rank not in ranks:
                return None
            if options is None:
                options = c10d.Backend.Options(NAME, self._options._timeout)
            above = list(self._options.global_ranks_in_group)
            options.global_ranks_in_group = [above[rank] for rank in ranks] if above else ranks
            return Backend(store, ranks.index(self._rank), len(ranks), options)

    def _make_backend(given, options):
        if options is None:
            options = c10d.Backend.Options(NAME, given.timeout)
        options.group_name = given.group_id
        options.global_ranks_in_group = given.global_ranks_in_group
        return Backend(given.store, given.group_rank, given.group_size, options)


def register() -> None:
    """What torch calls when the name is first used; also at import of ferrule.torch, for a torch that does not."""
    if NAME.upper() in dist.Backend._plugins:
        return
    devices = ["cpu", "cuda"]
    teach_torch()
    if has_python_backends() and os.environ.get("TORCH_FERRULE_GROUP") != "1":
        dist.Backend.register_backend(NAME, _make_backend, extended_api=True, devices=devices)
    else:
        dist.Backend.register_backend(NAME, _make_group, devices=devices)
