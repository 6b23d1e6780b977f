"""The elastic demo: four ranks train, one is killed, and training goes on with three.

A rank is killed (SIGKILL) in the middle of the training; the others shrink their communicator and go on from the last step
that any of them has finished. Prints how long that took; writes elastic.png (the loss curve) and elastic.json.
"""

import argparse
import ctypes
import json
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

_PR_SET_PDEATHSIG = 1
_SILENCE_S = 120  # without a word from any rank: something hangs


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--victim", type=int, default=2, help="the rank that is killed")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--kill-at", type=int, help="the step after which it is (default: in the middle)")
    parser.add_argument("--codec", default="int4")
    parser.add_argument("--width", type=int, default=128, help="of the model's large layer")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo-output"))
    return parser.parse_args()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Ranks:
    """The processes, and what they say."""

    def __init__(self, arguments: argparse.Namespace, folder: str):
        self.records: queue.Queue = queue.Queue()
        script = pathlib.Path(__file__).with_name("elastic_rank.py")
        self.logs = [open(pathlib.Path(folder) / f"rank{rank}.log", "w+") for rank in range(arguments.ranks)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(script), f"--rank={rank}", f"--ranks={arguments.ranks}",
                 f"--place=file://{folder}/meet", f"--steps={arguments.steps}", f"--codec={arguments.codec}",
                 f"--width={arguments.width}"],
                stdout=subprocess.PIPE, stderr=log, preexec_fn=_die_with_parent, text=True,
            )
            for rank, log in enumerate(self.logs)
        ]  # fmt: skip
        self.readers = [
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True) for process in self.processes
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, stream) -> None:
        for line in stream:
            if line.startswith("{"):
                self.records.put({**json.loads(line), "time_s": time.monotonic()})
        self.records.put(None)  # this rank says no more

    def words(self):
        """All records, in the order of their arrival, until all ranks have ended."""
        silent = 0
        while silent < len(self.processes):
            record = self.records.get(timeout=_SILENCE_S)
            silent += record is None
            if record is not None:
                yield record

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for log in self.logs:
            log.close()

    def complaint(self, victim: int) -> str:
        """What went wrong with a rank that was to survive; empty if nothing did."""
        for rank, (process, log) in enumerate(zip(self.processes, self.logs, strict=True)):
            if process.wait() != 0 and rank != victim:
                log.seek(0)
                return f"rank {rank} ended with {process.returncode}:\n{log.read()[-3000:]}"
        return ""


def run(arguments: argparse.Namespace) -> dict:
    """Returns the steps and when the victim was killed; raises RuntimeError if the survivors did not get through."""
    kill_at = arguments.kill_at or arguments.steps // 2
    steps, killed_s, result = [], None, None
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(arguments, folder)
        try:
            for record in ranks.words():
                if "accuracy" in record:
                    result = record
                    continue
                steps.append(record)
                if killed_s is None and record["step"] >= kill_at:
                    ranks.processes[arguments.victim].kill()
                    killed_s = time.monotonic()
            if complaint := ranks.complaint(arguments.victim):
                raise RuntimeError(complaint)
        except queue.Empty:
            raise RuntimeError(f"no rank has said anything for {_SILENCE_S} s") from None
        finally:
            ranks.stop()
    if result is None or killed_s is None:
        raise RuntimeError("the training ended without a result")
    fewer = [record["time_s"] for record in steps if record["ranks"] < arguments.ranks]
    if not fewer:
        raise RuntimeError("no step was finished after the kill: --kill-at is too late")
    start_s = steps[0]["time_s"]
    return {
        "steps": [{**record, "time_s": record["time_s"] - start_s} for record in steps],
        "killed_s": killed_s - start_s,
        "gap_s": fewer[0] - killed_s,
        "ranks": arguments.ranks,
        "victim": arguments.victim,
        "ranks_left": result["ranks"],
        "accuracy": result["accuracy"],
    }


def draw(result: dict, path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, constrained_layout=True)
    for axis, key, name in zip(axes, ("step", "time_s"), ("step", "seconds"), strict=True):
        for ranks in sorted({record["ranks"] for record in result["steps"]}, reverse=True):
            part = [record for record in result["steps"] if record["ranks"] == ranks]
            axis.plot([record[key] for record in part], [record["loss"] for record in part], label=f"{ranks} ranks")
        axis.set_xlabel(name)
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
    axes[1].axvline(result["killed_s"], color="black", linestyle=":", label=f"rank {result['victim']} is killed")
    axes[0].set_ylabel("training loss")
    axes[1].legend()
    figure.suptitle(f"One of {result['ranks']} ranks is killed; the next step ends {result['gap_s']:.1f} s later")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        result = run(arguments)
    except RuntimeError as error:
        print(f"elastic: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nelastic: interrupted", file=sys.stderr)
        return 130
    before = [record for record in result["steps"] if record["ranks"] == arguments.ranks]
    after = [record for record in result["steps"] if record["ranks"] < arguments.ranks]
    print(f"{arguments.ranks} ranks: steps 1 to {before[-1]['step']}, loss {before[0]['loss']:.3f} to {before[-1]['loss']:.3f}")
    print(f"rank {arguments.victim} killed; {result['gap_s']:.2f} s later the next step was done by {after[0]['ranks']} ranks")
    print(f"{after[0]['ranks']} ranks: steps {after[0]['step']} to {after[-1]['step']}, loss down to {after[-1]['loss']:.3f}")
    print(f"test accuracy {100 * result['accuracy']:.1f} %")
    (arguments.out / "elastic.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, arguments.out / "elastic.png")
    print(f"Picture: {(arguments.out / 'elastic.png').resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
