"""A source for tests of the screen: it shows the states that a test gives it, and keeps what it was asked for."""

from collections.abc import Iterable
from typing import Literal

from cgtop.core.commands import Command
from cgtop.core.events import Event
from cgtop.core.playback import Player
from cgtop.core.recording import Recording
from cgtop.core.settings import RunSettings
from cgtop.core.sources import RecordedSource
from cgtop.core.state import RunState, fold
from tests.sample import sample_run


def folded(events: Iterable[Event]) -> RunState:
    """The state after these events."""
    state = RunState()
    for event in events:
        state = fold(state, event)
    return state


def until(phase: str, *, decoding: bool = False) -> RunState:
    """The sample run's state when a phase has ended; `decoding`: at the end of its decoding."""
    events = sample_run()
    last = max(i for i, event in enumerate(events) if getattr(event, "phase", None) == phase and _ends(event))
    if decoding:
        last = max(i for i, event in enumerate(events) if type(event).__name__ == "Tokens")
    return folded(events[: last + 1])


def _ends(event: Event) -> bool:
    return type(event).__name__ == "PhaseEnd" or (type(event).__name__ == "Memory" and not getattr(event, "live", True))


class FakeLive:
    """A live source."""

    def __init__(self, state: RunState | None = None) -> None:
        self.state = state if state is not None else RunState()
        self.sent: list[Command] = []
        self.closed = False
        self.restarts = 0
        self.settings = RunSettings()
        self.takes = True

    @property
    def kind(self) -> Literal["live", "recorded"]:
        return "live"

    def poll(self) -> RunState:
        return self.state

    def send(self, command: Command) -> bool:
        self.sent.append(command)
        return self.takes

    def close(self) -> None:
        self.closed = True

    def restart(self, settings: RunSettings | None = None) -> None:
        self.restarts += 1
        self.settings = settings or self.settings
        self.state = RunState()


class FakeClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeRecorded(RecordedSource):
    """A recording of the sample run, played by a real player on a clock of its own, from `position` seconds."""

    def __init__(self, position: float = 0.0, *, playing: bool = True) -> None:
        self.clock = FakeClock()
        super().__init__(Player(Recording(sample_run()), self.clock, playing=playing))
        self.player.seek(position)
        self.closed = False

    def close(self) -> None:
        self.closed = True
