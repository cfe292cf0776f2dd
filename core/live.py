"""How to go live from here: the command that works for this installation, by what is installed and where cgtop lies."""

import contextlib
import importlib.util
import platform
import shlex
import shutil
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "transformers")


def is_checkout(folder: Path = CHECKOUT) -> bool:
    """Whether cgtop runs from a source checkout, where `make` sets everything up."""
    return (folder / "Makefile").is_file() and (folder / "scripts" / "environment.py").is_file()


def has_live_packages() -> bool:
    """Whether a worker could import what it needs; looks for the packages only."""
    return all(importlib.util.find_spec(package) is not None for package in PACKAGES)


def command() -> str:
    """What starts cgtop in the shell it is told in: `cgtop` where that is found, else the script beside this Python."""
    script = Path(sys.executable).parent / "cgtop"
    if shutil.which("cgtop") is not None or not script.is_file():
        return "cgtop"
    with contextlib.suppress(ValueError, OSError):
        script = script.relative_to(Path.cwd())
    return shlex.quote(str(script))


def cpu_name() -> str:
    """What a CPU is called: "CPU (x86_64)"."""
    return f"CPU ({platform.machine() or 'unknown'})"


def on_the_cpu() -> str:
    """The command that goes live on this machine's CPU, with all set-up that it takes."""
    if has_live_packages():
        return f"{command()} --device cpu"
    return 'make run ARGS="--device cpu"' if is_checkout() else "pip install 'cgtop[live]', then cgtop --device cpu"


def to_install(requirement: str) -> str:
    """How to get a package that a live run needs, as a sentence."""
    pip = f"pip install '{requirement}'"
    if is_checkout():
        return f'make run ARGS="--device cpu" sets up what a live run needs; or install it where cgtop runs: {pip}.'
    return f"Install it where cgtop runs: {pip}."
