"""Keys that act on the run: phases, modes, pause, experiments, starting anew."""

from ...core.commands import (
    BreakInput,
    Cancel,
    Command,
    MendInput,
    Pause,
    Resume,
    RunAll,
    RunBench,
    RunCheck,
    RunPhase,
    RunSweep,
    SetMode,
    TryDynamicCapture,
    Verify,
)
from ...core.events import Status
from ...core.settings import RunSettings
from ...core.sources import RecordedSource
from ..base_app import BaseApp, Restartable
from ..place_words import AT_THE_END, stop_words
from ..refusals import measuring, mode_of, releases
from ..screens.modal import AskScreen
from ..screens.settings import SettingsScreen
from ..settings_form import opened_form
from ..views import ViewId


class RunActions(BaseApp):
    """What acts on a live run; phases and pause steer a recording's player too."""

    _noted: Command | None = None
    """What a worker that is still starting will do."""
    _asked: tuple[ViewId, Status | None] | None = None
    """In which view a measurement was asked for last, and what the engine did then."""

    def action_next_phase(self) -> None:
        """The next phase: run live. A recording goes to its next stop, and pauses there."""
        if not self.can("next_phase"):
            return
        if isinstance(self.source, RecordedSource):
            player = self.source.player
            stop = player.next_stop()
            self.tick()
            self.notice_here(stop_words(player, stop) if stop is not None else AT_THE_END)
        elif releases(self.state):
            self.push_screen(
                AskScreen("Release everything now?", "Only release is left: decoding ends, and R has to start anew."),
                self._release_answered,
            )
        else:
            upcoming = self.state.next_phase
            self._begin(RunPhase(phase=upcoming.id if upcoming is not None else None))

    def _release_answered(self, answer: str | None) -> None:
        if answer == "yes":
            self.send(RunPhase(phase="release"))

    def action_run_all(self) -> None:
        """All phases that are left; a recording plays on."""
        if not self.can("run_all"):
            return
        if isinstance(self.source, RecordedSource):
            self.source.player.play()
            self.main.end_notice()
            self.tick()
        else:
            self._begin(RunAll())

    def _begin(self, command: Command) -> None:
        """Send it and follow the run; a worker that is still starting keeps it."""
        self.main.follow()
        if self.state.hello is not None:
            self._noted = None
            self.send(command)
        elif self._noted is not None and not isinstance(command, RunAll):
            self.notice("noted already: it begins as soon as the worker is there")  # and one more would end that
        elif self.send(command):
            self._noted = command
            self.notice("noted: it begins as soon as the worker is there")

    def action_mode(self, mode: str) -> None:
        """Decode in a mode."""
        action = f"mode('{mode}')"
        if self.can(action):
            self.send(SetMode(mode=mode_of(action)))

    def action_pause(self) -> None:
        """Pause or go on."""
        if not self.can("pause"):
            return
        if isinstance(self.source, RecordedSource):
            player = self.source.player
            player.pause() if player.playing else player.play()
            self.main.end_notice()
            self.tick()
        else:
            paused = self.state.status is not None and self.state.status.state == "paused"
            self.send(Resume() if paused else Pause())

    def action_try_capture(self) -> None:
        """Attempt a capture on the DynamicCache, and show what comes of it."""
        if self.can("try_capture"):
            self.main.show_view("caches")
            self.send(TryDynamicCapture())

    def action_break_input(self) -> None:
        """Rebind the graph's input; or, where that was done, put it right."""
        if self.can("break_input"):
            self.main.show_view("addresses")
            shown = self.state.demonstration
            self.send(MendInput() if shown is not None and shown.stage == "broken" else BreakInput())

    def action_verify(self) -> None:
        """Verify the graph again."""
        if self.can("verify"):
            self.send(Verify())

    def action_measure(self) -> None:
        """Measure what the view shows; or stop after the row that is being measured."""
        if not self.can("measure"):
            return
        if measuring(self.state):
            self.send(Cancel())
            self.notice("stops after what is being measured")
            return
        asked, self._asked = self._asked, (self.main.shown, self.state.status)
        if asked is not None and asked[0] == self._asked[0] and asked[1] is self._asked[1]:
            return  # it was asked for a moment ago
        match self.main.shown:
            case "cache_lens":
                self.send(RunSweep(sweep="cache_lens"))
            case "batches":
                self.send(RunSweep(sweep="batches"))
            case "checks":
                self.send(RunCheck())
            case _:
                captured = self.state.phase("capture").status == "done"
                self.send(RunBench(modes=("eager", "graph") if captured else ("eager",)))

    def action_restart(self) -> None:
        """Start anew, after asking; a recording starts over without."""
        if isinstance(self.source, RecordedSource):
            self.source.player.seek(0.0)
            self.notice("from the start")
            self.tick()
            return
        self.push_screen(
            AskScreen(
                "Release everything and start anew?",
                "The worker ends; a new one starts from nothing.",
                other=("o", "change the settings first"),
            ),
            self._restart_answered,
        )

    def _restart_answered(self, answer: str | None) -> None:
        if answer == "other":
            self.action_options()
        elif answer == "yes":
            self._start_anew(None)

    def action_options(self) -> None:
        """A form of the settings; a run with them starts from nothing."""
        if self.can("options") and isinstance(self.source, Restartable):
            form = opened_form(self.source.settings, self.state)
            self.push_screen(SettingsScreen(form), self._settings_chosen)

    def _settings_chosen(self, settings: RunSettings | None) -> None:
        if settings is not None:
            self._start_anew(settings)

    def _start_anew(self, settings: RunSettings | None) -> None:
        if isinstance(self.source, Restartable):
            self.main.close_extras()
            self._noted = None
            self.source.restart(settings)
            self.notice("a new worker starts")
