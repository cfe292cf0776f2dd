"""What `s` saves: the screen, the report and the recording of a run, in a folder of its own."""

from datetime import datetime
from pathlib import Path

from ..core.recording import RecordingError, RecordingWriter
from ..core.redaction import Redactor
from ..core.sources import RecordedSource, Source
from ..core.state import RunState
from .base_app import Recording
from .report import Origin, report
from .tables import markdown

SCREEN, REPORT, RECORDING = "screen.svg", "report.md", "recording.jsonl.gz"


class SaveError(Exception):
    """Something was not saved; the message says what and why, in one line."""


def new_folder(parent: Path, now: datetime) -> Path:
    """A folder that was not there, named after the time. Raises `OSError`."""
    stem = f"cgtop-{now:%Y-%m-%d-%H%M%S}"
    for number in range(1, 100):
        folder = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{stem} is there already, 99 times")


def save_into(folder: Path, svg: str, state: RunState, source: Source) -> tuple[str, ...]:
    """Save all three; the names of the files. Raises `OSError`, and `SaveError` where only the recording is missing."""
    (folder / SCREEN).write_text(svg, encoding="utf-8")
    text = markdown(report(state, Origin(recorded=source.kind == "recorded")))
    (folder / REPORT).write_text(text, encoding="utf-8")
    try:
        _save_recording(folder / RECORDING, source)
    except RecordingError as error:
        raise SaveError(f"the recording ({error}); {SCREEN} and {REPORT} are in {folder.name}/") from error
    return SCREEN, REPORT, RECORDING


def _save_recording(path: Path, source: Source) -> None:
    if isinstance(source, RecordedSource):
        # Redacted by the machine that it comes from: this one's names mean nothing in it.
        writer = RecordingWriter(path, redactor=Redactor(names=()))
        for event in source.player.recording.events:
            writer.write(event)
        writer.close()
    elif isinstance(source, Recording):
        source.save_recording(path)
