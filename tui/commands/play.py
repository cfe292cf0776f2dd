"""`cgtop play`: a recording on the screen, or the report, Markdown or lines of it."""

from pathlib import Path

import typer

from .failures import CommandError, Exit
from .output import Format, write_recorded


def play(path: Path, form: Format, *, on_screen: bool, speed: float, refresh_hz: float) -> None:
    """Play or print a recording. Raises `CommandError` for a file that is none."""
    if on_screen:
        play_on_screen(path, speed=speed, refresh_hz=refresh_hz)
    else:
        print_recording(path, form)


def print_recording(path: Path, form: Format) -> None:
    """What `phases` would have written of this run, marked as recorded."""
    from ...core.recording import RecordingError, open_recording

    try:
        recording = open_recording(path)
    except (RecordingError, OSError) as error:
        raise unreadable(path, error) from error
    write_recorded(recording.events, form)


def play_on_screen(path: Path, *, refresh_hz: float, speed: float = 1.0) -> None:
    """Play a recording. Raises `typer.Exit` where the screen was left by a signal."""
    from ...core.recording import RecordingError, open_recording
    from ...core.sources import RecordedSource

    try:
        source = RecordedSource(open_recording(path), speed=speed)
    except (RecordingError, OSError) as error:
        raise unreadable(path, error) from error
    from ..app import run_app

    if code := run_app(source, refresh_hz=refresh_hz):
        raise typer.Exit(code)


def unreadable(path: Path, error: Exception) -> CommandError:
    """The failure of a file that cannot be played."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return CommandError(f"{path}: {reason}", "cgtop phases --record FILE makes a recording", Exit.RUN_FAILED)
