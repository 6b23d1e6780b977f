"""The work behind the hook: starts a bucket's all-reduces, and completes DDP's future from a thread of its own."""

import dataclasses
import queue
import threading
import time

import torch

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator, Work
from ferrule.torch._layout import Part
from ferrule.torch._residuals import LayoutTable


@dataclasses.dataclass(frozen=True)
class Options:
    """What compress() was asked for."""

    codec: str
    algo: str
    seed: int
    timeout: float | None


@dataclasses.dataclass
class Totals:
    """Counted over all steps so far."""

    steps: int = 0
    bytes_sent: int = 0
    gradient_bytes: int = 0
    seconds: float = 0.0


@dataclasses.dataclass
class Job:
    """One bucket under way."""

    future: torch.futures.Future
    bucket: torch.Tensor
    works: list[tuple[Work, Part]]
    is_last: bool
    started_s: float


class Reducer:
    """One DDP model's compressed all-reduce. reduce() never waits; only the completion thread does."""

    def __init__(self, communicator: Communicator, owned: bool, table: LayoutTable, options: Options):
        self.communicator = communicator
        self.table = table
        self.options = options
        self.totals = Totals()
        self._owned = owned
        self._step = 0
        self._under_way = 0
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._complete_all, name="ferrule-torch", daemon=True)
        self._thread.start()

    def reduce(self, bucket) -> torch.futures.Future:
        """Called by DDP on the autograd thread, in bucket order, with the same buckets on every rank."""
        future = torch.futures.Future()
        try:
            self._start(bucket, future)
        except Exception as error:  # a hook that raises would leave DDP's other buckets without an answer
            _fail(future, error)
        return future

    def close(self) -> None:
        """Ends the thread; aborts what is under way (then the program is ending in an error)."""
        if self._under_way > 0:
            self.communicator.abort()
        self._jobs.put(None)
        self._thread.join()
        if self._owned:
            self.communicator.close()

    def _start(self, bucket, future: torch.futures.Future) -> None:
        flat = bucket.buffer()
        if flat.is_sparse:
            raise FerruleError(
                "this bucket holds a sparse gradient, which Ferrule does not reduce; make the layer dense "
                "(nn.Embedding(sparse=False)), or leave this model uncompressed",
                "unsupported",
            )
        layout = self.table.find(bucket.parameters(), flat.dtype)
        job = Job(future, flat, [], bucket.is_last(), time.monotonic())
        if layout.lossy:
            codec = self.options.codec
            job.works.append((self._all_reduce(layout.lossy, flat, codec, layout), layout.lossy))
        if layout.exact:
            job.works.append((self._all_reduce(layout.exact, flat, "none", None), layout.exact))
        self._step += job.is_last
        self._under_way += 1
        self._jobs.put(job)

    def _all_reduce(self, part: Part, flat: torch.Tensor, codec: str, layout) -> Work:
        with torch.no_grad():
            values = part.gather(flat)
        return self.communicator.all_reduce_async(
            values,
            op="avg",  # one division, in fp32, after the sum: DDP itself does not divide when a hook is registered
            codec=codec,
            algo=self.options.algo,
            residual=layout.residual if layout else None,
            timeout=self.options.timeout,
            seed=self.options.seed,
            step=self._step,
            tensor=layout.tensor_id if layout else 0,
        )

    def _complete_all(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._complete(job)
            except Exception as error:
                _fail(job.future, error)
            finally:
                self._under_way -= 1

    @torch.no_grad()
    def _complete(self, job: Job) -> None:
        for work, part in job.works:
            work.wait()
            part.scatter(job.bucket)
            self.totals.bytes_sent += work.bytes_sent
        self.totals.gradient_bytes += job.bucket.numel() * job.bucket.element_size()
        self.totals.seconds += time.monotonic() - job.started_s
        self.totals.steps += job.is_last
        job.future.set_result(job.bucket)


def _fail(future: torch.futures.Future, error: Exception) -> None:
    """backward() raises a RuntimeError with this text."""
    code = getattr(error, "code", None)
    future.set_exception(RuntimeError(f"ferrule ({code}): {error}" if code else f"ferrule: {error}"))
