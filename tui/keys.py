"""The keys, and why one cannot act now: a pure function of what is known of the run."""

from typing import Literal

import msgspec
from textual.binding import Binding

from ..core.events import PhaseId
from ..core.phases import PHASE_BY_ID
from ..core.settings import MODES, Mode
from ..core.state import RunState

SourceKind = Literal["live", "recorded"]
MODE_NEEDS: dict[Mode, PhaseId] = {"eager": "copy_kv", "dynamic": "prefill", "graph": "capture"}
"""The phase without which a mode cannot decode."""

RUN_BINDINGS: list[Binding] = [
    Binding("n", "next_phase", "next", id="cgtop.next", tooltip="Run the next phase; in a recording, go to it"),
    Binding("r", "run_all", "run all", id="cgtop.run_all", tooltip="Run all phases that are left, up to replay"),
    Binding("e", "mode('eager')", "eager", id="cgtop.eager", tooltip="Decode eagerly on the StaticCache"),
    Binding("d", "mode('dynamic')", "dynamic", id="cgtop.dynamic", tooltip="Decode eagerly on a DynamicCache"),
    Binding("g", "mode('graph')", "graph", id="cgtop.graph", tooltip="Decode by replaying the graph"),
    Binding("space", "pause", "pause", id="cgtop.pause", tooltip="Pause between two steps, or go on"),
    Binding("R", "restart", "restart", id="cgtop.restart", tooltip="Release everything and start anew; asks first"),
    Binding("left_square_bracket", "seek(-5)", "back", show=False, key_display="[", id="cgtop.back",
            tooltip="Five seconds back in a recording"),
    Binding("right_square_bracket", "seek(5)", "forward", show=False, key_display="]", id="cgtop.forward",
            tooltip="Five seconds forward in a recording"),
    Binding("up", "select(-1)", "phase up", show=False, id="cgtop.up", tooltip="Explain the phase above"),
    Binding("down", "select(1)", "phase down", show=False, id="cgtop.down", tooltip="Explain the phase below"),
    Binding("enter", "open", "open", show=False, id="cgtop.open", tooltip="Open the phase: what each Δ is made of"),
    Binding("x", "details", "error details", show=False, id="cgtop.details", tooltip="The last error in full"),
    Binding("escape", "close", "close", show=False, id="cgtop.close", tooltip="Close the error, follow the run again"),
    Binding("l", "log", "log", id="cgtop.log", tooltip="What the worker and its libraries printed"),
    Binding("s", "save", "save", id="cgtop.save", tooltip="Save the screen as SVG in the working directory"),
    Binding("plus,equals_sign", "refresh_rate(1)", "faster", show=False, key_display="+", id="cgtop.faster",
            tooltip="Redraw more often, at most 10 times a second"),
    Binding("minus", "refresh_rate(-1)", "slower", show=False, key_display="-", id="cgtop.slower",
            tooltip="Redraw less often"),
]  # fmt: skip
APP_BINDINGS: list[Binding] = [
    Binding("question_mark,h,f1", "help", "help", key_display="?", id="cgtop.help", tooltip="This help"),
    Binding("q", "leave", "quit", id="cgtop.quit", tooltip="Quit at once"),
    Binding("ctrl+c", "leave", "quit", show=False, priority=True, id="cgtop.interrupt", tooltip="Quit at once"),
    Binding("ctrl+z", "suspend_process", "suspend", show=False, id="cgtop.suspend", tooltip="To the shell; fg returns"),
]  # fmt: skip


class Facts(msgspec.Struct, frozen=True):
    """What decides whether a key can act."""

    state: RunState
    kind: SourceKind


def refusal(action: str, facts: Facts) -> str | None:
    """Why an action (as in a binding, with its argument) cannot be done now, in one line; null when it can."""
    if facts.kind == "recorded":
        return _recorded_refusal(action, facts.state)
    state = facts.state
    if action.startswith("seek"):
        return "only a recording can be sought; this is live"
    if action == "details":
        return None if state.errors else "no error so far"
    if action not in ("next_phase", "run_all", "pause") and not action.startswith("mode"):
        return None
    if state.end is not None:
        return "the worker has ended: R starts a new one"
    if state.hello is None:
        return "the worker is still starting"
    if state.errors and not state.errors[-1].recoverable:
        return "this worker cannot go on after the error: R starts a new one"
    if state.phase("release").status == "done":
        return "everything was released: R starts anew"
    if action in ("next_phase", "run_all"):
        return _phase_refusal(action, state)
    return _pause_refusal(state) if action == "pause" else _mode_refusal(action, state)


def mode_of(action: str) -> Mode:
    """The mode that a `mode('…')` action names."""
    for mode in MODES:
        if mode in action:
            return mode
    raise ValueError(f"no decode mode in {action!r}")


def _recorded_refusal(action: str, state: RunState) -> str | None:
    if action.startswith("mode"):
        return f"recorded: the run switched modes itself; live, this key decodes in mode {mode_of(action)}"
    if action == "details":
        return None if state.errors else "no error up to here"
    return None


def _phase_refusal(action: str, state: RunState) -> str | None:
    running = state.running_phase
    if running is not None and running.id != "replay":
        return f"{PHASE_BY_ID[running.id].title} is still running"
    upcoming = state.next_phase
    if upcoming is None:
        return "all phases are done: R starts anew"
    if action == "run_all" and upcoming.id == "release":
        return "only release is left: n runs it"
    return None


def _pause_refusal(state: RunState) -> str | None:
    if state.status is not None and state.status.state in ("decoding", "paused"):
        return None
    return "nothing to pause: no decode is running (e, d or g starts one)"


def _mode_refusal(action: str, state: RunState) -> str | None:
    mode = mode_of(action)
    running = state.running_phase
    if running is not None and running.id != "replay":
        return f"{PHASE_BY_ID[running.id].title} is still running"
    row = state.phase(MODE_NEEDS[mode])
    if row.status == "done":
        return None
    key = mode[0]
    if row.status == "unavailable":
        on_cpu = state.hello is not None and state.hello.device.kind == "cpu"
        why = row.end.reason if row.end is not None and row.end.reason else "not possible here"
        return f"{key}: capture needs CUDA; this run is on the CPU" if on_cpu else f"{key}: {row.id}: {why}"
    if row.status == "failed":
        return f"{key}: {PHASE_BY_ID[row.id].title} failed; R starts anew"
    if mode == "graph" and state.hello is not None and state.hello.device.kind == "cpu":
        return "g: capture needs CUDA; this run is on the CPU"
    return f"{key}: {PHASE_BY_ID[row.id].title.lower()} first (n)"
