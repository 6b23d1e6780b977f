"""What holds for all buckets of one step, decided at its first bucket."""

import dataclasses
import math

import torch

from ferrule._errors import FerruleError
from ferrule._ferrule import Communicator, Work


class RankSum:
    """A number summed over all ranks, exactly; started at once, waited for where it is needed."""

    def __init__(self, communicator: Communicator, value: float):
        self._total = torch.tensor([value], dtype=torch.float64)
        self._work: Work = communicator.all_reduce_async(self._total, op="sum", codec="none", algo="direct")

    def get(self) -> float:
        self._work.wait()
        return self._total.item()


class Weight:
    """This rank's weight in the mean of one step."""

    def __init__(self, communicator: Communicator, value: float):
        if not (math.isfinite(value) and value >= 0):
            raise FerruleError(f"the weight is {value}; it must be finite and not negative", "invalid_argument")
        self._value = value
        self._ranks = communicator.size
        self._total = RankSum(communicator, value)

    def factor(self) -> float:
        """What this rank's gradient is multiplied by before the plain mean over ranks: 1 where all weigh the same."""
        total = self._total.get()
        return self._value * self._ranks / total if total > 0 else 0.0


@dataclasses.dataclass
class Step:
    """One optimizer step's reduction."""

    number: int
    is_compressing: bool
    is_measured: bool  # the relative error is
    rolls_back: bool  # if a gradient is not finite: the optimizer will not use this step
    weight: float = 1.0
    live_ranks: RankSum | None = None
    is_finite: bool = True
    # Sums of squares over the compressed gradients, where is_measured.
    put_in: float = 0.0
    left_behind: float = 0.0
