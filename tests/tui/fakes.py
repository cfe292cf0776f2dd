"""A source for tests of the screen: it shows the states that a test gives it, and keeps what it was asked for."""

from collections.abc import Iterable

from cgtop.core.commands import Command
from cgtop.core.events import Event
from cgtop.core.state import RunState, fold
from cgtop.tui.widgets.title import Playback
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

    kind = "live"

    def __init__(self, state: RunState | None = None) -> None:
        self.state = state if state is not None else RunState()
        self.sent: list[Command] = []
        self.closed = False
        self.restarts = 0

    def poll(self) -> RunState:
        return self.state

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def close(self) -> None:
        self.closed = True

    def restart(self) -> None:
        self.restarts += 1
        self.state = RunState()


class FakeRecorded:
    """A recording of the sample run."""

    kind = "recorded"

    def __init__(self, state: RunState | None = None) -> None:
        self.state = state if state is not None else RunState()
        self.calls: list[str] = []
        self.position = 10.0
        self.playing = True

    def poll(self) -> RunState:
        return self.state

    def send(self, command: Command) -> None:
        raise AssertionError(f"a recording was sent {command}")

    def close(self) -> None:
        self.calls.append("close")

    def playback(self) -> Playback:
        return Playback(position=self.position, duration=100.0, playing=self.playing)

    def play(self) -> None:
        self.calls.append("play")
        self.playing = True

    def toggle(self) -> None:
        self.calls.append("toggle")
        self.playing = not self.playing

    def seek(self, position: float) -> None:
        self.calls.append(f"seek {position:g}")
        self.position = position

    def next_phase(self) -> None:
        self.calls.append("next_phase")
