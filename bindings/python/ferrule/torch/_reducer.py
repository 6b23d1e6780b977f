"""The work behind the hook: starts a bucket's all-reduces, and completes DDP's future from a thread of its own."""

import dataclasses
import math
import queue
import threading
import time

import torch

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator, Residual, Work
from ferrule.torch._clip import Clip, Limits
from ferrule.torch._delivery import Delivery
from ferrule.torch._join import Join
from ferrule.torch._layout import Layout, Part, Unit
from ferrule.torch._residuals import LayoutTable
from ferrule.torch._rules import EXACT
from ferrule.torch._scale import LossScale
from ferrule.torch._step import RankSum, Step, Weight
from ferrule.torch._unused import UsedFlags


@dataclasses.dataclass(frozen=True)
class Options:
    """What compress() was asked for."""

    codec: str
    algo: str = "auto"
    seed: int = 0
    timeout: float | None = None
    warmup_steps: int = 0
    measure_every: int = 0  # steps; 0: never
    checks_unused: bool = False
    limits: Limits = Limits()


@dataclasses.dataclass
class Totals:
    """Counted over all steps so far."""

    steps: int = 0
    skipped: int = 0
    bytes_sent: int = 0
    gradient_bytes: int = 0
    seconds: float = 0.0
    relative_error: float | None = None


@dataclasses.dataclass
class Reduction:
    """One unit under way."""

    work: Work
    part: Part
    probe: Residual | None  # holds the error afterwards, on steps that measure it


@dataclasses.dataclass
class Job:
    """One bucket under way."""

    future: torch.futures.Future
    bucket: torch.Tensor
    step: Step
    is_last: bool
    reductions: list[Reduction] = dataclasses.field(default_factory=list)
    flags: UsedFlags | None = None
    flags_work: Work | None = None
    started_s: float = dataclasses.field(default_factory=time.monotonic)


class Reducer:
    """One DDP model's compressed all-reduce. reduce() waits for no gradient; only the completion thread does."""

    def __init__(self, communicator: Communicator, owned: bool, table: LayoutTable, join: Join, options: Options):
        self.communicator = communicator
        self.table = table
        self.options = options
        self.totals = Totals()
        self.loss_scale = LossScale()
        self.clip = Clip(options.limits)
        self.delivery: Delivery | None = None
        self.is_enabled = True
        self.steps_begun = 0  # over the whole training, also before a restart: keys random bits, and ends the warm-up
        self._owned = owned
        self._join = join
        self._step: Step | None = None
        self._weight: Weight | None = None
        self._is_weighted = False
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

    def set_weight(self, value: float) -> None:
        """Of the next step. All ranks call it at the same place."""
        self._weight = Weight(self.communicator, value)
        self._is_weighted = True

    def close(self) -> None:
        """Ends the thread; aborts what is under way (then the program is ending in an error)."""
        if self._under_way > 0:
            self.communicator.abort()
        self._jobs.put(None)
        self._thread.join()
        if self._owned:
            self.communicator.close()

    @torch.no_grad()
    def _start(self, bucket, future: torch.futures.Future) -> None:
        flat = bucket.buffer()
        if flat.is_sparse:
            raise FerruleError(
                "this bucket holds a sparse gradient, which Ferrule does not reduce; make the layer dense "
                "(nn.Embedding(sparse=False)), or leave this model uncompressed",
                "unsupported",
            )
        if bucket.index() == 0 or self._step is None:
            self._step = self._begin_step()
        layout = self.table.find(bucket.parameters(), flat.dtype)
        job = Job(future, flat, self._step, bucket.is_last())
        self._prepare(job, layout)
        job.reductions = [self._start_unit(part, job) for part in layout.parts]
        self._under_way += 1
        self._jobs.put(job)

    def _begin_step(self) -> Step:
        options, number = self.options, self.steps_begun
        self.steps_begun += 1
        factor = self.loss_scale.update()
        if factor != 1.0:
            self.table.scale(factor)
        is_compressing = self.is_enabled and number >= options.warmup_steps
        is_measured = is_compressing and options.measure_every > 0 and number % options.measure_every == 0
        step = Step(number, is_compressing, is_measured, self.loss_scale.is_followed)
        step.weight = self._take_weight()
        if self._join.divides_by_live_ranks():
            step.live_ranks = RankSum(self.communicator, 0.0 if self._join.is_shadow else 1.0)
        return step

    def _take_weight(self) -> float:
        """Waits for the sum of all weights, which began to travel when set_weight() was called."""
        if not self._is_weighted:
            return 1.0
        if self._weight is None and self._join.is_shadow:
            self.set_weight(0.0)
        weight, self._weight = self._weight, None
        if weight is None:
            raise FerruleError(
                "this step has no weight: once set_weight() is used, all ranks call it before every backward() that "
                "reduces gradients",
                "invalid_argument",
            )
        return weight.factor()

    def _prepare(self, job: Job, layout: Layout) -> None:
        """All that happens to a bucket before its units are reduced."""
        if job.step.rolls_back:
            for part in layout.parts:
                part.unit.keep()
        if self.options.checks_unused:
            job.flags = UsedFlags(job.bucket, layout)
            job.flags_work = self.communicator.all_reduce_async(job.flags.flags, op="max", codec=EXACT)
        self.clip.apply(job.bucket, layout, self.loss_scale.value, job.step.weight)

    def _start_unit(self, part: Part, job: Job) -> Reduction:
        unit, step, options = part.unit, job.step, self.options
        values = part.gather(job.bucket)
        is_lossy = step.is_compressing and unit.codec != EXACT
        if is_lossy:
            unit.holds_residual = unit.residual is not None
        else:
            _deliver_residual(unit, values)
        residual = unit.residual if is_lossy else None
        if is_lossy and step.is_measured:
            step.put_in += torch.linalg.vector_norm(values, dtype=torch.float32).item() ** 2
            residual = residual or Residual(unit.count)
        codec = unit.codec if is_lossy else EXACT
        algo = unit.algorithms.get(codec, options.algo) if options.algo == "auto" else options.algo
        work = self.communicator.all_reduce_async(
            values,
            op="avg",  # one division, in fp32, after the sum: DDP itself does not divide when a hook is registered
            codec=codec,
            algo=algo,
            residual=residual,
            timeout=options.timeout,
            seed=options.seed,
            step=step.number,
            tensor=unit.tensor_id,
        )
        unit.algorithms[codec] = work.algorithm
        return Reduction(work, part, residual if step.is_measured else None)

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
        for reduction in job.reductions:
            self._complete_unit(reduction, job)
        if job.flags is not None:
            job.flags_work.wait()
            job.flags.settle(job.bucket)
            self.totals.bytes_sent += job.flags_work.bytes_sent
        if job.step.rolls_back:
            job.step.is_finite &= _is_finite(job.bucket)
        if self.delivery is not None:
            for reduction in job.reductions:
                self.delivery.take(reduction.part, job.bucket)
        self.totals.gradient_bytes += job.bucket.numel() * job.bucket.element_size()
        if job.is_last:
            self._end_step(job.step)
        self.totals.seconds += time.monotonic() - job.started_s
        job.future.set_result(job.bucket)

    def _complete_unit(self, reduction: Reduction, job: Job) -> None:
        reduction.work.wait()
        reduction.part.scatter(job.bucket)
        if job.step.live_ranks is not None:
            live = job.step.live_ranks.get()
            for view in reduction.part.views(job.bucket):
                view.mul_(self.communicator.size / live)
        if reduction.probe is not None:
            left = torch.from_numpy(reduction.probe.numpy())
            job.step.left_behind += torch.linalg.vector_norm(left).item() ** 2
        self.totals.bytes_sent += reduction.work.bytes_sent

    def _end_step(self, step: Step) -> None:
        if not step.is_finite:
            for unit in self.table.units():
                unit.roll_back()
            self.totals.skipped += 1
        if step.is_measured and step.put_in > 0:
            self.totals.relative_error = math.sqrt(step.left_behind / step.put_in)
        self.totals.steps += 1


def _deliver_residual(unit: Unit, values: torch.Tensor) -> None:
    """An exact step hands out what compressed ones have left behind."""
    if unit.holds_residual:
        values.add_(torch.from_numpy(unit.residual.numpy()))
        unit.residual.scale(0.0)
        unit.holds_residual = False


def _is_finite(bucket: torch.Tensor) -> bool:
    if bucket.numel() == 0:
        return True
    low, high = torch.aminmax(bucket)  # NaN if there is one
    return math.isfinite(low.item()) and math.isfinite(high.item())


def _fail(future: torch.futures.Future, error: Exception) -> None:
    """backward() raises a RuntimeError with this text."""
    code = getattr(error, "code", None)
    future.set_exception(RuntimeError(f"ferrule ({code}): {error}" if code else f"ferrule: {error}"))
