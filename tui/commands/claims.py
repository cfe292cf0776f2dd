"""`cgtop claims`: every statement of the guide against recordings, or against a run made for it."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from ...core.bundled import bundled_runs, telling_states
from ...core.claims import claims_of
from ...core.commands import BreakInput, Command, MendInput, Quit, RunAll, RunSweep, TryDynamicCapture
from ...core.events import Event
from ...core.settings import RunSettings
from ...core.state import RunState
from ..report import Origin
from ..report.claims import NamedRun, claims_report
from .failures import CommandError, Exit, tell
from .headless import Outcome, Sink, run_command
from .options import RunOptions
from .output import Format, write_line
from .phases import Recording, start_engine, tell_trouble
from .play import opened
from .progress import ProgressLines
from .script import Scripted
from .top import not_used, why_recorded

QUICK: tuple[Command, ...] = (RunAll(), TryDynamicCapture(), BreakInput(), MendInput(), RunAll(release=True))
SWEEPS: tuple[Command, ...] = (RunSweep(sweep="cache_lens"), RunSweep(sweep="batches"))
UP_TO_REPLAY: tuple[Command, ...] = (RunAll(), Quit())
FEWER_WARMUPS = (0, 1)
"""Runs beside the guide's three."""
SHORT_TOKENS = 64


def claims(files: Sequence[Path], run: RunOptions, form: Format, *, quick: bool) -> None:
    """Write the verdicts. Raises `typer.Exit` where a live run failed."""
    settings = run.settings.validated()
    if files:
        if run.record is not None:
            raise CommandError("--record keeps a live run; FILE names what is judged", code=Exit.WRONG_USAGE)
        _write(_recorded(files), Origin(recorded=True), form)
        return
    why = why_recorded(settings)
    if why is None:
        _live(settings, run.record, form, quick=quick)
        return
    bundled = [named for recorded in bundled_runs() for named in named_runs(recorded.states, recorded.name)]
    if not bundled:
        raise CommandError(f"{why}; and no recorded run comes with this installation", code=Exit.NO_DEVICE)
    tell("judged by the recorded runs that come with cgtop", "\n".join([why, *not_used(run)]))
    _write(bundled, Origin(recorded=True), form)


def named_runs(states: Sequence[RunState], file: str = "") -> list[NamedRun]:
    """What to call the runs of one stream, as `telling_states` gives them: by its file, with a number where it holds
    several."""
    hellos: dict[int, int] = {}
    for state in (*states[1:], *states[:1]):  # the last one leads
        hellos.setdefault(id(state.hello), len(hellos) + 1)
    if len(hellos) == 1:
        return [NamedRun(file or "the run", state) for state in states]
    return [NamedRun(f"{file} run {hellos[id(state.hello)]}".strip(), state) for state in states]


def _recorded(files: Sequence[Path]) -> list[NamedRun]:
    """Each file's runs under its name, or its whole path where another file has the same name."""
    names = Counter(file.name for file in files)
    return [
        run
        for file in files
        for run in named_runs(telling_states(opened(file).events), file.name if names[file.name] == 1 else str(file))
    ]


def _live(settings: RunSettings, record: Path | None, form: Format, *, quick: bool) -> None:
    events: list[Event] = []
    sinks: list[Sink] = [events.append, *([write_line] if form is Format.JSON else [])]
    progress = None
    if sys.stderr.isatty():
        progress = ProgressLines(sys.stderr, rewrites=os.environ.get("TERM", "dumb") != "dumb")
        sinks.append(progress)
    recording = Recording(record, settings) if record is not None else None
    if recording is not None:
        sinks.append(recording)
    try:
        outcomes = _measure(settings, sinks, quick=quick)
        _write(named_runs(telling_states(events)), Origin(), form, recording)
    finally:
        if progress is not None:
            progress.close()
        if recording is not None:
            recording.close()
    for outcome in outcomes:
        tell_trouble(outcome)
    raise typer.Exit(max(int(outcome.exit_code) for outcome in outcomes))


def _measure(settings: RunSettings, sinks: Sequence[Sink], *, quick: bool) -> list[Outcome]:
    """The run itself; unless `quick`, runs with fewer warmups and one with the guide's streams. A failure ends it."""
    plans = [(settings, QUICK if quick else (*QUICK[:-1], *SWEEPS, QUICK[-1]))]
    if not quick:
        short = msgspec.structs.replace(settings, verify_steps=0, tokens=SHORT_TOKENS)
        plans += [(msgspec.structs.replace(short, warmup=steps), UP_TO_REPLAY) for steps in FEWER_WARMUPS]
        plans.append((msgspec.structs.replace(short, guide_streams=True), UP_TO_REPLAY))
    outcomes: list[Outcome] = []
    for wanted, commands in plans:
        outcomes.append(run_command(Scripted(start_engine(wanted), commands), RunAll(release=True), sinks))
        if outcomes[-1].exit_code:
            break
    return outcomes


def _write(runs: Sequence[NamedRun], origin: Origin, form: Format, recording: Recording | None = None) -> None:
    found = claims_of([run.state for run in runs], [run.name for run in runs])
    for claim in found:
        if recording is not None:
            recording(claim)
        if form is Format.JSON:
            write_line(claim)
    if form is Format.JSON:
        return
    from ..tables import markdown, print_report

    report = claims_report(found, runs, origin)
    if form is Format.MARKDOWN:
        sys.stdout.write(markdown(report))
    else:
        print_report(report, sys.stdout)
