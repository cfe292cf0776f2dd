"""The Textual app: it polls a source, shows its state, and turns keys into commands."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer

from ..core.commands import Command, Pause, Resume, RunAll, RunPhase, SetMode
from ..core.sources import RecordedSource, Source
from ..core.state import RunState
from .keys import APP_BINDINGS, RUN_BINDINGS, Facts, mode_of, refusal
from .leaving import Departure
from .screens.main import MainScreen
from .screens.modal import AskScreen, LogScreen, TextScreen
from .screens.texts import error_lines, help_lines, log_lines, phase_lines
from .widgets.buckets import theme_variables
from .widgets.title import Playback, playback_of

REFRESH_HZ_MAX = 10.0
REFRESH_RATES = (1.0, 2.0, 5.0, 10.0)
NOTICE_S = 6.0
LOOK_FOR_TERMINAL_S = 1.0


@runtime_checkable
class Restartable(Source, Protocol):
    """A live source."""

    def restart(self) -> None:
        """A new worker, from nothing."""


def run_app(source: Source, *, refresh_hz: float = REFRESH_HZ_MAX, theme: str | None = None) -> int:
    """Run the screen until it is left; the exit code, 128+n after signal n. Closes the source, after the terminal."""
    app = CgtopApp(source, refresh_hz=refresh_hz, theme=theme)
    try:
        app.run()
    finally:
        source.close()
    return app.return_code or 0


class CgtopApp(App[None]):
    """The app. It never closes its source: who made it does, when the terminal is back."""

    CSS_PATH = "styles/cgtop.tcss"
    TITLE = "cgtop"
    BINDINGS: ClassVar[list[BindingType]] = [*RUN_BINDINGS, *APP_BINDINGS]

    def __init__(
        self,
        source: Source,
        *,
        refresh_hz: float = REFRESH_HZ_MAX,
        theme: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.source = source
        self.refresh_hz = min(REFRESH_HZ_MAX, max(0.1, refresh_hz))
        self.state = RunState()
        self.main = MainScreen(source.kind, clock)
        self._playback: Playback | None = None
        self._timer: Timer | None = None
        self._departure = Departure(self._leave_by_signal)
        if theme is not None:
            self.theme = theme

    # ------------------------------------------------------------------------------------------------ the loop

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The buckets' colours, for the theme that is on."""
        theme = self.current_theme
        return theme_variables(dark=theme.dark, ansi=theme.ansi)

    def on_mount(self) -> None:
        """Start polling; take over the signals that end a terminal program."""
        self._departure.install()
        # Textual paints nothing by itself after ctrl+z and fg.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.set_interval(LOOK_FOR_TERMINAL_S, self._departure.look_for_terminal)
        self.tick()
        self._restart_timer()

    def on_unmount(self) -> None:
        """Give the signals back."""
        self._departure.remove()

    def tick(self) -> None:
        """Poll once, and show what is new."""
        state = self.source.poll()
        playback = playback_of(self.source.player) if isinstance(self.source, RecordedSource) else None
        if state is self.state and playback == self._playback:
            self.main.show_clock()
            return
        refused = state.status if state.status is not self.state.status else None
        self.state, self._playback = state, playback
        self.show_now()
        if refused is not None and refused.refused:
            self.notice(f"{refused.refused}: {refused.why}", bad=True)

    def show_now(self) -> None:
        """Show the present state on every screen that draws one."""
        self.main.show_state(self.state, self._playback)
        if isinstance(self.screen, LogScreen):
            self.screen.refresh_text()

    def notice(self, text: str, *, bad: bool = False) -> None:
        """Say something in the status line for some seconds."""
        self.main.show_notice(text, NOTICE_S, bad=bad)

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(1 / self.refresh_hz, self.tick)

    def _can(self, action: str) -> bool:
        """Whether an action can be done now; says why not otherwise."""
        why = refusal(action, Facts(state=self.state, kind=self.source.kind))
        if why is not None:
            self.notice(why, bad=True)
        return why is None

    def _send(self, command: Command) -> None:
        if not self.source.send(command):
            self.notice("nobody took it: the worker is not there (yet)", bad=True)

    # ------------------------------------------------------------------------------------------------- the run

    def action_next_phase(self) -> None:
        """The next phase: run live, gone to in a recording."""
        if not self._can("next_phase"):
            return
        if isinstance(self.source, RecordedSource):
            self.source.player.next_phase()
            self.tick()
        else:
            self._send(RunPhase())

    def action_run_all(self) -> None:
        """All phases that are left; a recording plays on."""
        if not self._can("run_all"):
            return
        if isinstance(self.source, RecordedSource):
            self.source.player.play()
            self.tick()
        else:
            self._send(RunAll())

    def action_mode(self, mode: str) -> None:
        """Decode in a mode."""
        action = f"mode('{mode}')"
        if self._can(action):
            self._send(SetMode(mode=mode_of(action)))

    def action_pause(self) -> None:
        """Pause or go on."""
        if not self._can("pause"):
            return
        if isinstance(self.source, RecordedSource):
            player = self.source.player
            player.pause() if player.playing else player.play()
            self.tick()
        else:
            paused = self.state.status is not None and self.state.status.state == "paused"
            self._send(Resume() if paused else Pause())

    def action_restart(self) -> None:
        """Start anew, after asking; a recording starts over without."""
        if isinstance(self.source, RecordedSource):
            self.source.player.seek(0.0)
            self.tick()
            return

        def answered(answer: bool | None) -> None:
            if answer and isinstance(self.source, Restartable):
                self.main.close_extras()
                self.source.restart()
                self.notice("a new worker starts")

        self.push_screen(
            AskScreen("Release everything and start anew?", "The worker ends; a new one starts from nothing."), answered
        )

    def action_seek(self, seconds: int) -> None:
        """Some seconds on or back in a recording."""
        if self._can("seek") and isinstance(self.source, RecordedSource):
            self.source.player.seek(self.source.player.position + seconds)
            self.tick()

    # ---------------------------------------------------------------------------------------------- the screen

    def action_select(self, step: int) -> None:
        """Explain another phase than the present one."""
        self.main.move_selection(step)
        self.show_now()

    def action_open(self) -> None:
        """The phase in full."""
        view = self.main.explanation(self.state)
        self.push_screen(TextScreen(f"Phase: {view.row.id}", phase_lines(view), keys="enter"))

    def action_details(self) -> None:
        """The last error in full."""
        if self._can("details"):
            self.push_screen(TextScreen("Error", error_lines(self.state.errors[-1]), keys="x"))

    def action_close(self) -> None:
        """Close the error panel, and follow the run again."""
        self.main.close_extras()
        self.show_now()

    def action_log(self) -> None:
        """The log."""
        self.push_screen(LogScreen("Log", lambda: log_lines(self.state.log), keys="l"))

    def action_help(self) -> None:
        """The help, made from the bindings."""
        bindings = [active.binding for active in self.active_bindings.values() if active.node is self]
        self.push_screen(TextScreen("Keys", help_lines(bindings), keys="question_mark,h,f1"))

    def action_save(self) -> None:
        """The screen as SVG, in the working directory."""
        try:
            path = self.save_screenshot()
        except OSError as error:
            self.notice(f"not saved: {error.strerror or error}", bad=True)
        else:
            self.notice(f"saved {Path(path).name}")

    def action_refresh_rate(self, step: int) -> None:
        """Redraw more or less often."""
        nearest = min(range(len(REFRESH_RATES)), key=lambda index: abs(REFRESH_RATES[index] - self.refresh_hz))
        chosen = REFRESH_RATES[max(0, min(len(REFRESH_RATES) - 1, nearest + step))]
        limit = chosen == self.refresh_hz
        self.refresh_hz = chosen
        self._restart_timer()
        self.notice(f"refresh {chosen:g} Hz" + (", the limit" if limit else ""))

    def action_leave(self) -> None:
        """Quit at once; nothing is waited for."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key's action in the palette too."""
        yield from super().get_system_commands(screen)
        for binding in Binding.make_bindings(RUN_BINDINGS):
            if binding.tooltip:
                yield SystemCommand(
                    binding.description.capitalize(), binding.tooltip, lambda action=binding.action: self._act(action)
                )

    async def _act(self, action: str) -> None:
        await self.run_action(action)

    def _leave_by_signal(self, number: int) -> None:
        self.exit(return_code=128 + number)
