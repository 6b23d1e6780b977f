"""One run: starts the ranks, lets its misfortune happen, waits for all to end, and judges."""

import os
import select
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass, field

import verdict
from namespaces import Namespaces
from plan import NEEDS_NAMESPACES, Plan
from process import Rank, World, stacks_of

END_LIMIT_S = 60.0  # from the start: whoever has not come to an end then hangs


@dataclass
class Outcome:
    plan: Plan
    complaints: list[str]
    detections: list[float] = field(default_factory=list)
    skipped: str = ""
    log: str = ""
    death_took_s: float = 0.0  # from the signal to the end of the process


class Run:
    def __init__(self, plan: Plan, worker: str, verbose: bool = False) -> None:
        self.plan = plan
        self.worker = worker
        self.verbose = verbose
        self.world = World()
        self.happened_ns: int | None = None
        self.hosts: Namespaces | None = None
        self.death_took_s = 0.0

    def execute(self) -> Outcome:
        if self.plan.scenario in NEEDS_NAMESPACES and not Namespaces.available():
            return Outcome(self.plan, [], skipped="needs root and iproute2 for network namespaces")
        folder = tempfile.mkdtemp(prefix="ferrule-chaos-")
        try:
            return self._execute(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _execute(self, folder: str) -> Outcome:
        plan, world = self.plan, self.world
        try:
            if plan.hosts:
                self.hosts = Namespaces(plan.seed)
            for number in range(plan.ranks):
                world.start(self._command(number, folder), self._environment(number))
            self._misfortune()
            ended = world.read_until(lambda: all(rank.finished() for rank in self._living()), END_LIMIT_S)
            complaints = [] if ended else self._hang()
            self._resume()
            world.let_go()
            gone = world.read_until(lambda: all(rank.ended for rank in world.ranks), 15)
            complaints += [] if gone or not ended else self._hang()
        finally:
            errors = world.end()
            if self.hosts is not None:
                self.hosts.remove()
        complaints += verdict.check(plan, world.ranks, self.happened_ns)
        complaints += self._orphans()
        seconds = [verdict.detection_seconds(rank, self.happened_ns) for rank in self._living()]
        is_death = plan.scenario.startswith("kill")
        return Outcome(
            plan,
            complaints,
            [s for s in seconds if s is not None and is_death],
            log=self._log(errors),
            death_took_s=self.death_took_s,
        )

    def _command(self, number: int, folder: str) -> list[str]:
        plan = self.plan
        place = f"file://{folder}/meet"
        command = [self.worker]
        for name, value in (
            ("--rank", number),
            ("--size", plan.ranks),
            ("--place", place),
            ("--seed", plan.seed),
            ("--steps", plan.steps),
            ("--timeout-ms", plan.timeout_ms),
        ):
            command += [name, str(value)]
        if plan.scenario in ("mismatch", "abort", "leave") and number == plan.victim:
            command += ["--own-step", str(plan.at_step), "--own-deed", plan.scenario]
        return self.hosts.command(plan.hosts[number], command) if self.hosts else command

    def _environment(self, number: int) -> dict[str, str]:
        environment = {"FERRULE_UCX_TLS": self.plan.path, "FERRULE_FAULT": self.plan.fault, "FERRULE_CHECKSUM": "1"}
        if self.hosts is not None:
            environment["FERRULE_SOCKET_IFNAME"] = self.hosts.interface(self.plan.hosts[number])
        return environment

    def _misfortune(self) -> None:
        plan = self.plan
        victim = self.world.ranks[plan.victim]
        deeds = {
            "kill_connecting": ("connecting", 1, self._kill),
            "kill_running": ("call", plan.at_step + 1, self._kill),
            "kill_remote": ("call", plan.at_step + 1, self._kill),
            "kill_closing": ("closing", 1, self._kill),
            "stop": ("call", plan.at_step + 1, self._stop),
            "pause": ("call", plan.at_step + 1, self._pause),
            "cut": ("call", plan.at_step + 1, self._cut),
        }
        if plan.scenario not in deeds:
            return
        event, times, deed = deeds[plan.scenario]
        self.world.read_until(lambda: victim.count(event) >= times or victim.finished(), END_LIMIT_S)
        if victim.process.poll() is None:
            time.sleep(plan.delay_s)
            deed(victim)

    def _kill(self, victim: Rank) -> None:
        self.happened_ns = time.monotonic_ns()
        victim.killed = True
        pidfd = os.pidfd_open(victim.pid)
        victim.send_signal(signal.SIGKILL)
        # A busy machine takes its time to end a process; nobody can know of a death before it has happened.
        select.select([pidfd], [], [], 10)
        self.death_took_s = (time.monotonic_ns() - self.happened_ns) / 1e9
        os.close(pidfd)

    def _stop(self, victim: Rank) -> None:
        self.happened_ns = time.monotonic_ns()
        victim.send_signal(signal.SIGSTOP)

    def _pause(self, victim: Rank) -> None:
        victim.send_signal(signal.SIGSTOP)
        time.sleep(self.plan.hold_s)
        victim.send_signal(signal.SIGCONT)

    def _cut(self, victim: Rank) -> None:
        self.happened_ns = time.monotonic_ns()
        self.hosts.cut(self.plan.hosts[victim.number])

    def _resume(self) -> None:
        if self.plan.scenario == "stop":
            self.world.ranks[self.plan.victim].send_signal(signal.SIGCONT)

    def _living(self) -> list[Rank]:
        """Those that must come to an end by themselves."""
        stopped = self.plan.victim if self.plan.scenario == "stop" and self.happened_ns else -1
        return [rank for rank in self.world.ranks if not rank.killed and rank.number != stopped]

    def _hang(self) -> list[str]:
        late = [rank for rank in self.world.ranks if not rank.killed and rank.process.poll() is None]
        text = "\n".join(stacks_of(rank) for rank in late)
        return [f"ranks {[rank.number for rank in late]} hang\n{text}"]

    def _orphans(self) -> list[str]:
        left = []
        for rank in self.world.ranks:
            try:
                os.killpg(rank.process.pid, 0)
                left.append(f"rank {rank.number} has left a process behind")
            except (ProcessLookupError, PermissionError):
                pass
        return left

    def _log(self, errors: dict[int, str]) -> str:
        start = min((rank.events[0].time_ns for rank in self.world.ranks if rank.events), default=0)
        lines = [] if self.happened_ns is None else [(self.happened_ns, f"--- {self.plan.scenario} ---")]
        for rank in self.world.ranks:
            lines += [(event.time_ns, f"rank {rank.number} {event.name} {event.rest}") for event in rank.events]
        text = [f"{(when - start) / 1e6:10.3f} ms {line}" for when, line in sorted(lines)]
        text += [f"stderr of rank {number}: {said}" for number, said in errors.items() if said]
        return "\n".join(text)
