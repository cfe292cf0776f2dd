"""The recordings that come with cgtop, as states."""

import importlib.resources
from functools import reduce
from pathlib import Path

import msgspec

from . import recordings
from .recording import RecordingError, open_recording
from .state import RunState, fold


class RecordedRun(msgspec.Struct, frozen=True):
    """A recording read to its end, with the name to call it by."""

    name: str
    state: RunState


def recorded_run(path: Path) -> RecordedRun:
    """A recording's last state. Raises `RecordingError` for a file that is none."""
    return RecordedRun(path.name, reduce(fold, open_recording(path).events, RunState()))


def bundled_runs() -> list[RecordedRun]:
    """Every bundled recording that can be read, the newest first."""
    runs = []
    for entry in importlib.resources.files(recordings).iterdir():
        if entry.name.endswith(".jsonl.gz"):
            try:
                runs.append(recorded_run(Path(str(entry))))
            except RecordingError:
                continue
    return sorted(runs, key=lambda run: (run.state.hello.started_at if run.state.hello else "", run.name), reverse=True)
