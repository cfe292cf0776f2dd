"""What the app needs of a source of states; `core` has those of a live run and of a recording."""

from typing import Protocol, runtime_checkable

from ..core.commands import Command
from ..core.state import RunState
from .keys import SourceKind
from .widgets.title import Playback


class Source(Protocol):
    """Where states come from and commands go to. Nothing in here may wait."""

    @property
    def kind(self) -> SourceKind:
        """Whether what it shows happens now, on this machine."""
        ...

    def poll(self) -> RunState:
        """The present state: the same object as before if nothing happened."""
        ...

    def send(self, command: Command) -> None:
        """Ask the engine for something."""
        ...

    def close(self) -> None:
        """End the worker, or close the file."""
        ...


@runtime_checkable
class Restartable(Source, Protocol):
    """A live source."""

    def restart(self) -> None:
        """A new worker, from nothing."""
        ...


@runtime_checkable
class Recorded(Source, Protocol):
    """A recording being played."""

    def playback(self) -> Playback:
        """Where it is."""
        ...

    def play(self) -> None:
        """Play on."""
        ...

    def toggle(self) -> None:
        """Play or pause."""
        ...

    def seek(self, position: float) -> None:
        """Go to a position in seconds; outside the recording, to its nearest end."""
        ...

    def next_phase(self) -> None:
        """Go to the end of the next phase, and pause there."""
        ...
