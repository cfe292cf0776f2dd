"""The place in a recording: a bar of its whole length with the places where a step stops."""

import msgspec
from textual.content import Content
from textual.events import Click
from textual.message import Message

from ..format import clock
from .lines import LinesWidget

DONE, LEFT, STOP, HERE = "━", "─", "┿", "●"


class SeekView(msgspec.Struct, frozen=True):
    """What the bar shows. Seconds; `place` moves in steps, so that a bar that looks the same is the same."""

    place: float = 0.0
    duration: float = 0.0
    playing: bool = False
    speed: float = 1.0
    stops: tuple[float, ...] = ()
    """Where a step stops."""


class SeekBar(LinesWidget[SeekView]):
    """The bar."""

    class Sought(Message):
        """A place was chosen with the mouse, in seconds."""

        def __init__(self, place: float) -> None:
            super().__init__()
            self.place = place

    def draw(self, view: SeekView, width: int, height: int) -> list[Content]:
        """As `render_seek` says."""
        return render_seek(view, width)

    def on_click(self, event: Click) -> None:
        """A click on the bar goes there."""
        start, room = _bar_place(self.view, self.size.width)
        if room > 1 and start <= event.x < start + room:
            self.post_message(self.Sought(self.view.duration * (event.x - start) / (room - 1)))


def place_time(t: float, duration: float) -> str:
    """`0:12`; in a recording of less than two seconds `0.62 s`."""
    return f"{t:.2f} s" if 0 < duration < 2 else clock(t)


def render_seek(view: SeekView, width: int) -> list[Content]:
    """` ▶ 0:12 ━━━━●──┿─── 3:20 ×1 `; times and bar give way as it narrows."""
    room = _bar_place(view, width)[1]
    before, after = _before(view), _after(view)
    if room < 4:
        return [Content(before.strip()).truncate(width)]
    here = _cell(view.place, view, room)
    marks = {_cell(stop, view, room) for stop in view.stops}
    cells = [STOP if cell in marks else DONE if cell < here else LEFT for cell in range(room)]
    return [
        Content.assemble(
            (before, "bold"),
            ("".join(cells[:here]), "$text-accent"),
            (HERE, "bold $text-accent"),
            ("".join(cells[here + 1 :]), "$muted"),
            (after, "$muted"),
        )
    ]


def _before(view: SeekView) -> str:
    return f" {'▶' if view.playing else '‖'} {place_time(view.place, view.duration)} "


def _after(view: SeekView) -> str:
    return f" {place_time(view.duration, view.duration)} ×{view.speed:g} "


def _bar_place(view: SeekView, width: int) -> tuple[int, int]:
    """First cell and number of cells of the bar."""
    start = len(_before(view))
    return start, width - start - len(_after(view))


def _cell(t: float, view: SeekView, room: int) -> int:
    return min(room - 1, max(0, round((room - 1) * t / view.duration))) if view.duration > 0 else 0
