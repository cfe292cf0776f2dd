"""The status line: what the engine does now, or for some seconds what a key said."""

import msgspec
from textual.content import Content

from ...core.events import Status
from ...core.phases import PHASE_BY_ID
from ...core.state import RunState
from ..format import clean, size
from .lines import LinesWidget


class NoticeView(msgspec.Struct, frozen=True):
    """What the status line shows; a notice goes before the status."""

    status: str = ""
    notice: str = ""
    bad: bool = False


class NoticeBar(LinesWidget[NoticeView]):
    """The status line."""

    def draw(self, view: NoticeView, width: int, height: int) -> list[Content]:
        """As `render_notice` says."""
        return render_notice(view, width)


def render_notice(view: NoticeView, width: int) -> list[Content]:
    """One line."""
    if view.notice:
        return [Content.styled(f" {view.notice}", "bold $text-warning" if view.bad else "bold $text-accent")]
    return [Content.styled(f" {view.status}", "$muted")]


def status_text(state: RunState, *, recorded: bool) -> str:
    """What the engine does, in words, and what comes next."""
    if state.end is not None:
        what = "the recording ends here" if recorded else "the worker has ended: R starts a new one"
        return f"{what} ({clean(state.end.reason)})" if state.end.reason else what
    row, status = state.running_phase, state.status
    if status is not None and status.state in ("decoding", "paused") and status.mode is not None:
        text = f"{status.state} · {status.mode}"
    elif row is not None:
        text = f"running {PHASE_BY_ID[row.id].title}"
        if row.progress is not None and row.progress.what:
            text += f": {clean(row.progress.what)}"
    elif status is not None:
        text = {"idle": "waiting", "running": "working"}.get(status.state, status.state)
    else:
        return "waiting for the first event" if recorded else "starting"
    upcoming = state.next_phase
    if upcoming is not None and not recorded:
        text += f" · next: {PHASE_BY_ID[upcoming.id].title} (n)"
    return text + _taint(status)


def _taint(status: Status | None) -> str:
    if status is None or not status.tainted_bytes:
        return ""
    return f" · {size(status.tainted_bytes)} leaked by a failed capture: R gives them back"
