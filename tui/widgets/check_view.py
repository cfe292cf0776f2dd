"""The checks of a machine: what they come to, one verdict a line, and why what did not pass did not."""

from collections.abc import Sequence

import msgspec
from textual.content import Content

from ...core.bundled import play_command
from ...core.checklist import CHECK_NAMES, missing, passed
from ...core.events import Check
from ...core.state import RunState
from ..check_words import in_order, nothing_checked, reasons, summary
from ..format import clean, count
from ..refusals import checking, experiment, measuring
from .columns import GAP, paragraph
from .lines import LATER, LinesWidget, around, wrapped

MARKS: dict[str, tuple[str, str]] = {
    "PASS": ("✓ PASS", "$text-success"),
    "WARN": ("! WARN", "bold $text-warning"),
    "FAIL": ("✗ FAIL", "bold $text-error"),
    "n/a": ("· n/a", "$muted"),
}
MARK_WIDTH = 6
EXPECTED_FROM = 96
"""Columns from which what was expected stands beside what was measured."""
MEASURED_FROM = 56


class CheckSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of the checks shows. `cursor`: the check that is selected, by its place in the list."""

    checks: tuple[Check, ...] = ()
    running: bool = False
    over: bool = False
    """Whether the run itself has ended, so that nothing more comes."""
    recorded: bool = False
    coming: bool = False
    """Whether this recording holds it, further on."""
    elsewhere: str = ""
    """The command that plays a recording with checks, if there is one."""
    cursor: int = 0

    @classmethod
    def of(cls, state: RunState, *, recorded: bool = False, coming: bool = False) -> "CheckSlice":
        """The slice of a run."""
        return cls(
            checks=in_order(state.checks),
            running=_are_made(state) and (coming or not recorded or bool(state.checks)),
            over=state.end is not None,
            recorded=recorded,
            coming=coming,
            elsewhere=play_command("check") if not state.checks and not coming else "",
        )

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of the checks that are still to come."""
        made = {check.name for check in self.checks}
        return tuple(name for name in CHECK_NAMES if name not in made)

    @property
    def selected(self) -> Check | None:
        """The check under the cursor."""
        return self.checks[min(self.cursor, len(self.checks) - 1)] if self.checks else None


class CheckView(LinesWidget[CheckSlice]):
    """The view of the checks. What is selected is its own: a new state does not change it."""

    BORDER_TITLE = "Checks: is this machine in order?"

    def draw(self, view: CheckSlice, width: int, height: int) -> list[Content]:
        """As `render_checks` says."""
        return render_checks(view, width, height)

    def show(self, view: CheckSlice) -> None:
        """Draw this slice with the cursor as it is."""
        super().show(msgspec.structs.replace(view, cursor=self.view.cursor))

    def move(self, step: int) -> None:
        """Select the check some rows down."""
        self._point(max(0, min(len(self.view.checks) - 1, self.view.cursor + step)))

    def reset(self) -> None:
        """Select the first."""
        self._point(0)

    def _point(self, cursor: int) -> None:
        super().show(msgspec.structs.replace(self.view, cursor=cursor))


def render_checks(view: CheckSlice, width: int, height: int) -> list[Content]:
    """What they come to, a line for each, why what did not pass did not, the selected one; words give way to lines."""
    if width < 1 or height < 1:
        return []
    head = _headline(view)
    if not view.checks:
        return [head, *wrapped(_before(view), width, height - 1)]
    told = bool(nothing_checked(view.checks))  # one reason for all of them, in the headline
    lines = [_line(check, width, selected=check is view.selected, reason=not told) for check in view.checks]
    if view.running:
        lines += [Content.styled(f"{'waiting'.rjust(MARK_WIDTH)}{' ' * GAP}{name}", "$muted") for name in view.waiting]
    why = [
        paragraph(f"{status} {clean(names)}", clean(text), MARKS[status][1]) for status, names, text in _reasons(view)
    ]
    least = min(2, len(why)) if height >= 12 else 0
    shown = around(lines, view.cursor, height - 1 - least)
    rest = wrapped([*why, *_in_full(view)], width, height - 1 - len(shown))
    gap = [Content("")] if rest and 2 + len(shown) + len(rest) <= height else []
    return [head, *shown, *gap, *rest][:height]


def _in_full(view: CheckSlice) -> list[Content]:
    """The selected check without its columns' ends cut off; what did not pass is told by its reason already."""
    check = view.selected
    if check is None or check.status != "PASS":
        return []
    found = clean(check.measured) + (f"; expected {clean(check.expected)}" if check.expected else "")
    why = f"; {clean(check.why)}" if check.why else ""
    return [paragraph(clean(check.name), f"{found}{why}.")]


def _are_made(state: RunState) -> bool:
    """Whether checks, or an experiment with nothing to show so far, are under way; a phase may run between two."""
    return checking(state) or (measuring(state) and experiment(state) is None)


def check_lines(check: Check) -> list[Content]:
    """Everything about a check, to read."""
    mark, style = MARKS[check.status]
    parts = (("measured", check.measured), ("expected", check.expected), ("why", check.why))
    return [Content.styled(mark, style), *(paragraph(name, clean(text)) for name, text in parts if text)]


def _headline(view: CheckSlice) -> Content:
    done, wanted = len(view.checks), len(view.checks) + len(view.waiting)
    of = f"{count(done)} of {count(wanted)}"
    if not view.checks:
        running = ("▶ measuring", "bold $text-accent")
        return Content.assemble(running) if view.running else Content.styled("not checked yet", "$muted")
    if view.running and not view.waiting:
        return Content.assemble(("▶ checking again", "bold $text-accent"), "; so far as found before")
    if view.waiting and view.running:
        return Content.assemble(("▶ checking", "bold $text-accent"), f", {of} so far")
    if missing(view.checks) and view.over:
        return Content.assemble(("■ interrupted", "bold $text-warning"), f", {of}")
    if why := nothing_checked(view.checks):
        return Content.styled(f"NOT PASSED: nothing was checked: {clean(why)}", "bold $text-error")
    if view.waiting and not view.over:  # a recording, played to the middle of them
        return Content.assemble(("▶ checked", "bold $text-accent"), f", {of} up to here")
    good = passed(view.checks)
    mark, style = ("✓", "bold $text-success") if good else ("✗", "bold $text-error")
    return Content.styled(f"{mark} {clean(summary(view.checks))}", style)


def _before(view: CheckSlice) -> list[Content]:
    if view.recorded:
        how = LATER if view.coming else "None in this recording up to here."
    else:
        how = (
            "Press m to check this machine. Phases up to capture are run where they were not; decoding rests "
            "meanwhile, and e, d or g go on with it."
        )
    what = (
        f"{len(CHECK_NAMES)} verdicts: bytes against their closed forms, warmup and capture explained to the byte, a "
        "replay that allocates nothing and computes what eager steps do, bandwidth, errors, throttling, company. A "
        "check that cannot be made is n/a, and never a pass."
    )
    where = [paragraph("Recorded", view.elsewhere)] if view.elsewhere and view.recorded else []
    return [Content(how), *where, Content(what)]


def _line(check: Check, width: int, *, selected: bool, reason: bool) -> Content:
    """`✓ PASS  weights   8,044,936,704 B   8,044,936,704 B, by the closed form`; what has no room is in `enter`."""
    mark, style = MARKS[check.status]
    name_width = max(len(name) for name in CHECK_NAMES)
    name = clean(check.name).ljust(name_width)
    cells = [Content.styled(mark.ljust(MARK_WIDTH), style), Content.styled(name, "bold reverse" if selected else "")]
    room = width - MARK_WIDTH - name_width - 2 * GAP
    measured = Content(clean(check.measured or (check.why if reason else "")))
    expected = Content(clean(check.expected))
    if width >= EXPECTED_FROM:
        half = (room - GAP) * 11 // 20
        cells += [_fitted(measured, half), _fitted(Content.styled(expected.plain, "$muted"), room - GAP - half)]
    elif width >= MEASURED_FROM:
        cells.append(_fitted(measured, room))
    return Content(" " * GAP).join(cells)


def _fitted(text: Content, width: int) -> Content:
    cut = text.truncate(width, ellipsis=True)
    return Content.assemble(cut, " " * (width - cut.cell_length))


def _reasons(view: CheckSlice) -> Sequence[tuple[str, str, str]]:
    """What failed before what is only unknown."""
    found = () if nothing_checked(view.checks) else reasons(view.checks)
    return sorted(found, key=lambda reason: ("FAIL", "WARN", "n/a").index(reason[0]))
