"""`cgtop play`: a recording on the screen, or the report, Markdown or lines of it."""

from pathlib import Path

import typer

from ...core.playback import Player
from ...core.recording import Recording, RecordingError, open_recording
from ...core.sources import RecordedSource
from .failures import CommandError, tell
from .output import Format, write_recorded


def play(path: Path, form: Format, *, on_screen: bool, speed: float, refresh_hz: float) -> None:
    """Play or print a recording. Raises `CommandError` for a file that is none."""
    if on_screen:
        play_on_screen(path, speed=speed, refresh_hz=refresh_hz)
    else:
        print_recording(path, form)


def print_recording(path: Path, form: Format) -> None:
    """What `phases` would have written of this run, marked as recorded."""
    write_recorded(opened(path).events, form)


def play_on_screen(path: Path, *, refresh_hz: float, speed: float = 1.0) -> None:
    """Play a recording. Raises `typer.Exit` where the screen was left by a signal."""
    source = RecordedSource(Player(opened(path), speed=speed))
    from ..app import run_app

    if code := run_app(source, refresh_hz=refresh_hz):
        raise typer.Exit(code)


def opened(path: Path) -> Recording:
    """A recording; what of it could not be read is told. Raises `CommandError` for a file that is none."""
    try:
        recording = open_recording(path)
    except RecordingError as error:
        raise CommandError(str(error), "cgtop phases --record FILE makes a recording") from error
    if recording.truncated:
        tell(f"{path}: breaks off, as a recording does whose run was killed")
    if recording.skipped:
        tell(f"{path}: {recording.skipped:,} lines could not be read and are left out")
    return recording
