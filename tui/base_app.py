"""The app's loop: it polls a source and shows its state. What the keys do is in `actions`."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from textual.app import App
from textual.command import CommandPalette
from textual.driver import Driver
from textual.screen import Screen
from textual.timer import Timer

from ..core.commands import Command
from ..core.events import Log
from ..core.settings import RunSettings
from ..core.sources import RecordedSource, Source
from ..core.state import RunState
from .leaving import Departure, has_job_control
from .refusals import Facts, refusal, refusal_words
from .screens.main import MainScreen
from .screens.modal import LogScreen
from .screens.palette import Palette
from .screens.views import others
from .views import opening_view, views_in
from .widgets.buckets import theme_variables
from .widgets.notice import Recorded
from .widgets.title import Playback, playback_of

REFRESH_HZ_MAX = 10.0
NOTICE_S = 6.0
LOOK_FOR_TERMINAL_S = 1.0
REST_AFTER_S = 0.5
"""After the first screen, what the others need is imported: at a key it would be waited for."""


@runtime_checkable
class Restartable(Source, Protocol):
    """A live source."""

    settings: RunSettings

    def restart(self, settings: RunSettings | None = None) -> None:
        """A new worker, from nothing."""


@runtime_checkable
class Recording(Protocol):
    """A source that may write what it shows to a file."""

    recording_error: str | None

    @property
    def recording_to(self) -> Path | None:
        """The file that is being written."""

    def save_recording(self, path: Path) -> None:
        """A copy of it so far."""


class BaseApp(App[None]):
    """The loop. It never closes its source: who made it does, when the terminal is back."""

    def __init__(
        self,
        source: Source,
        *,
        refresh_hz: float = REFRESH_HZ_MAX,
        theme: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`theme`: a theme's name, as `themes.theme_named` gives it."""
        super().__init__()
        self.source = source
        self.refresh_hz = min(REFRESH_HZ_MAX, max(0.1, refresh_hz))
        self.state = RunState()
        self.said: list[Log] = []
        """What the screen itself has to log."""
        self.main = MainScreen(source.kind, clock)
        self._playback: Playback | None = None
        self._noticed_at: tuple[int, float] | None = None
        """The place that the shown notice is about: events and seconds. It goes with the place."""
        self._timer: Timer | None = None
        self._departure = Departure(self._leave_by_signal)
        if theme is not None:
            self.theme = theme

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def get_driver_class(self) -> type[Driver]:
        """Textual's own, which draws on standard error: where that is no terminal, on standard output."""
        found = super().get_driver_class()
        return found if sys.__stderr__ is not None and sys.__stderr__.isatty() else _on_standard_output(found)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The buckets' colours, for the theme that is on."""
        theme = self.current_theme
        return theme_variables(dark=theme.dark, ansi=theme.ansi)

    def action_command_palette(self) -> None:
        """Textual's palette, but one that no early key breaks."""
        if self.use_command_palette and not isinstance(self.screen, CommandPalette):
            self.push_screen(Palette(id="--command-palette"))

    def action_suspend_process(self) -> None:
        """Ctrl+z, where a shell is there that can bring the program back."""
        if has_job_control():
            super().action_suspend_process()
        else:
            self.notice("ctrl+z: no shell with job control started this, and nothing could bring it back", bad=True)

    def on_mount(self) -> None:
        """Start polling; take over the signals that end a terminal program."""
        self._departure.install(needs_terminal=not self.is_headless)
        # Textual paints nothing by itself after ctrl+z and fg.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if isinstance(self.source, RecordedSource):
            events = self.source.player.recording.events
            self.main.coming = views_in(events)
            self.main.show_view(opening_view(events))
        self.set_interval(LOOK_FOR_TERMINAL_S, self._departure.look_for_terminal)
        self.set_timer(REST_AFTER_S, others)
        self.tick()
        self.restart_timer()

    def on_unmount(self) -> None:
        """Give the signals back."""
        self._departure.remove()

    def tick(self) -> None:
        """Poll once, and show what is new."""
        state = self.source.poll()
        if self._noticed_at is not None and self._noticed_at != self._place():
            self._noticed_at = None
            self.main.end_notice()
        playback = playback_of(self.source.player) if isinstance(self.source, RecordedSource) else None
        if state is self.state and playback == self._playback:
            self.main.show_clock()
            return
        refused = state.status if state.status is not self.state.status else None
        if state.hello is not None and self.state.hello is None:
            self.main.end_notice()
        self.state, self._playback = state, playback
        self.show_now()
        if refused is not None and refused.refused:
            self.notice(refusal_words(refused.refused or "", refused.why), bad=True)

    def show_now(self) -> None:
        """Show the present state on every screen that draws one."""
        source = self.source
        if isinstance(source, Recording):
            to, error = source.recording_to, source.recording_error
            self.main.recording = Recorded(name=to.name if to is not None else "", error=error or "")
        self.main.show_state(self.state, self._playback)
        if isinstance(self.screen, LogScreen):
            self.screen.refresh_text()

    def notice(self, text: str, *, bad: bool = False) -> None:
        """Say something in the status line for some seconds."""
        self._noticed_at = None
        self.main.show_notice(text, NOTICE_S, bad=bad)

    def notice_here(self, text: str) -> None:
        """Say something of the place in a recording, until another is shown but for no longer than other notices."""
        self.notice(text)
        self._noticed_at = self._place()

    def restart_timer(self) -> None:
        """Poll at the rate that is set from now on."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(1 / self.refresh_hz, self.tick)

    def can(self, action: str) -> bool:
        """Whether an action can be done now; says why not otherwise."""
        why = refusal(action, Facts(state=self.state, kind=self.source.kind, view=self.main.shown))
        if why is not None:
            self.notice(why, bad=True)
        return why is None

    def send(self, command: Command) -> bool:
        """Send a command; says so where nobody takes it, and returns whether somebody did."""
        taken = self.source.send(command)
        if taken:
            self.main.end_notice()  # what was said before this
        else:
            self.notice("nobody took it: the worker is not there (yet)", bad=True)
        return taken

    def say(self, text: str) -> None:
        """Put a line into the log, behind those of the run."""
        self.said.append(Log(t=self.state.t, source="client", text=text))

    def _place(self) -> tuple[int, float] | None:
        if not isinstance(self.source, RecordedSource):
            return None
        return self.source.player.index, self.source.player.position

    def _leave_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)


def _on_standard_output(driver: type[Driver]) -> type[Driver]:
    class OnStandardOutput(driver):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._file = sys.__stdout__

    return OnStandardOutput
