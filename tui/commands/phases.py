"""`cgtop phases`: all phases on a real model without a screen, then the report."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ...core.commands import Command, RunAll
from ...core.events import Event
from ...core.recorder import RecordingError, RecordingWriter
from ...core.settings import RunSettings
from ..report import Origin
from .failures import CommandError, Exit, tell
from .gpu import instead_of_a_gpu, nvidia_gpu
from .headless import Engine, Outcome, Sink, run_command
from .options import RunOptions
from .output import Format, write_line, write_report
from .progress import ProgressLines

LOG_LINES_TOLD = 10


def phases(run: RunOptions, form: Format) -> None:
    """Run all phases live and write what came of them. Raises `typer.Exit` with the run's exit code."""
    settings = run.settings.validated()
    require_device(settings, instead_of_a_gpu(first="--device cpu runs the phases that a CPU has"))
    outcome = measure(settings, run.record, form)
    if any(phase.status != "pending" for phase in outcome.state.phases):
        write_report(outcome.state, Origin(), form)
    tell_trouble(outcome)
    raise typer.Exit(int(outcome.exit_code))


def require_device(settings: RunSettings, hint: str) -> None:
    """Raise `CommandError` with exit code 3 where no GPU is there and no other device is named."""
    if settings.device != "auto":
        return
    presence = nvidia_gpu()
    if not presence.found:
        raise CommandError(f"no NVIDIA GPU to measure on: {presence.why}", hint, Exit.NO_DEVICE)


def measure(settings: RunSettings, record: Path | None, form: Format, command: Command | None = None) -> Outcome:
    """Carry a command out in a worker (None: run all phases): events to the recording and, as lines, to the output."""
    recording = Recording(record, settings) if record is not None else None
    sinks: list[Sink] = [write_line] if form is Format.JSON else []
    progress = None
    if sys.stderr.isatty():
        progress = ProgressLines(sys.stderr, rewrites=os.environ.get("TERM", "dumb") != "dumb")
        sinks.append(progress)
    if recording is not None:
        sinks.append(recording)
    try:
        return run_command(start_engine(settings), command or RunAll(release=True), sinks)
    finally:
        if progress is not None:
            progress.close()
        if recording is not None:
            recording.close()


def start_engine(settings: RunSettings) -> Engine:
    """A worker for these settings."""
    from ...core.client import EngineClient

    return EngineClient(settings)


class Recording:
    """A sink that keeps the run in a file.

    Raises `CommandError` where the file cannot be opened. One that cannot be written later is told of once, and the run
    goes on.
    """

    def __init__(self, path: Path, settings: RunSettings) -> None:
        try:
            self._writer: RecordingWriter | None = RecordingWriter(path, settings)
        except RecordingError as error:
            raise CommandError(str(error), "nothing was run: name another file", Exit.WRONG_USAGE) from error

    def __call__(self, event: Event) -> None:
        """Write one event."""
        if self._writer is not None:
            with self._told():
                self._writer.write(event)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            with self._told():
                self._writer.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except RecordingError as error:
            self._writer = None
            tell(f"{error}; the run goes on")


def tell_trouble(outcome: Outcome) -> None:
    """What went wrong, on standard error."""
    state = outcome.state
    for error in state.errors:
        tell(error.headline, error.hint)
    if any(error.kind == "worker_died" for error in state.errors):
        for line in state.log[-LOG_LINES_TOLD:]:
            tell(f"{line.source}: {line.text}")
    if state.end is not None and state.end.signal is not None and not state.errors:
        tell(state.end.reason)
    elif state.status is not None and state.status.refused is not None:
        tell(f"{state.status.refused} was refused: {state.status.why}")
    elif state.verification is not None and state.verification.verdict == "mismatch":
        tell("MISMATCH: the replay's logits are not those of the eager steps; no speed is valid")
