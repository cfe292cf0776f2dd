"""What a command writes to standard output: the report, the same in Markdown, or the events as JSON Lines."""

import sys
from collections.abc import Callable, Sequence
from enum import Enum
from functools import reduce

from ...core.events import Event, encode_event
from ...core.state import RunState, fold
from ..report import Origin, Report, mark, report
from .failures import CommandError, Exit, tell


class Format(Enum):
    """The forms of output."""

    REPORT = "report"
    JSON = "json"
    MARKDOWN = "markdown"


def chosen(*, json: bool, markdown: bool = False) -> Format:
    """The form that two flags ask for. Raises `CommandError` for both."""
    if json and markdown:
        raise CommandError("--json and --markdown exclude each other", code=Exit.WRONG_USAGE)
    return Format.JSON if json else Format.MARKDOWN if markdown else Format.REPORT


def write_line(event: Event) -> None:
    """One event as a line of JSON, at once."""
    sys.stdout.buffer.write(encode_event(event) + b"\n")
    sys.stdout.buffer.flush()


def write_report(
    state: RunState, origin: Origin, form: Format, make: Callable[[RunState, Origin], Report] = report
) -> None:
    """The report of a state; nothing where the form is JSON Lines, which have been written already."""
    if form is Format.JSON:
        return
    from ..tables import markdown, print_report

    made = make(state, origin)
    if form is Format.MARKDOWN:
        sys.stdout.write(markdown(made))
    else:
        print_report(made, sys.stdout)


def write_recorded(events: Sequence[Event], form: Format) -> None:
    """A recording, as `phases` would have written it, marked as recorded: of lines, on standard error."""
    origin, state = Origin(recorded=True), reduce(fold, events, RunState())
    if form is Format.JSON:
        tell(mark(state.hello, origin))
        for event in events:
            write_line(event)
    else:
        write_report(state, origin, form)
