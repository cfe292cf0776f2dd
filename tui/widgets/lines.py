"""The base of every panel: it is shown a value, and redraws those lines that came out different."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from textual.app import RenderResult
from textual.content import Content
from textual.events import Resize
from textual.geometry import Region
from textual.widget import Widget

View = TypeVar("View")


LATER = "It comes later in this recording: n goes on, stop by stop."
"""In a view that a recording fills, before it does."""


class LinesWidget(Widget, Generic[View]):
    """Draws a `View`, a frozen value, as lines of text.

    A subclass says in `draw` what the lines are, by a pure function of the view and the size. An equal view costs a
    comparison; a different one repaints the lines that changed and no others.
    """

    def __init__(self, view: View, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view = view
        self.draws = 0
        """How often the lines were computed."""
        self._lines: tuple[Content, ...] = ()
        self._drawn: tuple[View, tuple[int, int]] | None = None

    def draw(self, view: View, width: int, height: int) -> Sequence[Content]:
        """The lines for a size in cells; more than `height` are cut off."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Draw this value from now on."""
        if view == self.view:
            return
        self.view = view
        width, height = self.size
        if not width or not height:
            return
        before = self._lines
        after = self._draw_now()
        changed = [
            Region(0, y, width, 1)
            for y in range(max(len(before), len(after)))
            if y >= len(before) or y >= len(after) or not before[y].is_same(after[y])
        ]
        if changed:
            self.refresh(*changed)

    def redraw(self) -> None:
        """Draw again, for a change of something that is not in the view."""
        self._drawn = None
        self.refresh()

    def render(self) -> RenderResult:
        """All lines; Textual paints those marked as changed."""
        if self._drawn != (self.view, self.size):
            self._draw_now()
        return Content("\n").join(self._lines)

    def on_resize(self, event: Resize) -> None:
        """Nothing of the old size is kept."""
        self.redraw()

    def _draw_now(self) -> tuple[Content, ...]:
        width, height = self.size
        self.draws += 1
        lines = tuple(self.draw(self.view, width, height))[:height] if width and height else ()
        self._lines = tuple(line.truncate(width, ellipsis=True) for line in lines)
        self._drawn = (self.view, self.size)
        return self._lines


def around(lines: Sequence[Content], place: int, room: int) -> list[Content]:
    """As many lines as fit, with the one at `place` among them."""
    first = max(0, min(place - room // 2, len(lines) - room))
    return list(lines[first : first + max(0, room)])


def spread(left: Content, right: Content, width: int) -> Content:
    """One line with `left` at its start and `right` at its end; `left` gives way where both do not fit."""
    right = right.truncate(width)
    room = width - right.cell_length
    if room < 2:
        return right
    left = left.truncate(room - 1, ellipsis=True)
    return Content.assemble(left, " " * (room - left.cell_length), right)


def wrapped(paragraphs: Sequence[Content], width: int, height: int) -> list[Content]:
    """Paragraphs wrapped at words; where they do not fit, the last line that does ends in an ellipsis."""
    if width < 1 or height < 1:
        return []
    lines = [line.rstrip() for paragraph in paragraphs for line in paragraph.wrap(width)]
    if len(lines) <= height:
        return lines
    last = Content.assemble(_at_a_word(lines[height - 1], width - 2), " …")
    return [*lines[: height - 1], last]


def _at_a_word(line: Content, width: int) -> Content:
    """As many whole words as fit; of a word that is wider by itself, its start."""
    if line.cell_length <= width:
        return line
    words = line.wrap(width) if width > 0 else []
    return words[0].rstrip() if words else Content("")
