"""The main screen: the lines around the views, and the view that is chosen."""

import time
from collections.abc import Callable
from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen
from textual.timer import Timer

from ...core.events import Error
from ...core.state import RunState
from ..keys import TAB_BINDINGS, SourceKind, named
from ..refusals import Facts, refusal
from ..views import ViewId
from ..widgets.error_panel import ErrorView
from ..widgets.key_bar import Key, KeyBar
from ..widgets.notice import NoticeBar, NoticeView, Recorded, status_text
from ..widgets.seek_bar import SeekBar, SeekView
from ..widgets.tab_line import TabLine, TabsView
from ..widgets.title import Banner, Essentials, Playback, TitleBar, TitleView
from .pane import Pane, Surroundings
from .phases_pane import PhasesPane
from .texts import key_name
from .views import Panes

WIDTHS: list[tuple[int, str]] = [(0, "-w-tiny"), (40, "-w-narrow"), (76, "-w-medium"), (104, "-w-wide")]
"""Class of the screen from so many columns on; `styles/cgtop.tcss` lays out each."""
HEIGHTS: list[tuple[int, str]] = [
    (0, "-h-tiny"),
    (10, "-h-short"),
    (12, "-h-brief"),
    (18, "-h-low"),
    (24, "-h-medium"),
    (30, "-h-tall"),
    (36, "-h-high"),
    (46, "-h-huge"),
]
SEEK_BAR_FROM = 18
"""Lines from which the seek bar has one of its own; below, the banner tells the place."""


class MainScreen(Screen[None]):
    """All views of a run, one at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [*TAB_BINDINGS]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(self, kind: SourceKind, clock: Callable[[], float] = time.monotonic) -> None:
        # Classes that are there before anything is mounted cost nothing; one set later restyles every widget.
        super().__init__(classes="-recorded" if kind == "recorded" else None)
        self.kind = kind
        self.dismissed: Error | None = None
        self.state = RunState()
        self.recording = Recorded()
        self.coming: frozenset[ViewId] = frozenset()
        self._playback: Playback | None = None
        recorded = kind == "recorded"
        self.panes = Panes(clock)
        self.shown: ViewId = next(iter(self.panes))
        self.pane.add_class("-shown")
        self.essentials = Essentials((RunState(), recorded), id="essentials")
        self.title_bar = TitleBar(TitleView(recorded=recorded), id="title")
        self.banner = Banner(TitleView(recorded=recorded), id="banner")
        self.tab_line = TabLine(TabsView(views=tuple(self.panes)), id="tabs")
        self.seek_bar = SeekBar(SeekView(), id="seek")
        self.notice_bar = NoticeBar(NoticeView(), id="notice")
        self.key_bar = KeyBar((), id="keys")
        self._notice = NoticeView()
        self._notice_timer: Timer | None = None

    @property
    def pane(self) -> Pane:
        """The pane of the view that is shown."""
        return self.panes[self.shown]

    @property
    def phases(self) -> PhasesPane:
        """The pane of the first view, which every run has."""
        pane = self.panes["phases"]
        assert isinstance(pane, PhasesPane)
        return pane

    def compose(self) -> ComposeResult:
        """A pane is mounted when it is chosen for the first time; CSS shows the one that is chosen now."""
        yield self.essentials
        yield self.title_bar
        yield self.banner
        yield self.tab_line
        yield self.pane
        with Container(id="foot"):
            yield self.notice_bar
            yield self.seek_bar
        yield self.key_bar

    def on_resize(self, event: Resize) -> None:
        """The place in a recording is told in one place."""
        self._show_place()

    # ------------------------------------------------------------------------------------------------ the views

    def show_view(self, view: ViewId) -> None:
        """Show another view, with the state as it is."""
        if view not in self.panes or view == self.shown:
            return
        before, self.shown = self.pane, view
        before.remove_class("-shown")
        self.pane.add_class("-shown")
        if before.parent is not None and self.pane.parent is None:  # else `compose` will mount it, or has
            self.mount(self.pane, after=before)
        self.show_state(self.state, self._playback)

    def next_view(self, step: int) -> None:
        """Show the view that is so many on, around the end."""
        views = list(self.panes)
        self.show_view(views[(views.index(self.shown) + step) % len(views)])

    def show_state(self, state: RunState, playback: Playback | None) -> None:
        """Give the shown view and the lines around it their slices; what is shown the same does nothing."""
        self.state, self._playback = state, playback
        recorded, hello = self.kind == "recorded", state.hello
        self.essentials.show((state, recorded))
        self.title_bar.show(
            TitleView(hello=hello, expected=state.expected_device, recorded=recorded, alive=state.end is None)
        )
        self.tab_line.show(TabsView(views=tuple(self.panes), shown=self.shown))
        self._show_place()
        self.pane.show_state(state, Surroundings(kind=self.kind, letters=self.app.no_color, coming=self.coming))
        self._show_error()
        self._show_notice()
        self._show_keys()

    def show_clock(self) -> None:
        """Move what goes with time, although nothing has happened."""
        self.pane.show_clock()

    def _show_place(self) -> None:
        playback = self._playback
        own_line = self.size.height >= SEEK_BAR_FROM
        recorded, hello = self.kind == "recorded", self.state.hello
        place = None if own_line else playback
        self.banner.show(TitleView(hello=hello, recorded=recorded, playback=place))
        if playback is not None and own_line:
            self.seek_bar.show(
                SeekView(
                    place=playback.position,
                    duration=playback.duration,
                    playing=playback.playing,
                    speed=playback.speed,
                    stops=playback.stops,
                )
            )

    def _show_error(self) -> None:
        error = self.state.errors[-1] if self.state.errors else None
        if error is not None and error == self.dismissed:
            error = None
        self.phases.show_error(ErrorView(error=error, recorded=self.kind == "recorded"))
        self.set_class(error is not None, "-error")

    # ----------------------------------------------------------------------------------------- status and keys

    def show_notice(self, text: str, seconds: float, *, bad: bool) -> None:
        """Say something in the status line for some seconds."""
        notice = self._notice = NoticeView(notice=text, bad=bad)
        self._show_notice()
        if self._notice_timer is not None:
            self._notice_timer.stop()
        # A timer that was stopped too late must not end the notice after its own.
        self._notice_timer = self.set_timer(seconds, lambda: self.end_notice() if self._notice is notice else None)

    def end_notice(self) -> None:
        """Show the status again."""
        self._notice = NoticeView()
        self._show_notice()

    def _show_notice(self) -> None:
        status = self.state.status
        goes_on = status is not None and status.state in ("decoding", "paused")
        unseen = self.has_class("-error") and self.shown != "phases" and not goes_on
        error = self.state.errors[-1] if unseen else None
        text = status_text(self.state, recorded=self.kind == "recorded", error=error)
        self.notice_bar.show(msgspec.structs.replace(self._notice, status=text, recording=self.recording))

    def _show_keys(self) -> None:
        facts = Facts(state=self.state, kind=self.kind, view=self.shown)
        keys = tuple(
            Key(
                key=binding.key_display or key_name(binding.key),
                label=self._label(binding),
                action=f"app.{binding.action}",
                acts=refusal(binding.action, facts) is None,
            )
            for binding in shown_bindings(self)
            if named(binding.action, self.kind, self.shown)
        )
        self.key_bar.show(keys)

    def _label(self, binding: Binding) -> str:
        if binding.action == "pause":
            paused = self.state.status is not None and self.state.status.state == "paused"
            if self.kind == "recorded":
                return "pause" if self._playback is not None and self._playback.playing else "play"
            return "go on" if paused else "pause"
        return binding.description

    def follow(self) -> None:
        """Explain what runs now, no longer what was chosen."""
        if self.shown == "phases":
            self.pane.reset()

    def close_extras(self) -> None:
        """Back to following the run: no selection, no error panel."""
        self.pane.reset()
        self.dismissed = self.state.errors[-1] if self.state.errors else None


def shown_bindings(screen: Screen[None]) -> list[Binding]:
    """The bindings for the line of keys, remapped keys included: one an action, help and quit last."""
    shown: dict[str, Binding] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if binding.show and binding.description:
            shown.setdefault(binding.action, binding)
    return list(shown.values())
