"""What must be true after a run: the promises of docs/fault_tolerance.md, scenario by scenario."""

import re

from plan import Plan
from process import Rank

# A rank that is told of a death has this long; the goal is a second, the limit leaves room for a busy machine.
DETECTION_LIMIT_S = 3.0
GRACE_MS = 1500  # beyond a collective's own timeout


def check(plan: Plan, ranks: list[Rank], happened_ns: int | None) -> list[str]:
    """Complaints; none: all promises were kept."""
    complaints = []
    for rank in ranks:
        complaints += _check_rank(plan, rank, ranks, happened_ns)
    return complaints


def detection_seconds(rank: Rank, happened_ns: int | None) -> float | None:
    """From the death, or from the first call after it, to the error; None where that is no death's error."""
    failed = rank.first("failed") or rank.first("unconnected")
    if failed is None or happened_ns is None or not failed.rest.startswith("peer_lost"):
        return None
    began = [event.time_ns for event in rank.events if event.name == "call" and event.time_ns < failed.time_ns]
    return max(0, failed.time_ns - max([happened_ns, *began[-1:]])) / 1e9


def _check_rank(plan: Plan, rank: Rank, ranks: list[Rank], happened_ns: int | None) -> list[str]:
    who = f"rank {rank.number}"
    complaints = [f"{who}: {event.rest}" for event in rank.events if event.name == "wrong"]
    if rank.killed:
        return complaints
    code = rank.process.returncode
    if code != 0:
        complaints.append(f"{who} ended with {code}")
    failed = rank.first("failed") or rank.first("unconnected")
    check_of = {
        "kill_connecting": _names_the_dead,
        "kill_running": _names_the_dead,
        "kill_remote": _names_the_dead,
        "kill_closing": _names_the_dead,
        "stop": _times_out,
        "cut": _times_out,
        "mismatch": _disagrees,
    }.get(plan.scenario)
    if check_of is not None:
        complaints += check_of(plan, rank, ranks, failed, happened_ns)
    elif failed is not None:
        allowed = _allowed_codes(plan)
        if failed.rest.split(" ")[0] not in allowed:
            complaints.append(f"{who}: '{failed.rest}', expected one of {allowed}")
    complaints += _failure_is_lasting(rank)
    return complaints


def _allowed_codes(plan: Plan) -> tuple[str, ...]:
    return {
        "drop": ("timeout",),
        "corrupt_header": ("corrupt",),
        "corrupt_payload": ("corrupt",),
        "truncate": ("corrupt", "mismatch"),
        "abort": ("aborted",),
        "leave": ("peer_lost",),
    }.get(plan.scenario, ())


def _failure_is_lasting(rank: Rank) -> list[str]:
    """The next call after a failure says the same at once."""
    failed, after = rank.last("failed"), rank.first("next")
    if failed is None or after is None:
        return []
    calls = [event for event in rank.events if event.name == "call"]
    complaints = []
    if failed.rest.split(" ")[0] != after.rest.split(" ")[0]:
        complaints.append(f"rank {rank.number}: first '{failed.rest}', then '{after.rest}'")
    if (after.time_ns - calls[-1].time_ns) / 1e9 > 0.5:
        complaints.append(f"rank {rank.number}: the call after the failure took its time")
    return complaints


def _names_the_dead(plan, rank, ranks, failed, happened_ns) -> list[str]:
    who = f"rank {rank.number}"
    if happened_ns is None or failed is None:
        return []  # it needed nothing of the dead; a hang or a missing end is seen elsewhere
    victim = ranks[plan.victim]
    early = (rf"rank.* {plan.victim}\b.* did not arrive within", r"did not arrive within", "rank 0 did not come to")
    if rank.first("unconnected") and any(re.search(text, failed.rest) for text in early[0 if plan.victim else 1 :]):
        return []  # the others had never heard of it: it died before it had said who it is
    name = re.compile(rf"rank {plan.victim} \(host [^)]*, pid {victim.pid}\)")
    complaints = []
    if not failed.rest.startswith("peer_lost") or not name.search(failed.rest):
        complaints.append(f"{who}: '{failed.rest}' does not name rank {plan.victim}, pid {victim.pid}, as lost")
    if failed.name == "failed" and not re.search(r"all_reduce #\d+", failed.rest):
        complaints.append(f"{who}: '{failed.rest}' does not name the collective")
    seconds = detection_seconds(rank, happened_ns)
    if seconds is not None and seconds > DETECTION_LIMIT_S:
        complaints.append(f"{who} noticed the death after {seconds:.2f} s")
    return complaints


def _times_out(plan, rank, ranks, failed, happened_ns) -> list[str]:
    """Whoever waits for a silent rank says so by its deadline; the silent one itself ends with any error."""
    if happened_ns is None or failed is None:
        return []
    who = f"rank {rank.number}"
    silent = [r.number for r in ranks if _is_silent(plan, r.number)]
    if rank.number in silent and plan.scenario == "stop":
        return []
    other_side = [r.number for r in ranks if (r.number in silent) != (rank.number in silent)]
    complaints = []
    if not failed.rest.startswith("timeout"):
        complaints.append(f"{who}: '{failed.rest}', expected a timeout")
    elif not any(f"rank {number} (host" in failed.rest for number in other_side):
        complaints.append(f"{who}: '{failed.rest}' names none of the ranks {other_side}, which are silent")
    began = [event.time_ns for event in rank.events if event.name == "call" and event.time_ns < failed.time_ns]
    waited_ms = (failed.time_ns - max(began[-1:], default=failed.time_ns)) / 1e6
    if waited_ms > 2 * plan.timeout_ms + GRACE_MS:
        complaints.append(f"{who}: timed out after {waited_ms:.0f} ms, the limit was {plan.timeout_ms}")
    return complaints


def _is_silent(plan: Plan, number: int) -> bool:
    return plan.hosts[number] == plan.hosts[plan.victim] if plan.hosts else number == plan.victim


def _disagrees(plan, rank, ranks, failed, happened_ns) -> list[str]:
    if failed is None:
        return [f"rank {rank.number} has not noticed that rank {plan.victim} passed another count"]
    text = failed.rest
    if not text.startswith("mismatch") or "count is" not in text or " but " not in text:
        return [f"rank {rank.number}: '{text}' does not have both counts"]
    if rank.count("failed") != 1 or rank.first("closed") is None:
        return [f"rank {rank.number} did not go on after the disagreement"]
    return []
