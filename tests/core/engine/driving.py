"""Drives real sessions on the real tiny model: on the CPU, or on a device that pretends to capture."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from cgtop.core.commands import Command, Quit
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.engine.opening import open_run
from cgtop.core.engine.session import Session
from cgtop.core.events import Event
from cgtop.core.settings import RunSettings
from tests.fakes.device import PretendDevice
from tests.fakes.pretend import pretending

E = TypeVar("E", bound=Event)
SMALL = RunSettings(model="tiny", device="cpu", prompt_len=7, max_cache_len=40, tokens=20, warmup=3)


class Driven:
    """A session with its events; commands are queued, then `run` serves them until `Quit`."""

    def __init__(self, settings: RunSettings = SMALL, *, pretend: bool = False) -> None:
        opening = open_run(settings)
        self.pretend: PretendDevice | None = None
        self.events: list[Event] = []
        self.queue = CommandQueue()
        if pretend:
            self.session, self.pretend = pretending(opening, self.queue, self._take)
        else:
            self.session = Session(opening, self.queue, self._take)
        self.then: Callable[[Event], Command | None] = lambda event: None
        """What to send when an event came; nothing more is sent by itself."""

    def _take(self, event: Event) -> None:
        self.events.append(event)
        command = self.then(event)
        if command is not None:
            self.queue.put(command)  # type: ignore[arg-type]

    def run(self, *commands: Command, quit_after: bool = True) -> int:
        """Serve these commands, in order, without waiting between them."""
        for command in (*commands, *([Quit()] if quit_after else [])):
            self.queue.put(command)  # type: ignore[arg-type]
        return self.session.serve()

    def of(self, kind: type[E]) -> list[E]:
        """All events of one type so far."""
        return [event for event in self.events if isinstance(event, kind)]


def with_(settings: RunSettings = SMALL, **changes: object) -> RunSettings:
    return msgspec.structs.replace(settings, **changes)


def last(events: Iterable[E]) -> E:
    return list(events)[-1]
