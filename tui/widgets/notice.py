"""The status line: what the engine does now, or for some seconds what a key said."""

import msgspec
from textual.content import Content

from ...core.events import Error, Status
from ...core.phases import PHASE_BY_ID
from ...core.state import RunState
from ..format import clean, size
from ..refusals import experiment, measuring, verifying
from .lines import LinesWidget, spread


class Recorded(msgspec.Struct, frozen=True):
    """Whether a live run is recorded: the file's name, or why it is not although it was asked for."""

    name: str = ""
    error: str = ""


class NoticeView(msgspec.Struct, frozen=True):
    """What the status line shows; a notice goes before the status."""

    status: str = ""
    notice: str = ""
    bad: bool = False
    recording: Recorded = Recorded()


class NoticeBar(LinesWidget[NoticeView]):
    """The status line."""

    def draw(self, view: NoticeView, width: int, height: int) -> list[Content]:
        """As `render_notice` says."""
        return render_notice(view, width)


def render_notice(view: NoticeView, width: int) -> list[Content]:
    """One line; whether the run is recorded stands at its end."""
    if view.notice:
        return [Content.styled(f" {view.notice}", "bold $text-warning" if view.bad else "bold $text-accent")]
    recording, status = view.recording, Content.styled(f" {view.status}", "$muted")
    if recording.error:
        return [spread(status, Content.styled(f"not recorded: {clean(recording.error)} ", "bold $text-warning"), width)]
    if recording.name:
        return [spread(status, Content.assemble(("◉ ", "$text-error"), f"to {clean(recording.name)} "), width)]
    return [status]


def status_text(state: RunState, *, recorded: bool, error: Error | None = None) -> str:
    """What the engine does, in words, and what comes next; an `error` that no panel shows goes before it."""
    if error is not None:
        return f"✗ {clean(error.headline)} (x: in full, escape: close)"
    if state.end is not None:
        what = (
            "the recording ends here" if recorded else "the worker has ended: R starts a new one, o with other settings"
        )
        return f"{what} ({clean(state.end.reason)})" if state.end.reason else what
    row, status = state.running_phase, state.status
    if status is not None and status.state in ("decoding", "paused") and status.mode is not None:
        text = f"{status.state} · {status.mode}"
    elif row is not None:
        text = f"running {PHASE_BY_ID[row.id].title}"
        if row.progress is not None and row.progress.what:
            text += f": {clean(row.progress.what)}"
    elif status is not None:
        text = {
            "idle": "the run was idle here" if recorded else "waiting",
            "running": _work(state, recorded=recorded),
        }.get(status.state, status.state)
    else:
        return "waiting for the first event" if recorded else "starting"
    upcoming = state.next_phase
    if upcoming is None and not recorded:
        text += " · R starts anew, o with other settings"
    elif upcoming is not None and not recorded and not measuring(state):
        text += f" · next: {PHASE_BY_ID[upcoming.id].title} (n)"
    return text + _taint(status)


def _work(state: RunState, *, recorded: bool) -> str:
    """What goes on while no phase runs."""
    if verifying(state):
        return "verifying the graph: replays against eager steps"
    if not measuring(state):
        return "working"
    stoppable = experiment(state) in ("sweep", "comparison", "checks") and not recorded
    return "measuring · m in its view stops it" if stoppable else "measuring"


def _taint(status: Status | None) -> str:
    if status is None or not status.tainted_bytes:
        return ""
    return f" · {size(status.tainted_bytes)} leaked by a failed capture: R gives them back"
