"""What draws a view: a pane of the main screen, shown the state while its view is the chosen one."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from ...core.state import RunState
from ..keys import SourceKind
from ..views import ViewId
from ..widgets.lines import LinesWidget

Slice = TypeVar("Slice")


class Surroundings(msgspec.Struct, frozen=True):
    """What a pane is told beside the state. `letters`: colours do not show, letters must tell."""

    kind: SourceKind = "live"
    letters: bool = False
    coming: frozenset[ViewId] = frozenset()
    """Views that this recording fills sooner or later."""

    @property
    def recorded(self) -> bool:
        """Whether what is shown was recorded."""
        return self.kind == "recorded"


class Opened(msgspec.Struct, frozen=True):
    """What `enter` opens: a titled text to read."""

    title: str
    lines: Sequence[Content]


class Pane(Vertical):
    """A view's place on the main screen; what it has no answer for does nothing."""

    def __init__(self, view: str) -> None:
        super().__init__(id=f"view-{view}", classes="pane")

    def show_state(self, state: RunState, around: Surroundings) -> None:
        """Draw this state from now on."""
        raise NotImplementedError

    def show_clock(self) -> None:
        """Time has gone on, although nothing has happened."""

    def move(self, step: int) -> None:
        """Select what is so many places down."""

    def move_across(self, step: int) -> None:
        """Select what is so many places to the right."""

    def activate(self) -> str | None:
        """Do what `enter` does where it opens no text, and say what was done; null: it opens one."""
        return None

    def opened(self) -> Opened | None:
        """What is selected, in full; null where there is nothing to open."""
        return None

    def reset(self) -> None:
        """Forget the selection."""


class WidgetPane(Pane, Generic[Slice]):
    """A view that is one widget, shown its slice of the state."""

    def __init__(
        self, view: str, widget: LinesWidget[Slice], slice_of: Callable[[RunState, Surroundings], Slice]
    ) -> None:
        super().__init__(view)
        self.widget = widget
        widget.add_class("whole")
        self._slice_of = slice_of

    def compose(self) -> ComposeResult:
        """The widget alone."""
        yield self.widget

    def show_state(self, state: RunState, around: Surroundings) -> None:
        """Show the widget its slice."""
        self.widget.show(self._slice_of(state, around))
