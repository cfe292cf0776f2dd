"""The guide's three warmups: whether they leave anything for the capture to do, and whether it must be three."""

from ..plurals import counted
from ..state import RunState
from .evidence import Evidence, Finding, change, done, items_of, judged, listed, mib, not_measured, part
from .statement import Statement

LAZY = ("workspace", "modules loaded lazily", "unexplained")
"""What a capture or replay shows of an initialisation that came too late."""


def _enough(seen: Evidence) -> Finding:
    run = seen.runs_with_warmup().get(3)
    if run is None:
        return not_measured("no run with three warmups that came to a capture")
    late = late_initialisation(seen.use(run))
    if late is None:
        return Finding("does_not_hold", "After three warmups the capture failed.")
    replay = done(run, "replay")
    if replay is None:
        return not_measured("no replay phase that has ended after three warmups")
    grown = abs(change(replay, "reserved") or 0) + abs(change(replay, "driver") or 0)
    holds = not late and grown == 0
    found = listed(late) if late else "nothing that should have come before"
    return judged(
        holds, f"After three warmups the capture initialised {found}, and replays changed memory by {mib(grown)}."
    )


def _three(seen: Evidence) -> Finding:
    runs = seen.runs_with_warmup()
    fewer = {steps: run for steps, run in runs.items() if steps < 3}
    if 3 not in runs or not fewer:
        known = ", ".join(str(steps) for steps in sorted(runs)) or "none"
        return not_measured(f"it takes runs with 3 and with fewer warmups; there are runs with {known}")
    told = {steps: _told(seen.use(run)) for steps, run in sorted(runs.items()) if steps <= 3}
    sentence = "; ".join(f"{counted(steps, 'warmup')}: {what}" for steps, what in told.items())
    sufficient = [steps for steps, run in fewer.items() if late_initialisation(run) == {}]
    if not sufficient:
        return judged(late_initialisation(runs[3]) == {}, f"{sentence[0].upper()}{sentence[1:]}.")
    least = min(sufficient)
    why = "the prompt and the provoked workspace had initialised everything" if least == 0 else "one was enough"
    return Finding("other_reason", f"{sentence[0].upper()}{sentence[1:]}: {why}.")


def late_initialisation(run: RunState) -> dict[str, int] | None:
    """What the capture of a run had to initialise; null where it failed."""
    end = done(run, "capture")
    if end is None:
        return None
    found: dict[str, int] = {}
    for items in (items_of(end, "requested"), items_of(end, "driver")):
        found |= {name: size for name, size in items.items() if part({name: size}, *LAZY)}
    return found


def _told(run: RunState) -> str:
    late = late_initialisation(run)
    if late is None:
        return "the capture failed"
    return f"the capture initialised {listed(late)}" if late else "nothing was left to initialise"


STATEMENTS = (
    Statement("warmup.enough", "After three warmups all lazy initialisation is done.", _enough),
    Statement("warmup.three", "Three warmups are what it takes.", _three),
)
