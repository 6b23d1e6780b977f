"""The training demo: four ranks, one model, once per codec, on a slow link.

Trains a CNN on scikit-learn's digits with DistributedDataParallel, gradients reduced by Ferrule, over a link throttled in
user space (1 Gbit/s). Prints a table; writes training.png and training.json.
"""

import argparse
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import launch

CASES = (
    ("raw fp32", {"codec": "none"}),
    ("int8 + feedback", {"codec": "int8"}),
    ("int4 + feedback", {"codec": "int4"}),
    ("int4 alone", {"codec": "int4", "feedback": False}),
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--link", default="1gbit", help="throttle, e.g. 1gbit or 100mbit,1ms; 'none' for no throttle")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo-output"))
    return parser.parse_args()


def show_progress(label: str, record: dict) -> None:
    """One line that is written over; only on a terminal."""
    if sys.stdout.isatty():
        share = record["progress"] / record["steps"]
        bar = "#" * round(24 * share)
        text = f"{label:<16} [{bar:<24}] step {record['progress']}/{record['steps']}  loss {record['loss']:.4f}"
        print(f"\r{text}\x1b[K", end="", flush=True)


def train_case(label: str, fields: dict, arguments: argparse.Namespace) -> dict:
    run = {"epochs": arguments.epochs, "seed": arguments.seed, "optimizer": arguments.optimizer, **fields}
    link = None if arguments.link == "none" else arguments.link
    result = None
    for record in launch.run_ranks(arguments.ranks, [run], link):
        if "progress" in record:
            show_progress(label, record)
        else:
            result = record["result"]
    if result is None:
        raise launch.RanksFailed("rank 0 ended without a result")
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(
        f"{clear}{label:<16} {result['seconds']:6.1f} s, test accuracy {100 * result['accuracy']:.1f} %", flush=True
    )
    return {**result, "label": label, "ranks": arguments.ranks}


def table(results: list[dict]) -> str:
    """Speed-up and compression are against the first row."""
    raw = results[0]
    lines = [
        f"{'codec':<16} {'accuracy':>9} {'seconds':>8} {'speed-up':>9} {'wire KB/step':>13} {'fewer bytes':>12}",
    ]
    for result in results:
        lines.append(
            f"{result['label']:<16} {100 * result['accuracy']:>7.1f} % {result['seconds']:>8.1f} "
            f"{raw['seconds'] / result['seconds']:>8.2f}x {result['bytes_per_step'] / 1e3:>13.1f} "
            f"{raw['bytes_per_step'] / result['bytes_per_step']:>11.2f}x"
        )
    return "\n".join(lines)


def main() -> int:
    arguments = parse_arguments()
    # kill (SIGTERM) takes the same way out as Ctrl-C, so that the ranks are stopped too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments.out.mkdir(parents=True, exist_ok=True)
    speed = "no throttle" if arguments.link == "none" else f"a link of {arguments.link}"
    print(f"Training a CNN on digits: {arguments.ranks} ranks, {arguments.optimizer}, {speed}", flush=True)
    try:
        results = [train_case(label, fields, arguments) for label, fields in CASES]
    except launch.RanksFailed as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 130
    print(f"\n{table(results)}")
    print("(wire: what one rank sent in a step, headers included, as counted at the transport)")
    import chart  # matplotlib takes a second: not before there is something to draw

    picture, data = arguments.out / "training.png", arguments.out / "training.json"
    chart.draw(results, arguments.link, picture)
    data.write_text(json.dumps({"link": arguments.link, "results": results}, indent=1) + "\n")
    print(f"\nPicture: {picture.resolve()}\nFigures: {data.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
