"""The worker process: `python -m cgtop.core.engine.worker --event-fd N --settings JSON`.

The main thread reads commands from standard input and does nothing else, so it can end the process at any time; one GPU
thread runs the session; a telemetry thread reads NVML. When standard input closes, the process ends.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, cast

import msgspec

from ..commands import Quit, decode_command
from ..events import End, Event, Hello, Log
from ..settings import RunSettings
from .failures import error_from
from .failures import exit_code as failure_code
from .inbox import CommandQueue
from .nvml import hush_pynvml_warning
from .sink import EventSink

Emit = Callable[[Event], None]
Session = Callable[[RunSettings, CommandQueue, Emit], int]
"""Runs on the GPU thread until it is done or reads `Quit`; returns the exit code."""

DEFAULT_SESSION = "cgtop.core.engine.session:run_session"
QUIT_GRACE_S = 0.4
"""How long the GPU thread may take to see `Quit` between two steps before the process ends without it."""
FLUSH_S = 5.0
"""For the last events to be taken, by a reader that is still there."""
LEFT_FLUSH_S = 0.4
"""The same once standard input is closed: nobody waits for them."""
COMMAND_LIMIT = 1 << 20

ENVIRONMENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Set before torch or transformers is imported, where the user has not set them."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a worker; never returns."""
    options = _options(arguments)
    _die_with_parent(options.parent_pid)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _prepare_output()
    os.set_inheritable(options.event_fd, False)
    settings = msgspec.json.decode(options.settings, type=RunSettings)
    sink = EventSink(options.event_fd)
    commands = CommandQueue()
    gpu_thread = threading.Thread(
        target=_run_session, args=(options.session, settings, commands, sink), name="cgtop-gpu", daemon=True
    )
    gpu_thread.start()
    told = _read_commands(commands, sink.emit)
    commands.put(Quit())
    gpu_thread.join(QUIT_GRACE_S)  # one that returns in time ends the process itself
    sink.emit(End(reason="quit while the GPU thread was busy"))
    _end_process(sink, 0, FLUSH_S if told else LEFT_FLUSH_S)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cgtop-worker")
    parser.add_argument("--event-fd", type=int, required=True)
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--session", default=DEFAULT_SESSION, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _die_with_parent(parent_pid: int | None) -> None:
    """Ask Linux to kill this process when the thread that started it ends, which is when the user interface is gone."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:  # it died before the request was made
        os._exit(1)


def _prepare_output() -> None:
    """Let every line reach the log pane when it is printed, also from C, and a crash say where it happened."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        line_buffered = 1  # _IOLBF in glibc and musl
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, line_buffered, 0)
    faulthandler.enable()


def _read_commands(commands: CommandQueue, emit: Emit) -> bool:
    """Until `Quit`, then true, or the end of standard input."""
    while line := sys.stdin.buffer.readline(COMMAND_LIMIT):
        try:
            command = decode_command(line)
        except ValueError as error:
            emit(Log(source="engine", text=f"a command was not understood: {error}"))
            continue
        if isinstance(command, Quit):
            return True
        commands.put(command)
    return False


def _run_session(name: str, settings: RunSettings, commands: CommandQueue, sink: EventSink) -> None:
    """The GPU thread."""
    telemetry_start, telemetry_stop = threading.Event(), threading.Event()
    on_cpu = threading.Event()

    def emit(event: Event) -> None:
        sink.emit(event)
        if isinstance(event, Hello):
            if event.device.kind == "cpu":
                on_cpu.set()
            telemetry_start.set()

    def telemetry() -> None:
        telemetry_start.wait()
        _run_telemetry("cpu" if on_cpu.is_set() else settings.device, sink.emit, telemetry_stop)

    threading.Thread(target=telemetry, name="cgtop-telemetry", daemon=True).start()
    hush_pynvml_warning()
    try:
        exit_code = _load_session(name)(settings, commands, emit)
        reason = "done" if exit_code == 0 else f"ended with exit code {exit_code}"
    except BaseException as error:
        told = error_from(error, None)
        exit_code, reason = failure_code(told.kind), f"{type(error).__name__} in the engine"
        emit(told)
    telemetry_stop.set()
    emit(End(reason=reason, exit_code=exit_code))
    _end_process(sink, exit_code)


def _load_session(name: str) -> Session:
    module, _, function = name.partition(":")
    return cast(Session, getattr(importlib.import_module(module), function))


def _run_telemetry(device: str, emit: Emit, stop: threading.Event) -> None:
    """NVML until `stop`; whatever happens here, the run goes on."""
    try:
        module = importlib.import_module("cgtop.core.engine.telemetry")
        cast(Callable[[str, Emit, threading.Event], None], module.telemetry_loop)(device, emit, stop)
    except BaseException as error:
        emit(Log(source="engine", text=f"telemetry stopped: {type(error).__name__}: {error}"))


def _end_process(sink: EventSink, exit_code: int, flush_s: float = FLUSH_S) -> NoReturn:
    """Without interpreter shutdown, which would wait for a thread that hangs in a kernel."""
    sink.close(flush_s)
    os._exit(exit_code)


if __name__ == "__main__":
    main()
