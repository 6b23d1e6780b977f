"""Clips gradients on the rank that made them, before they are reduced: what one rank's bad batch puts in is bounded.

Two clips, in this order, both on L2 norms of the gradient as the loss has it (without the loss scale):

* spike: a parameter whose norm is more than `spike` times its running average is scaled down to that, and forgets its
  residual, so that nothing of a run of spikes is delivered later;
* bucket: a bucket whose norm is above `max_norm` is scaled down to it.

All norms of a bucket come from one batched call, and all factors (with a weight, if there is one) go into one batched
multiplication, which is left out when all are 1. A norm that is not finite clips nothing: an overflow must reach all ranks.
"""

import dataclasses
import math

import torch

from ferrule.torch._layout import Layout, Piece, Unit

_DECAY = 0.95  # of the running average: it follows a change of the norm in about 20 steps
_FIRST = 8  # steps that only feed the average


@dataclasses.dataclass(frozen=True)
class Limits:
    """None: no such clip."""

    max_norm: float | None = None
    spike: float | None = None


@dataclasses.dataclass
class Average:
    """A parameter's running average norm."""

    value: float = 0.0
    steps: int = 0

    def add(self, norm: float) -> None:
        # At first the plain mean: an average that begins at zero would take every gradient for a spike.
        decay = min(_DECAY, self.steps / (self.steps + 1))
        self.value = decay * self.value + (1 - decay) * norm
        self.steps += 1


class Clip:
    """The limits, and the averages that the spike clip compares with. Per rank: nothing is exchanged."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.averages: dict[str, Average] = {}
        self.spikes = 0
        self.clipped = 0  # buckets

    @torch.no_grad()
    def apply(self, bucket: torch.Tensor, layout: Layout, loss_scale: float, weight: float) -> None:
        """Clips a bucket in place and multiplies it by `weight`."""
        if self.limits == Limits():
            if weight != 1.0:
                bucket.mul_(weight)
            return
        views = [view for part in layout.parts for view in part.views(bucket)]
        owners = [(part.unit, piece) for part in layout.parts for piece in part.unit.pieces]
        norms = [norm / loss_scale for norm in _norms(views)]
        factors = self._spike_factors(owners, norms)
        factors = self._bucket_factors(norms, factors)
        factors = [factor * weight for factor in factors]
        if any(factor != 1.0 for factor in factors):
            torch._foreach_mul_(views, factors)

    def _spike_factors(self, owners: list[tuple[Unit, Piece]], norms: list[float]) -> list[float]:
        if self.limits.spike is None:
            return [1.0] * len(norms)
        return [self._spike_factor(*owner, norm) for owner, norm in zip(owners, norms)]

    def _spike_factor(self, unit: Unit, piece: Piece, norm: float) -> float:
        if not math.isfinite(norm) or norm == 0.0:  # zero: not used in this step
            return 1.0
        average = self.averages.setdefault(piece.name, Average())
        limit = self.limits.spike * average.value
        factor = 1.0
        if average.steps >= _FIRST and norm > limit > 0:
            factor = limit / norm
            unit.forget(piece)
            self.spikes += 1
        average.add(norm * factor)
        return factor

    def _bucket_factors(self, norms: list[float], factors: list[float]) -> list[float]:
        if self.limits.max_norm is None:
            return factors
        norm = math.sqrt(sum((norm * factor) ** 2 for norm, factor in zip(norms, factors)))
        if not math.isfinite(norm) or norm <= self.limits.max_norm:
            return factors
        self.clipped += 1
        return [factor * self.limits.max_norm / norm for factor in factors]


def _norms(views: list[torch.Tensor]) -> list[float]:
    """L2 norms, in float32 or better: the sum of squares of half-precision gradients would overflow."""
    dtype = torch.float64 if views[0].dtype == torch.float64 else torch.float32
    return torch.stack(torch._foreach_norm(views, 2.0, dtype)).tolist()
