"""Where a surface's state comes from: a worker, or a recording. Both look the same to what draws."""

import contextlib
import gzip
import importlib.resources
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from . import recordings
from .client import EngineClient
from .commands import Command, Pause, Resume, RunAll, RunPhase
from .events import DeviceInfo, Event, Log, Status
from .playback import Player
from .recorder import RecordingError, RecordingWriter
from .settings import RunSettings
from .state import RunState, fold

EXPERIMENTS = ("-scaling", "-batches", "-bench", "-check", "-claims")
"""How the names of bundled recordings end that are no run of all phases."""
TAKE_S = 0.05
"""A poll takes events for no longer: those that come faster wait for the next, and keys are answered between them."""
TAKE_LAST_S = 0.5
"""The same when it closes: a flood is cut off, and its recording breaks off as if it had been killed."""
TAKEN_AT_ONCE = 200
RESTART_WAIT_S = 10.0
"""A new worker is started after this even if the old one is not gone."""


class Source(Protocol):
    """What a screen reads. Not for more than one thread."""

    @property
    def kind(self) -> Literal["live", "recorded"]:
        """Whether the state is of this machine, now."""

    def poll(self) -> RunState:
        """The state now. Never waits; the same object as before if nothing happened."""

    def send(self, command: Command) -> bool:
        """Hand on a command. False if it means nothing here or there is nobody to take it."""

    def close(self) -> None:
        """End what is behind it."""


class LiveSource:
    """A worker's events folded, and recorded if `record_to` is given.

    A recording that cannot be written is said once, in the log and as a `Status` with `refused="record"`; the run goes
    on without it. Where none is asked for, the run is kept in a nameless temporary file, for `save_recording`.
    """

    def __init__(
        self,
        settings: RunSettings,
        record_to: Path | None = None,
        *,
        python: str = sys.executable,
        session: str | None = None,
        expected_device: Callable[[RunSettings], DeviceInfo | None] = lambda settings: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expected_device` tells what is known of a device before a worker is there to say it."""
        self.settings = settings
        self._expected_device = expected_device
        self._record_to = record_to
        self._python = python
        self._session = session
        self._clock = clock
        self.recording_error: str | None = None
        """Why nothing is recorded although it was asked for."""
        self._runs = 0
        self._state = RunState(expected_device=expected_device(settings))
        self._writer: RecordingWriter | None = None
        self._client: EngineClient | None = None
        self._give_up_at: float | None = None
        """Set while an old worker is on its way out: when to stop waiting for it."""
        self._start()

    @property
    def kind(self) -> Literal["live", "recorded"]:
        """Live."""
        return "live"

    @property
    def pid(self) -> int | None:
        """Of the worker; null where none could be started."""
        return self._client.pid if self._client is not None else None

    @property
    def restarting(self) -> bool:
        """Whether an old worker is still on its way out."""
        return self._give_up_at is not None

    @property
    def recording_to(self) -> Path | None:
        """The file that is being written."""
        return self._writer.path if self._writer is not None else None

    def save_recording(self, path: Path) -> None:
        """Save what has happened so far in this run as a recording. Raises `RecordingError`."""
        if self._writer is None:
            raise RecordingError(self.recording_error or "there is no run to save")
        self._writer.copy_to(path)

    def poll(self) -> RunState:
        """Take what has come, record it, fold it; in a flood as much as there is time for."""
        if self._client is None:
            return self._state
        if self._give_up_at is not None:
            self._client.drain()  # of the run that was given up
            if not self._client.alive or self._clock() >= self._give_up_at:
                self._give_up_at = None
                self._start()
            return self._state
        self._take_for(self._client, TAKE_S)
        if self._writer is not None:
            self._recorded(self._writer.flush_if_due)
        return self._state

    def send(self, command: Command) -> bool:
        """Send a command to the worker."""
        return self._client is not None and not self.restarting and self._client.send(command)

    def restart(self, settings: RunSettings | None = None) -> None:
        """Give up this run: end the worker and, as soon as it is gone, start another. `poll` sees to it.

        The old worker's memory is free before the new one asks for any. Another run is another recording: "run.jsonl"
        is followed by "run-2.jsonl".
        """
        if self._client is None:
            return
        self.settings = settings or self.settings
        self._finish_recording()
        self._state = RunState(expected_device=self._expected_device(self.settings))
        self._client.begin_close(0.2)
        self._give_up_at = self._clock() + RESTART_WAIT_S

    def close(self) -> None:
        """End the worker, take its last events, finish the recording."""
        if self._client is None:
            return
        self._client.close()
        if not self.restarting:
            self._take_for(self._client, TAKE_LAST_S)
        self._finish_recording()
        self._client = None

    def _start(self) -> None:
        self._runs += 1
        self.recording_error = None
        path = self._free_path(self._record_to) if self._record_to is not None else None
        try:
            self._writer = RecordingWriter(path, self.settings, clock=self._clock)
        except RecordingError as error:
            self._say_not_recording(error)
        self._client = EngineClient(self.settings, python=self._python, session=self._session)

    def _free_path(self, named: Path) -> Path:
        """Where this run is recorded: the first was named by a person, those after it overwrite nothing."""
        while self._runs > 1 and numbered(named, self._runs).exists():
            self._runs += 1
        return numbered(named, self._runs)

    def _take_for(self, client: EngineClient, seconds: float) -> None:
        until = time.monotonic() + seconds
        while events := client.drain(TAKEN_AT_ONCE):
            for event in events:
                self._take(event)
            if time.monotonic() >= until:
                break

    def _take(self, event: Event) -> None:
        self._state = fold(self._state, event)
        if self._writer is not None:
            writer = self._writer
            self._recorded(lambda: writer.write(event))

    def _recorded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except RecordingError as error:
            self._writer = None
            self._say_not_recording(error)

    def _say_not_recording(self, error: RecordingError) -> None:
        t, why = self._state.t, str(error)
        self.recording_error = why
        if self._record_to is None:  # nobody asked for it yet
            return
        status = self._state.status or Status(state="idle")
        self._state = fold(self._state, Log(t=t, source="client", text=why))
        self._state = fold(self._state, msgspec.structs.replace(status, t=t, refused="record", why=why))

    def _finish_recording(self) -> None:
        if self._writer is not None:
            self._recorded(self._writer.close)
            self._writer = None


class RecordedSource:
    """A recording played. The commands that have a meaning for one steer the player."""

    def __init__(self, player: Player) -> None:
        self.player = player

    @property
    def kind(self) -> Literal["live", "recorded"]:
        """Recorded."""
        return "recorded"

    def poll(self) -> RunState:
        """The state at the player's position."""
        return self.player.state

    def send(self, command: Command) -> bool:
        """`RunPhase` goes to the next stop, `RunAll` and `Resume` play, `Pause` pauses; the rest is refused."""
        match command:
            case RunPhase():
                return self.player.next_stop() is not None
            case RunAll() | Resume():
                self.player.play()
            case Pause():
                self.player.pause()
            case _:
                return False
        return True

    def close(self) -> None:
        """Nothing to end."""


def bundled_recording() -> Path | None:
    """The newest run of all phases that comes with cgtop, by the date inside it; null where there is none.

    Recordings of experiments lie beside it under the same name with the experiment's added: `…-batches.jsonl.gz`.
    """
    found = [
        Path(str(entry))
        for entry in importlib.resources.files(recordings).iterdir()
        if entry.name.endswith(".jsonl.gz") and not entry.name.removesuffix(".jsonl.gz").endswith(EXPERIMENTS)
    ]
    return max(found, key=lambda path: (_started_at(path), path.name), default=None)


def numbered(path: Path, number: int) -> Path:
    """`path` for the first run, then "name-2.ext" and so on."""
    if number == 1:
        return path
    suffixes = "".join(suffix for suffix in path.suffixes[-2:] if suffix in (".jsonl", ".json", ".gz"))
    stem = path.name.removesuffix(suffixes)
    return path.with_name(f"{stem}-{number}{suffixes}")


def _started_at(path: Path) -> str:
    with contextlib.suppress(OSError, EOFError, ValueError), gzip.open(path) as file:
        for _ in range(100):
            first = msgspec.json.decode(file.readline(1 << 16))
            if isinstance(first, dict) and first.get("event") == "hello":
                return str(first.get("started_at", ""))
    return ""
