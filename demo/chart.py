"""The demo's picture: loss against steps, against bytes and against seconds."""

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy

_MARKS_PER_EPOCH_FRACTION = 0.06  # smoothing window, as a share of all steps


def _smooth(values: list[float]) -> numpy.ndarray:
    """A running mean over the past, so that four noisy curves can be told apart."""
    window = max(1, round(len(values) * _MARKS_PER_EPOCH_FRACTION))
    sums = numpy.cumsum(numpy.insert(numpy.asarray(values, dtype=float), 0, 0.0))
    ends = numpy.arange(1, len(values) + 1)
    starts = numpy.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def draw(results: list[dict], link: str, path: pathlib.Path) -> None:
    """Writes the picture of these runs (records of train.py, with a label each)."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), sharey=True, constrained_layout=True)
    for result in results:
        loss = _smooth(result["losses"])
        steps = numpy.arange(1, len(loss) + 1)
        x_values = (steps, steps * result["bytes_per_step"] / 1e6, result["step_ends_s"])
        for axis, x in zip(axes, x_values, strict=True):
            axis.plot(x, loss, label=result["label"], linewidth=1.5)
    names = ("steps", "MB sent by one rank", f"seconds at {link}")
    for axis, name in zip(axes, names, strict=True):
        axis.set_xlabel(name)
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
    axes[1].set_xscale("log")
    axes[0].set_ylabel("training loss (running mean)")
    axes[0].legend()
    first = results[0]
    figure.suptitle(
        f"Digits, {first['parameters'] / 1e6:.1f} M parameters, {first['ranks']} ranks: the same steps, fewer bytes"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
