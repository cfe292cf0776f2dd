"""The phases, each with its state and what it did to the guide's counter."""

import msgspec
from textual.content import Content
from textual.events import Click, Resize
from textual.message import Message

from ...core.events import CounterName, PhaseEnd, PhaseId
from ...core.phases import PHASE_BY_ID
from ...core.state import PhaseState, PhaseStatus, RunState
from ..format import NA, delta_mib
from .lines import LinesWidget

GLYPHS: dict[PhaseStatus, str] = {"pending": "·", "running": "▶", "done": "✓", "unavailable": "–", "failed": "✗"}
STYLES: dict[PhaseStatus, str] = {
    "pending": "$muted",
    "running": "bold $text-accent",
    "done": "$text-success",
    "unavailable": "$muted",
    "failed": "bold $text-error",
}


class PhasesView(msgspec.Struct, frozen=True):
    """What the phase list and the phase table show. `t` moves while a phase runs, for its clock."""

    phases: tuple[PhaseState, ...] = RunState().phases
    selected: PhaseId | None = None
    t: float | None = None


class PhaseList(LinesWidget[PhasesView]):
    """The phase list panel."""

    BORDER_TITLE = "Phases, Δ MiB"

    class Chosen(Message):
        """A phase was chosen with the mouse."""

        def __init__(self, phase: PhaseId) -> None:
            super().__init__()
            self.phase: PhaseId = phase

    def draw(self, view: PhasesView, width: int, height: int) -> list[Content]:
        """As `render_strip` says."""
        if height < len(view.phases):
            return render_strip(view, width)
        return render_list(view, width, height)

    def show(self, view: PhasesView) -> None:
        """As ever; the title names the counter where it is not the guide's."""
        super().show(view)
        self._entitle()

    def on_resize(self, event: Resize) -> None:
        """The counter in full where there is room for it."""
        super().on_resize(event)
        self._entitle()

    def _entitle(self) -> None:
        title = list_title(self.view.phases, self.size.width)
        if title != self.border_title:
            self.border_title = title

    def on_click(self, event: Click) -> None:
        """A click on a row chooses it."""
        place = event.get_content_offset(self)
        if place is not None and self.size.height >= len(self.view.phases) and place.y < len(self.view.phases):
            self.post_message(self.Chosen(self.view.phases[place.y].id))


def list_counter(phases: tuple[PhaseState, ...]) -> CounterName:
    """The counter of the list: the guide's, or requested where a run has no allocated at all, as on a CPU."""
    ends = [row.end for row in phases if row.end is not None and row.status == "done"]
    without = all(end.after.allocated is None for end in ends)
    return "requested" if ends and without and any(end.after.requested is not None for end in ends) else "allocated"


def list_title(phases: tuple[PhaseState, ...], width: int) -> str:
    """The panel's title, with counter and unit of its figures, for `width` cells."""
    counter = list_counter(phases)
    short = {"allocated": "alloc.", "requested": "req."}
    return f"Phases, Δ {counter if width >= 25 else short[counter]} MiB"


def counter_delta(end: PhaseEnd | None, counter: CounterName) -> int | None:
    """Δ of a counter over a phase, bytes, or null where one end is not known."""
    if end is None:
        return None
    before, after = getattr(end.before, counter), getattr(end.after, counter)
    return None if before is None or after is None else after - before


def row_figure(row: PhaseState, t: float | None, counter: CounterName = "allocated") -> str:
    """The figure beside a phase: Δ when done, progress or seconds while it runs, a word where it has neither."""
    if row.status == "running":
        if row.progress is not None and row.progress.total:
            return f"{100 * row.progress.done // row.progress.total} %"
        return f"{max(0.0, t - row.began):.0f} s" if t is not None and row.began is not None else "…"
    if row.status == "failed":
        return "failed"
    if row.status == "unavailable":
        return NA
    if row.status == "pending":
        return ""
    return delta_mib(counter_delta(row.end, counter))


def render_list(view: PhasesView, width: int, height: int) -> list[Content]:
    """One line a phase: `✓ static cache    +144.0`."""
    return [_row(row, view, width) for row in view.phases][:height]


def _row(row: PhaseState, view: PhasesView, width: int) -> Content:
    figure = row_figure(row, view.t, list_counter(view.phases))
    name = PHASE_BY_ID[row.id].short
    style = STYLES[row.status]
    room = width - 3 - len(figure)
    if len(name) > room:
        name = name[: max(0, room - 1)] + "…" if room > 1 else ""
    text = Content.assemble(
        (f"{GLYPHS[row.status]} ", style),
        (name, "bold" if row.status == "running" else "$muted" if row.status == "pending" else ""),
        " " * max(1, width - 2 - len(name) - len(figure)),
        (figure, "bold" if row.status in ("done", "running") else style),
    )
    return text.stylize("reverse") if row.id == view.selected else text


def render_strip(view: PhasesView, width: int) -> list[Content]:
    """For a few lines only: all glyphs in a row, and the phase that matters now."""
    shown = shown_row(view)
    glyphs = [(GLYPHS[row.status], STYLES[row.status]) for row in view.phases]
    figure = row_figure(shown, view.t, list_counter(view.phases))
    unit = " MiB" if shown.status == "done" and figure != NA and not figure.endswith("B") else ""
    done = sum(row.status == "done" for row in view.phases)
    return [
        Content.assemble(*glyphs, "  ", (PHASE_BY_ID[shown.id].short, "bold"), f" {figure}{unit}"),
        Content.styled(f"{done} of {len(view.phases)} phases done", "$muted"),
    ]


def shown_row(view: PhasesView) -> PhaseState:
    """The selected phase, else the running one, else the last that ended, else the first."""
    if view.selected is not None:
        return next(row for row in view.phases if row.id == view.selected)
    running = [row for row in view.phases if row.status == "running"]
    ended = [row for row in view.phases if row.status != "pending"]
    return (running or ended[-1:] or list(view.phases[:1]))[0]
