"""What the hook has done so far."""

from typing import Any

import torch

from ferrule.torch import _registry
from ferrule.torch._fsdp import Sharding
from ferrule.torch._reducer import Reducer

_NOTHING = dict.fromkeys(
    ("steps", "bytes", "raw_bytes", "ratio", "seconds", "compressed", "exact", "clipped", "spikes", "skipped"), 0
)


def stats(model: torch.nn.Module) -> dict:
    """What the hook has done so far on this rank.

    steps; bytes (sent on the wire, headers included); raw_bytes (what an exact all-reduce of the same gradients sends);
    ratio (raw_bytes / bytes); seconds (from a bucket's hand-over to its result, summed over buckets, which may overlap);
    relative_error (what this rank's encodes left behind, as a part of the gradient that it put in, in L2 norms, in the
    last step that measured it; None before); codec; compressed and exact (numbers of parameters); clipped (buckets),
    spikes (gradients); skipped (steps whose overflow left the residuals as they were).
    FSDP models have bytes and raw_bytes for each collective, too (reduce_scatter_bytes, ...), and none of the counts.
    """
    engine = _registry.engine_of(model)
    if isinstance(engine, Sharding):
        return {**_NOTHING, "relative_error": None, **engine.report()}
    return _of_reducer(engine)


def _of_reducer(reducer: Reducer | None) -> dict:
    if reducer is None:
        return {**_NOTHING, "codec": "none", "relative_error": None}
    totals, raw_bytes = reducer.totals, _raw_bytes(reducer)
    compressed, exact = reducer.table.counts()
    return {
        "steps": totals.steps,
        "bytes": totals.bytes_sent,
        "raw_bytes": raw_bytes,
        "ratio": raw_bytes / totals.bytes_sent if totals.bytes_sent else 1.0,
        "seconds": totals.seconds,
        "relative_error": totals.relative_error,
        "codec": reducer.options.codec,
        "compressed": compressed,
        "exact": exact,
        "clipped": reducer.clip.clipped,
        "spikes": reducer.clip.spikes,
        "skipped": totals.skipped,
    }


def log_stats(model: torch.nn.Module, writer: Any, step: int, prefix: str = "ferrule") -> None:
    """Writes stats() as scalars: `writer` is a TensorBoard SummaryWriter, or has its add_scalar(tag, value, step).

    bytes, raw_bytes and seconds are those of a step, on average so far.
    """
    seen = stats(model)
    steps = max(seen["steps"], 1)
    for key in ("bytes", "raw_bytes", "seconds"):
        writer.add_scalar(f"{prefix}/{key}_per_step", seen[key] / steps, step)
    for key in ("ratio", "clipped", "spikes", "skipped"):
        writer.add_scalar(f"{prefix}/{key}", seen[key], step)
    if seen["relative_error"] is not None:
        writer.add_scalar(f"{prefix}/relative_error", seen["relative_error"], step)


def _raw_bytes(reducer: Reducer) -> int:
    ranks = reducer.communicator.size
    return reducer.totals.gradient_bytes * 2 * (ranks - 1) // ranks
