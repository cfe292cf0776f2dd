"""The last error: what happened, what it means for the run, what to do."""

import msgspec
from textual.content import Content

from ...core.events import Error
from ..format import clean, size
from .lines import LinesWidget, wrapped


class ErrorView(msgspec.Struct, frozen=True):
    """What the error panel shows. `recorded`: it is part of a recording."""

    error: Error | None = None
    recorded: bool = False


class ErrorPanel(LinesWidget[ErrorView]):
    """The error panel; it takes the explanation's place."""

    BORDER_TITLE = "Error"
    BORDER_SUBTITLE = "x details · escape close"

    def draw(self, view: ErrorView, width: int, height: int) -> list[Content]:
        """As `render_error` says."""
        return render_error(view, width, height)


def render_error(view: ErrorView, width: int, height: int) -> list[Content]:
    """Headline, hint, meaning and figures, in this order."""
    error = view.error
    if error is None:
        return []
    where = f" ({error.phase})" if error.phase else ""
    paragraphs = [Content.styled(f"✗ {clean(error.headline)}{where}", "bold $text-error")]
    if error.hint:
        paragraphs.append(Content.assemble(("What to do: ", "bold"), clean(error.hint)))
    paragraphs.append(Content.assemble(("What it means: ", "bold"), meaning(view)))
    figures = [
        f"{name} {size(count)}"
        for name, count in (
            ("needed", error.needed_bytes),
            ("free", error.free_bytes),
            ("reserved", error.reserved_bytes),
        )
        if count is not None
    ]
    if figures:
        paragraphs.append(Content(", ".join(figures)))
    return wrapped(paragraphs, width, height)


def meaning(view: ErrorView) -> str:
    """Whether the run can go on."""
    if view.recorded:
        return "the recorded run failed here."
    if view.error is not None and view.error.recoverable:
        return "this run can go on; what was measured so far stays."
    return "this worker cannot go on; what was measured so far stays, R starts a new one."
