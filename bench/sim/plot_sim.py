#!/usr/bin/env python3
"""Draws the JSON file of ferrule-sim: time against ranks, or against size where sizes vary more.

    python3 bench/sim/plot_sim.py results.json -o picture.png
"""

import argparse
import json
import sys

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
STYLES = ("-", "--", ":", "-.")  # by codec; colours are by algorithm


def size_label(size):
    """1536 -> "1.5 KiB"."""
    value = float(size)
    for unit in SIZE_UNITS[:-1]:
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} {SIZE_UNITS[-1]}"


def distinct(results, name):
    return sorted({result[name] for result in results})


def axis_of(results):
    """What to draw along: the one of ranks and bytes that has more values; the other gets a picture each."""
    names = ("ranks", "bytes")
    return max(names, key=lambda name: len(distinct(results, name)))


def panels(results, axis):
    """At most three values of the other one: the smallest, one in the middle, the largest."""
    other = "bytes" if axis == "ranks" else "ranks"
    values = distinct(results, other)
    chosen = sorted({values[0], values[len(values) // 2], values[-1]})
    return other, chosen


def title_of(report):
    levels = report["settings"]["levels"]
    texts = [level["link"] if level["group"] is None else f"{level['group']} ranks by {level['link']}" for level in levels]
    return "simulated all-reduce, " + ", then ".join(texts)


def label_ticks(axes, axis, values):
    ticks = values[:: -(-len(values) // 9)]
    labels = [size_label(value) if axis == "bytes" else f"{value:,}" for value in ticks]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, labels, rotation=30, ha="right")
    axes.xaxis.minorticks_off()
    axes.set_xlabel("size of the tensor on each rank" if axis == "bytes" else "ranks")


def draw_panel(axes, results, axis, colours):
    codecs = list(dict.fromkeys(result["codec"] for result in results))
    lines = {}
    for result in results:
        lines.setdefault((result["algo"], result["codec"]), []).append(result)
    for (algo, codec), line in lines.items():
        line.sort(key=lambda result: result[axis])
        axes.plot(
            [result[axis] for result in line],
            [result["time_us"] for result in line],
            marker="o",
            markersize=3,
            linestyle=STYLES[codecs.index(codec) % len(STYLES)],
            color=colours[algo],
            label=f"{algo} {codec}",
        )
    label_ticks(axes, axis, distinct(results, axis))
    axes.set_yscale("log")
    axes.grid(True, alpha=0.3)


def draw(report, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = [result for result in report["results"] if result["bytes"] > 0 and result["time_us"] > 0]
    if not results:
        raise ValueError("all of its times are 0")
    axis = axis_of(results)
    other, values = panels(results, axis)
    algorithms = list(dict.fromkeys(result["algo"] for result in results))
    colours = {algo: f"C{index % 10}" for index, algo in enumerate(algorithms)}
    figure, all_axes = plt.subplots(
        1, len(values), figsize=(1.5 + 5.5 * len(values), 4.8), layout="constrained", squeeze=False, sharey=True
    )
    for axes, value in zip(all_axes[0], values, strict=True):
        draw_panel(axes, [result for result in results if result[other] == value], axis, colours)
        axes.set_title(size_label(value) if other == "bytes" else f"{value:,} ranks")
    all_axes[0][0].set_ylabel("simulated time, µs")
    all_axes[0][-1].legend(fontsize=8)
    figure.suptitle(title_of(report))
    figure.savefig(path, dpi=150)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="file that ferrule-sim -J has written")
    parser.add_argument("-o", "--output", required=True, help="picture to write: .png or .svg")
    options = parser.parse_args(arguments)
    try:
        with open(options.results, encoding="utf-8") as file:
            report = json.load(file)
        if report["simulator"] != 1 or not report["results"]:
            raise ValueError("it has no results of a kind that is known here")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"plot_sim.py: {options.results} is not a file of ferrule-sim -J: {error!r}", file=sys.stderr)
        return 2
    try:
        draw(report, options.output)
    except ImportError as error:
        print(f"plot_sim.py: {error}; install it with: pip install matplotlib", file=sys.stderr)
        return 3
    except (OSError, ValueError) as error:
        print(f"plot_sim.py: cannot draw {options.output}: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
