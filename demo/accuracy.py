"""Does compression cost accuracy? Trains with several seeds and compares mean final test accuracies.

For each optimizer and codec: mean and standard deviation over the seeds. Exit status 0 when int4 with error feedback lies
within one standard deviation of fp32, or above it, for each optimizer, and sends at least 7.5 times fewer bytes.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import launch

CASES = (
    ("fp32", {"codec": "none"}),
    ("int4 + feedback", {"codec": "int4"}),
    ("int4 alone", {"codec": "int4", "feedback": False}),
)
MIN_COMPRESSION = 7.5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--width", type=int, default=256, help="of the large layer; the demo has 768")
    parser.add_argument("--optimizer", choices=("sgd", "adam", "both"), default="both")
    parser.add_argument("--also", action="append", default=[], metavar="CODEC", help="with feedback and without")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo-output"))
    return parser.parse_args()


def plan(arguments: argparse.Namespace) -> list[tuple[str, str, dict]]:
    """(optimizer, label, run) of everything that is trained."""
    optimizers = ("sgd", "adam") if arguments.optimizer == "both" else (arguments.optimizer,)
    shape = {"epochs": arguments.epochs, "width": arguments.width}
    cases = CASES + tuple(
        (f"{codec} {how}", {"codec": codec, "feedback": how != "alone"})
        for codec in arguments.also
        for how in ("+ feedback", "alone")
    )
    return [
        (optimizer, label, {**shape, **fields, "optimizer": optimizer, "seed": seed})
        for optimizer in optimizers
        for label, fields in cases
        for seed in range(arguments.seeds)
    ]


def train_all(planned: list[tuple[str, str, dict]], ranks: int) -> list[dict]:
    results = []
    for record in launch.run_ranks(ranks, [run for _, _, run in planned]):
        if "result" in record:
            _, label, _ = planned[len(results)]
            results.append({**record["result"], "label": label})
            if sys.stdout.isatty():
                print(f"\r{len(results)} of {len(planned)} runs\x1b[K", end="", flush=True)
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    return results


def summarise(results: list[dict]) -> list[dict]:
    """One row for each optimizer and codec, in the order of the runs."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for result in results:
        groups.setdefault((result["optimizer"], result["label"]), []).append(result)
    return [
        {
            "optimizer": optimizer,
            "label": label,
            "mean": statistics.mean(run["accuracy"] for run in runs),
            "deviation": statistics.stdev([run["accuracy"] for run in runs]) if len(runs) > 1 else 0.0,
            "bytes_per_step": statistics.mean(run["bytes_per_step"] for run in runs),
            "final_loss": statistics.mean(statistics.mean(run["losses"][-10:]) for run in runs),
            "accuracies": [run["accuracy"] for run in runs],
        }
        for (optimizer, label), runs in groups.items()
    ]


def judge(rows: list[dict]) -> list[str]:
    """What does not hold; empty when all is well."""
    complaints = []
    for optimizer in dict.fromkeys(row["optimizer"] for row in rows):
        exact, feedback = (
            next(row for row in rows if row["optimizer"] == optimizer and row["label"] == label)
            for label in ("fp32", "int4 + feedback")
        )
        if feedback["mean"] < exact["mean"] - exact["deviation"]:
            complaints.append(f"{optimizer}: int4 + feedback is more than one standard deviation below fp32")
        if exact["bytes_per_step"] < MIN_COMPRESSION * feedback["bytes_per_step"]:
            complaints.append(f"{optimizer}: int4 sends more than 1/{MIN_COMPRESSION} of the bytes")
    return complaints


def print_table(rows: list[dict]) -> None:
    print(f"{'optimizer':<10} {'codec':<24} {'accuracy over seeds':>22} {'final loss':>11} {'wire KB/step':>13} {'fewer':>7}")
    for row in rows:
        exact = next(other for other in rows if other["optimizer"] == row["optimizer"])
        print(
            f"{row['optimizer']:<10} {row['label']:<24} {100 * row['mean']:>12.2f} +- {100 * row['deviation']:.2f} % "
            f"{row['final_loss']:>11.2e} {row['bytes_per_step'] / 1e3:>13.1f} "
            f"{exact['bytes_per_step'] / row['bytes_per_step']:>6.2f}x"
        )


def main() -> int:
    arguments = parse_arguments()
    planned = plan(arguments)
    try:
        rows = summarise(train_all(planned, arguments.ranks))
    except launch.RanksFailed as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\naccuracy: interrupted", file=sys.stderr)
        return 130
    print_table(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    data = arguments.out / "accuracy.json"
    data.write_text(json.dumps({"seeds": arguments.seeds, "epochs": arguments.epochs, "rows": rows}, indent=1) + "\n")
    complaints = judge(rows)
    for complaint in complaints:
        print(f"accuracy: {complaint}", file=sys.stderr)
    print(f"Figures: {data.resolve()}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
