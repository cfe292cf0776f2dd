"""Why a key cannot act now: a pure function of what is known of the run."""

from typing import Literal

import msgspec

from ..core.checklist import CHECK_NAMES
from ..core.events import PhaseId
from ..core.live import on_the_cpu
from ..core.phases import PHASE_BY_ID
from ..core.settings import MODES, Mode
from ..core.state import RunState
from .keys import MEASURING_VIEWS, PLAY_BINDINGS, SourceKind
from .views import ViewId, view_key

MODE_NEEDS: dict[Mode, PhaseId] = {"eager": "copy_kv", "dynamic": "prefill", "graph": "capture"}
"""The phase without which a mode cannot decode."""
_PLAY = tuple(binding.action.split("(")[0] for binding in PLAY_BINDINGS)
_COMMANDS = ("next_phase", "run_all", "pause", "mode", "try_capture", "break_input", "measure", "verify")
Experiment = Literal["sweep", "comparison", "checks", "other"]
_EXPERIMENTS: dict[str, Experiment] = {"run_sweep": "sweep", "run_bench": "comparison", "run_check": "checks"}
"""What carries out which command."""
_FROM_THE_START = ("next_phase", "run_all")
"""What a worker that is still starting does as soon as it is there."""
_RECORDED: dict[str, str] = {
    "try_capture": "recorded: live, this key attempts a capture on the DynamicCache",
    "break_input": "recorded: live, this key rebinds the graph's input",
    "measure": "recorded: live, this key measures",
    "verify": "recorded: live, this key verifies the graph again",
    "options": f"recorded: its settings stay; live: {on_the_cpu()}",
}
_NOTHING_TO_MEASURE = "m measures in the views cache lengths, batch sizes, compare and checks"
_COMMAND_WORDS: dict[str, str] = {
    "run_phase": "next phase",
    "run_all": "run all",
    "set_mode": "change of mode",
    "pause": "pause",
    "resume": "go on",
    "verify": "verification",
    "try_dynamic_capture": "capture on the DynamicCache",
    "break_input": "break it",
    "mend_input": "put it right",
    "run_sweep": "measurement",
    "run_bench": "comparison",
    "run_check": "checks",
    "cancel": "stop",
    "quit": "quit",
    "record": "recording",
}
"""What a person asked for, by the name that the engine has for it."""


class Facts(msgspec.Struct, frozen=True):
    """What decides whether a key can act."""

    state: RunState
    kind: SourceKind
    view: ViewId = "phases"


def refusal(action: str, facts: Facts) -> str | None:
    """Why an action (as in a binding, with its argument) cannot be done now, in one line; null when it can."""
    name, state = action.split("(")[0], facts.state
    if name == "details":
        return None if state.errors else "no error so far"
    if facts.kind == "recorded":
        if name == "mode":
            return f"recorded: the run switched modes itself; live, this key sets {mode_of(action)}"
        if name == "measure" and facts.view not in MEASURING_VIEWS:
            return _NOTHING_TO_MEASURE
        return _RECORDED.get(name)
    if name in _PLAY:
        return "only a recording can be sought, stepped and sped up; this is live"
    if name not in _COMMANDS:
        return None
    return _worker_refusal(name, state) or _command_refusal(action, name, facts)


def refusal_words(command: str, why: str) -> str:
    """`measurement: CUDA graphs need CUDA`: what the engine refused and why, without its names for commands."""
    asked = _COMMAND_WORDS.get(command)
    return f"{asked}: {why}" if asked is not None else why


def mode_of(action: str) -> Mode:
    """The mode that a `mode('…')` action names."""
    for mode in MODES:
        if mode in action:
            return mode
    raise ValueError(f"no decode mode in {action!r}")


def measuring(state: RunState) -> bool:
    """Whether a sweep, a comparison or another experiment runs."""
    status = state.status
    if status is None or status.state != "running" or state.end is not None:
        return False
    return status.experiment is not None or (status.phase is None and state.running_phase is None)


def experiment(state: RunState) -> Experiment | None:
    """Which experiment is under way, or, in recordings that do not tell, has shown something and has more to come."""
    status = state.status
    if status is not None and status.experiment is not None:
        return _EXPERIMENTS.get(status.experiment, "other")
    if any(sweep.begin is not None and sweep.end is None for sweep in state.sweeps.values()):
        return "sweep"
    made = {check.name for check in state.checks}
    if made and not made.issuperset(CHECK_NAMES):
        return "checks"
    if state.comparison is not None and not state.comparison.final:
        return "comparison"
    return None


def measured_in(state: RunState) -> ViewId | None:
    """The view of the sweep, comparison or checks that are under way, once it is known which."""
    match experiment(state) if measuring(state) else None:
        case "comparison":
            return "compare"
        case "checks":
            return "checks"
        case "sweep":
            begun = (kind for kind, sweep in state.sweeps.items() if sweep.begin is not None and sweep.end is None)
            return next(begun, None)
    return None


def is_rebound(state: RunState) -> bool:
    """Whether a demonstration has the graph's input rebound now."""
    shown = state.demonstration
    return shown is not None and shown.stage == "broken" and state.phase("release").status != "done"


def checking(state: RunState) -> bool:
    """Whether checks are under way, which run phases that are left as well."""
    busy = state.status is not None and state.status.state == "running" and state.end is None
    return busy and experiment(state) == "checks"


def verifying(state: RunState) -> bool:
    """Whether a graph is being verified, by itself or after its capture; the phase has ended by then."""
    status = state.status
    running = status is not None and (status.state, status.phase) == ("running", "capture")
    return running and state.running_phase is None and state.end is None and not measuring(state)


def releases(state: RunState) -> bool:
    """Whether the next phase is the release: whatever the run does, it could go on decoding."""
    return state.next_phase is not None and state.next_phase.id == "release"


def _worker_refusal(name: str, state: RunState) -> str | None:
    if state.end is not None:
        return "the worker has ended: R starts a new one"
    if state.hello is None and name not in _FROM_THE_START:
        return "the worker is still starting"
    if state.errors and not state.errors[-1].recoverable:
        return "this worker cannot go on after the error: R starts a new one"
    if state.phase("release").status == "done":
        return "everything was released: R starts anew, o with other settings"
    return None


def _command_refusal(action: str, name: str, facts: Facts) -> str | None:
    state = facts.state
    if name == "measure":
        return _measure_refusal(facts)
    if name == "pause":
        return _pause_refusal(state)
    if measuring(state):
        return "a measurement is running: m in its view stops it"
    running = state.running_phase
    if running is not None and running.id != "replay":
        return f"{PHASE_BY_ID[running.id].title} is still running"
    match name:
        case "mode":
            mode = mode_of(action)
            return _needs(state, MODE_NEEDS[mode], mode[0])
        case "try_capture":
            return _on_cpu(state, "t") or _needs(state, "copy_kv", "t")
        case "break_input":
            return _needs(state, "capture", "b")
        case "verify":
            return _needs(state, "capture", "v") or _verify_refusal(state)
    return _phase_refusal(action, state)


def _verify_refusal(state: RunState) -> str | None:
    if verifying(state):
        return "v: the graph is being verified"
    if state.hello is not None and not state.hello.settings.verify_steps:
        return "v: this run was started without verification (--verify-steps 0)"
    return None


def _phase_refusal(action: str, state: RunState) -> str | None:
    upcoming = state.next_phase
    if upcoming is None:
        return "all phases are done: R starts anew, o with other settings"
    if action == "run_all" and upcoming.id == "release":
        return "only release is left: n runs it"
    return None


def _pause_refusal(state: RunState) -> str | None:
    if state.status is not None and state.status.state in ("decoding", "paused"):
        return None
    return "nothing to pause: no decode is running (e, d or g starts one)"


def _measure_refusal(facts: Facts) -> str | None:
    if facts.view not in MEASURING_VIEWS:
        return _NOTHING_TO_MEASURE
    if measuring(facts.state):
        where = measured_in(facts.state)
        if where is None or where == facts.view:
            return None
        return f"view {view_key(where)} is measuring: m there stops it"
    running = facts.state.running_phase
    if running is not None and running.id != "replay":
        return f"{PHASE_BY_ID[running.id].title} is still running"
    if facts.view == "checks":
        return None  # they run what they need, and say what they cannot check
    if facts.view != "compare" and (why := _on_cpu(facts.state, "m")) is not None:
        return why
    needed: PhaseId = "copy_kv" if facts.view == "compare" else "load"
    return _needs(facts.state, needed, "m")


def _on_cpu(state: RunState, key: str) -> str | None:
    if _is_on_cpu(state):
        return f"{key}: capture needs CUDA; this run is on the CPU"
    return None


def why_no_capture(state: RunState) -> str:
    """Why nothing can be captured in this run, if that is known; else nothing."""
    capture = state.phase("capture")
    if capture.status == "unavailable":
        return capture.end.reason if capture.end is not None else ""
    return "capture needs CUDA; this run is on the CPU" if _is_on_cpu(state) else ""


def _is_on_cpu(state: RunState) -> bool:
    return state.hello is not None and state.hello.device.kind == "cpu"


def _needs(state: RunState, phase: PhaseId, key: str) -> str | None:
    """Why the phase that `key` needs is not there."""
    row, title = state.phase(phase), PHASE_BY_ID[phase].title
    if row.status == "done":
        return None
    if PHASE_BY_ID[phase].needs_cuda and (why := _on_cpu(state, key)) is not None:
        return why
    if row.status == "unavailable":
        return f"{key}: {phase}: {row.end.reason if row.end is not None and row.end.reason else 'not possible here'}"
    if row.status == "failed":
        again = state.next_phase is not None and state.next_phase.id == phase
        return f"{key}: {title} failed; {'n tries it again, ' if again else ''}R starts anew"
    word, space, rest = title.partition(" ")
    name = word if word[1:] != word[1:].lower() else word.lower()
    return f"{key}: {name}{space}{rest} first (n)"
