"""Bare `cgtop`: the screen, or without a terminal the report; live where there is a GPU, else a recorded run."""

import contextlib
import os
import sys
from pathlib import Path
from threading import Thread

import typer

from ...core.live import on_the_cpu
from ...core.settings import RunSettings
from ...core.sources import LiveSource, bundled_recording
from .failures import CommandError, Exit, tell
from .gpu import expected_device, nvidia_gpu, torch_installed
from .options import RunOptions, option_name
from .output import Format
from .phases import phases
from .play import play_on_screen, print_recording


def top(run: RunOptions, form: Format, *, once: bool, refresh_hz: float) -> None:
    """Show a run. Raises `typer.Exit` with an exit code other than 0 where it failed."""
    settings = run.settings.validated()
    headless = once or form is not Format.REPORT or not has_screen()
    if not headless:
        Thread(target=_import_screen, daemon=True).start()
    why = why_recorded(settings)
    if why is not None:
        _recorded(run, form, why, headless=headless, refresh_hz=refresh_hz)
    elif headless:
        phases(run, form)
    else:
        _live_screen(settings, run.record, refresh_hz)


def _import_screen() -> None:
    """While the driver is asked, which takes some hundredths of a second: the import is most of the first screen's."""
    with contextlib.suppress(Exception):  # it is told where the screen is really opened
        from .. import app  # noqa: F401


def has_screen() -> bool:
    """Whether an interactive screen can be drawn and driven."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def why_recorded(settings: RunSettings) -> str | None:
    """Why a run cannot be live here; null where it can. A device that was asked for by name is always tried."""
    if settings.device != "auto":
        return None
    presence = nvidia_gpu()
    if not presence.found:
        return f"no NVIDIA GPU here: {presence.why}"
    if not torch_installed():
        return "torch, which a live run needs, is not installed for this Python"
    return None


def chosen_settings(settings: RunSettings) -> list[str]:
    """The options whose settings are not the defaults."""
    default = RunSettings()
    return [
        option_name(name) for name in settings.__struct_fields__ if getattr(settings, name) != getattr(default, name)
    ]


def not_used(run: RunOptions) -> list[str]:
    """What was asked for that recorded runs cannot follow, a line each."""
    told = []
    if ignored := chosen_settings(run.settings):
        told.append(f"of live runs only, so not used: {', '.join(ignored)}")
    if run.record is not None:
        told.append("--record keeps live runs only: nothing is recorded")
    return told


def _recorded(run: RunOptions, form: Format, why: str, *, headless: bool, refresh_hz: float) -> None:
    path, live = bundled_recording(), f"Live on this machine's CPU: {on_the_cpu()}"
    if path is None:
        raise CommandError(f"{why}; and no recorded run comes with this installation", live, Exit.NO_DEVICE)
    tell("this is a recorded run of another machine's GPU", "\n".join([why, live, *not_used(run)]))
    if headless:
        print_recording(path, form)
    else:
        play_on_screen(path, refresh_hz=refresh_hz)


def _live_screen(settings: RunSettings, record: Path | None, refresh_hz: float) -> None:
    from ..app import run_app

    source = LiveSource(settings, record, expected_device=expected_device)
    if code := run_app(source, refresh_hz=refresh_hz):
        raise typer.Exit(code)
