"""The guide's statements, judged by the run that is shown as far as it has come."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from textual.content import Content

from ...core.claims import claims_of
from ...core.events import Claim
from ...core.state import RunState
from ..claim_words import WORDS, group_of
from ..format import clean, count
from .columns import GAP, paragraph
from .lines import LinesWidget, around, spread, wrapped

MARKS: dict[str, tuple[str, str]] = {
    "holds": ("✓", "$text-success"),
    "does_not_hold": ("✗", "bold $text-error"),
    "other_reason": ("≠", "bold $text-warning"),
    "not_measured": ("·", "$muted"),
}
LEGEND = "✓ holds  ✗ does not  ≠ other reason  · not measured"
LEGEND_FROM = 108
"""Columns from which the marks are explained beside the counts."""
FINDING_FROM = 96
"""Columns from which what was measured stands beside the statement."""
IN_FULL = 4
"""Lines kept for the selected statement and what was measured of it."""


class GuideSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of the guide shows. `cursor`: the statement that is selected, by its place."""

    claims: tuple[Claim, ...] = ()
    cursor: int = 0

    @classmethod
    def of(cls, state: RunState) -> "GuideSlice":
        """Judged by a run as far as it has come."""
        return cls(claims=tuple(msgspec.structs.replace(claim, t=0.0) for claim in claims_of((state,))))

    @property
    def selected(self) -> Claim | None:
        """The statement under the cursor."""
        return self.claims[min(self.cursor, len(self.claims) - 1)] if self.claims else None


class GuideView(LinesWidget[GuideSlice]):
    """The view of the guide. What is selected is its own: a new state does not change it."""

    BORDER_TITLE = "The guide, statement by statement, judged by this run"

    def draw(self, view: GuideSlice, width: int, height: int) -> list[Content]:
        """As `render_guide` says."""
        return render_guide(view, width, height)

    def show(self, view: GuideSlice) -> None:
        """Draw this slice with the cursor as it is."""
        super().show(msgspec.structs.replace(view, cursor=self.view.cursor))

    def move(self, step: int) -> None:
        """Select the statement some rows down."""
        self._point(max(0, min(len(self.view.claims) - 1, self.view.cursor + step)))

    def reset(self) -> None:
        """Select the first."""
        self._point(0)

    def _point(self, cursor: int) -> None:
        super().show(msgspec.structs.replace(self.view, cursor=cursor))


def render_guide(view: GuideSlice, width: int, height: int) -> list[Content]:
    """The counts, the statements around the selected one in their groups, and that one in full; it gives way first."""
    if width < 1 or height < 1:
        return []
    head = spread(_counts(view.claims), _legend(width), width)
    chosen = view.selected
    if chosen is None:
        return [head]
    lines, place = _statements(view, width)
    kept = min(IN_FULL, max(0, height - 6))
    shown = around(lines, place, height - 1 - kept)
    return [head, *shown, *wrapped(_in_full(chosen), width, height - 1 - len(shown))][:height]


def claim_lines(claim: Claim) -> list[Content]:
    """Everything about a statement, to read."""
    mark, style = MARKS[claim.verdict]
    return [
        paragraph("The guide says", clean(claim.statement)),
        Content.styled(f"{mark} {WORDS[claim.verdict]}", style),
        Content(clean(claim.finding))
        if claim.verdict == "not_measured"
        else paragraph("Measured", clean(claim.finding)),
    ]


def _counts(claims: Sequence[Claim]) -> Content:
    counted = Counter(claim.verdict for claim in claims)
    parts = [
        (f"{count(counted['holds'])} hold", MARKS["holds"][1]),
        (f"{count(counted['does_not_hold'])} do not", MARKS["does_not_hold"][1]),
        (f"{count(counted['other_reason'])} other reason", MARKS["other_reason"][1]),
        (f"{count(counted['not_measured'])} not measured", "$muted"),
    ]
    return Content(", ").join([Content.styled(text, style) for text, style in parts])


def _legend(width: int) -> Content:
    return Content.styled(LEGEND if width >= LEGEND_FROM else "", "$muted")


def _statements(view: GuideSlice, width: int) -> tuple[list[Content], int]:
    """A line for each group and each statement, and which of them is the selected one's."""
    lines: list[Content] = []
    place, group = 0, ""
    for claim in view.claims:
        if (title := group_of(claim.id)) != group:
            group = title
            lines.append(Content.styled(clean(title), "bold $text-accent"))
        if claim is view.selected:
            place = len(lines)
        lines.append(_line(claim, width, selected=claim is view.selected))
    return lines, place


def _line(claim: Claim, width: int, *, selected: bool) -> Content:
    mark, style = MARKS[claim.verdict]
    room = width - 1 - GAP
    half = (room - GAP) * 9 // 20 if width >= FINDING_FROM else room
    statement = Content.styled(clean(claim.statement), "bold reverse" if selected else "").truncate(half, ellipsis=True)
    cells = [Content.styled(mark, style), statement]
    if width >= FINDING_FROM:
        cells[1] = Content.assemble(statement, " " * (half - statement.cell_length))
        muted = "$muted" if claim.verdict == "not_measured" else ""
        cells.append(Content.styled(clean(claim.finding), muted).truncate(room - GAP - half, ellipsis=True))
    return Content(" " * GAP).join(cells)


def _in_full(claim: Claim) -> list[Content]:
    mark, style = MARKS[claim.verdict]
    said = Content.assemble((f"{mark} {WORDS[claim.verdict]}: ", style), clean(claim.statement))
    return [said, Content(clean(claim.finding))]
