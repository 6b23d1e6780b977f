"""What one run does, drawn from its seed: who takes part, over what, and what goes wrong when."""

import random
from dataclasses import dataclass, field


@dataclass
class Plan:
    seed: int
    scenario: str
    ranks: int
    path: str  # FERRULE_UCX_TLS: "shm", "tcp" or "" (UCX's choice)
    steps: int
    victim: int
    at_step: int  # the step at which it happens, counted in calls of the victim
    delay_s: float  # ... and how long after that
    hold_s: float = 0.0  # how long a pause lasts
    hosts: list[int] = field(default_factory=list)  # rank -> network namespace; empty: this one
    fault: str = ""  # FERRULE_FAULT
    timeout_ms: int = 10_000

    def describe(self) -> str:
        text = f"seed {self.seed}: {self.scenario}, {self.ranks} ranks over {self.path or 'auto'}, rank {self.victim}"
        if self.hosts:
            text += f", hosts {self.hosts}"
        if self.fault:
            text += f", fault '{self.fault}'"
        return text + f", call {self.at_step} + {self.delay_s * 1e3:.2f} ms"


# How often each is drawn, of 100. What is named is what can be searched for in this folder.
WEIGHTS = {
    "calm": 3,
    "kill_connecting": 14,
    "kill_running": 26,
    "kill_closing": 6,
    "stop": 5,  # SIGSTOP for good: a rank that is silent
    "pause": 5,  # SIGSTOP for a moment: no error
    "drop": 4,
    "delay": 4,
    "corrupt_header": 3,
    "corrupt_payload": 4,
    "truncate": 3,
    "mismatch": 5,
    "abort": 4,
    "leave": 4,
    "kill_remote": 5,  # the victim is on another host (a network namespace)
    "cut": 5,  # its host's interface goes down
}
NEEDS_NAMESPACES = ("kill_remote", "cut")
# A short limit makes these quick. Where no timeout is to be expected, a busy machine shall not cause one.
ENDS_BY_TIMEOUT = ("stop", "drop", "cut")
FAULTS = ("drop", "delay", "corrupt_header", "corrupt_payload", "truncate")


def make_plan(seed: int, only: str = "") -> Plan:
    draw = random.Random(seed)
    scenario = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    scenario = only or scenario
    ranks = draw.choice((2, 2, 3, 3, 4, 5, 6))
    plan = Plan(
        seed=seed,
        scenario=scenario,
        ranks=ranks,
        path=draw.choice(("shm", "tcp", "")),
        steps=draw.randint(6, 14),
        victim=draw.randrange(ranks),
        at_step=0,
        delay_s=draw.choice((0.0, draw.uniform(0, 0.002), draw.uniform(0, 0.01))),
    )
    plan.at_step = draw.randrange(plan.steps)
    plan.hold_s = draw.uniform(0.05, 0.5)
    if scenario == "kill_connecting":
        plan.delay_s = draw.uniform(0, 0.25)
    if scenario in FAULTS:
        plan.fault = f"{scenario}:nth={draw.randint(1, 30)},rank={plan.victim}"
        plan.fault += f",seed={seed}" if scenario == "corrupt_payload" else ""
        plan.fault += f",ms={draw.randint(5, 200)}" if scenario == "delay" else ""
        plan.steps = max(plan.steps, 12)
    if scenario in ENDS_BY_TIMEOUT:
        plan.timeout_ms = 3000
    if scenario in NEEDS_NAMESPACES:
        plan.path = "tcp" if plan.path == "shm" else plan.path
        first = draw.randint(1, ranks - 1)
        plan.hosts = [0 if rank < first else 1 for rank in range(ranks)]
        # Whoever is cut off is on the host of the victim.
    return plan
