#!/usr/bin/env python3
"""Draws the JSON file of ferrule-bench: time and effective bandwidth against size, one line a codec.

    python3 bench/plot.py results.json -o picture.png
"""

import argparse
import json
import sys

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_label(size):
    """1536 -> "1.5 KiB"."""
    value = float(size)
    for unit in SIZE_UNITS[:-1]:
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} {SIZE_UNITS[-1]}"


def label_of(result, results):
    """The codec, and whatever else differs between the results of this file."""
    names = ["codec", "algo", "dtype", "op"]
    varying = [name for name in names if name == "codec" or len({other[name] for other in results}) > 1]
    label = " ".join(str(result[name]) for name in varying)
    return label + (" + feedback" if result.get("error_feedback") else "")


def series(results):
    """label -> results in order of size; labels in order of first appearance."""
    lines = {}
    for result in results:
        lines.setdefault(label_of(result, results), []).append(result)
    for line in lines.values():
        line.sort(key=lambda result: result["bytes"])
    return lines


def title_of(report):
    first = report["results"][0]
    link = report.get("settings", {}).get("link") or ""
    where = f"{first['ranks']} ranks, {first['transport']}" + (f", {link}" if link else "")
    return f"all-reduce, {where} ({report['machine'].get('host', '')})"


def thin(sizes, most=8):
    """At most `most` of the sizes, evenly, for the labels of the axis."""
    step = -(-len(sizes) // most)
    return sizes[::step]


def draw(report, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = [result for result in report["results"] if result["bytes"] > 0]  # 0 has no place on a log axis
    figure, (time_axes, band_axes) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    for label, line in series(results).items():
        sizes = [result["bytes"] for result in line]
        p50 = [result["time_us"]["p50"] for result in line]
        (drawn,) = time_axes.plot(sizes, p50, marker="o", markersize=4, label=label)
        p95 = [result["time_us"]["p95"] for result in line]
        time_axes.fill_between(sizes, p50, p95, color=drawn.get_color(), alpha=0.15, linewidth=0)
        band_axes.plot(sizes, [result["busbw_gbps"] for result in line], marker="o", markersize=4, label=label)
    time_axes.set_yscale("log")
    time_axes.set_ylabel("time of one all-reduce, µs (p50 to p95)")
    band_axes.set_ylabel("effective bus bandwidth, GB/s")
    band_axes.set_ylim(bottom=0)
    ticks = thin(sorted({result["bytes"] for result in results}))
    for axes in (time_axes, band_axes):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [size_label(size) for size in ticks], rotation=30, ha="right")
        axes.xaxis.minorticks_off()
        axes.set_xlabel("size of the tensor on each rank")
        axes.grid(True, alpha=0.3)
        axes.legend()
    figure.suptitle(title_of(report))
    figure.savefig(path, dpi=150)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="file that ferrule-bench -J has written")
    parser.add_argument("-o", "--output", required=True, help="picture to write: .png or .svg")
    options = parser.parse_args(arguments)
    try:
        with open(options.results, encoding="utf-8") as file:
            report = json.load(file)
        if not report["results"]:
            raise ValueError("it has no results")
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"plot.py: {options.results} is not a file of ferrule-bench -J: {error!r}", file=sys.stderr)
        return 2
    try:
        draw(report, options.output)
    except ImportError as error:
        print(f"plot.py: {error}; install it with: pip install matplotlib", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"plot.py: cannot write {options.output}: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
