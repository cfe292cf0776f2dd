"""The recordings that come with cgtop, as states."""

import contextlib
import functools
import importlib.resources
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec

from . import recordings
from .events import Event, Hello
from .live import command
from .recording import RecordingError, open_recording
from .state import RunState, fold


class RecordedRun(msgspec.Struct, frozen=True):
    """A recording read to its end, with the name to call it by. `states` as `telling_states` gives them."""

    name: str
    states: tuple[RunState, ...]

    @property
    def state(self) -> RunState:
        """The last."""
        return self.states[0]


def telling_states(events: Iterable[Event]) -> tuple[RunState, ...]:
    """The last state, then that of each run before it."""
    state, kept = RunState(), list[RunState]()
    for event in events:
        if isinstance(event, Hello) and state.hello is not None:
            kept.append(state)
        state = fold(state, event)
    return (state, *kept)


def bundled_runs() -> list[RecordedRun]:
    """Every bundled recording that can be read: runs that came to the replay first, then by date, the newest first."""
    runs = []
    for entry in importlib.resources.files(recordings).iterdir():
        if entry.name.endswith(".jsonl.gz"):
            try:
                recording = open_recording(Path(str(entry)))
            except RecordingError:
                continue
            runs.append(RecordedRun(entry.name, telling_states(recording.events)))
    return sorted(runs, key=_rank, reverse=True)


def play_command(*experiments: str) -> str:
    """`cgtop play …-batches.jsonl.gz`, of the first of these experiments that a bundled recording holds; else nothing.

    The file is named as the shell finds it from the working directory.
    """
    for experiment in experiments:
        for path in _experiment_files(experiment):
            with contextlib.suppress(ValueError, OSError):
                path = path.relative_to(Path.cwd())
            return f"{command()} play {shlex.quote(str(path))}"
    return ""


@functools.cache
def _experiment_files(experiment: str) -> tuple[Path, ...]:
    entries = importlib.resources.files(recordings).iterdir()
    names = sorted(str(entry) for entry in entries if entry.name.endswith(f"-{experiment}.jsonl.gz"))
    return tuple(Path(name) for name in names)


def _rank(run: RecordedRun) -> tuple[bool, str, str]:
    state = run.state
    return state.phase("replay").end is not None, state.hello.started_at if state.hello else "", run.name
