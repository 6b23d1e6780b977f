"""Ratios against size: a panel for each link, number of ranks, place and Ferrule; a line for each peer."""

from . import report


def _panels(results: dict) -> dict[tuple, dict[str, list]]:
    panels: dict[tuple, dict[str, list]] = {}
    for case in results["cases"]:
        for ratio in case["ratios"]:
            place = "in place" if case["in_place"] else "out of place"
            if ratio["other"].startswith("ompi:") and ratio["other"] != "ompi:best":
                continue  # one line for Open MPI; the table has its variants
            key = (case["link"], case["ranks"], place, ratio["base"])
            panels.setdefault(key, {}).setdefault(ratio["other"], []).append((case["bytes"], ratio))
    return panels


def _draw_panel(axes, title: tuple, lines: dict[str, list], colours: dict[str, str]) -> None:
    for other, points in lines.items():
        points.sort(key=lambda point: point[0])
        sizes = [size for size, _ in points]
        medians = [ratio["median"] for _, ratio in points]
        below = [ratio["median"] - ratio["q1"] for _, ratio in points]
        above = [ratio["q3"] - ratio["median"] for _, ratio in points]
        look = {"marker": "o", "markersize": 4, "capsize": 3, "color": colours[other]}
        axes.errorbar(sizes, medians, yerr=[below, above], label=other, **look)
    link, ranks, place, base = title
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = sorted({size for points in lines.values() for size, _ in points})
    axes.set_xticks(ticks, [report.size_label(size) for size in ticks], rotation=30, ha="right")
    axes.yaxis.set_major_formatter("{x:g}x")
    axes.minorticks_off()
    axes.set_title(f"{link}, {ranks} ranks, {place}\ntime over that of {base}", fontsize=10)
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)


def draw(results: dict, path: str) -> None:
    """Raises ImportError where there is no matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = _panels(results)
    if not panels:
        raise ValueError("there is no ratio to draw: it takes a Ferrule and a peer")
    others = dict.fromkeys(other for lines in panels.values() for other in lines)
    colours = {other: f"C{number % 10}" for number, other in enumerate(others)}
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns, 4 * rows), layout="constrained", squeeze=False)
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        _draw_panel(axes, title, lines, colours)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=140)
