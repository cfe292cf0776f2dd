"""Leaving without being asked by key: by signal, or because the terminal is gone.

The app ends by itself, so that the terminal is restored; where it cannot, the process ends anyway.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
GRACE_S = 3.0
"""How long the app may take to restore the terminal."""


class Departure:
    """Calls `leave` with a signal's number, once: `SIGHUP` where the terminal went away without a word."""

    def __init__(self, leave: Callable[[int], None]) -> None:
        self._leave = leave
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = False
        self._watched = False
        self._needs_terminal = False

    def install(self, *, needs_terminal: bool) -> None:
        """Take over the signals, on the running loop. Does no more outside the main thread, where Python cannot.

        `needs_terminal`: whether the app is drawn on one, which may have gone while the app was starting.
        """
        self._needs_terminal = needs_terminal
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self.depart, number)
            # The loop may itself wait for a terminal that nobody reads: a handler that interrupts it runs even so.
            signal.signal(number, self._watch)

    def remove(self) -> None:
        """Give the signals back, unless one of them is the reason."""
        if self._loop is not None and not self._left:
            for number in SIGNALS:
                self._loop.remove_signal_handler(number)
        self._loop = None

    def look_for_terminal(self) -> None:
        """Leave if the terminal is gone. Textual reads on, without end, from one that was hung up."""
        if self._needs_terminal and not has_terminal():
            self.depart(signal.SIGHUP)

    def depart(self, number: int) -> None:
        """Leave because of this signal."""
        if self._left:
            return
        self._left = True
        self._watch(number)
        self._leave(number)

    def _watch(self, number: int, frame: FrameType | None = None) -> None:
        """Writing to a terminal that is gone, or that nobody reads, can block for good: do not depend on it."""
        if self._watched:
            return
        self._watched = True
        watchdog = threading.Timer(GRACE_S, os._exit, (128 + number,))
        watchdog.daemon = True
        watchdog.start()


def has_terminal() -> bool:
    """Whether standard input is a terminal that is still there."""
    try:
        return sys.__stdin__ is not None and os.isatty(sys.__stdin__.fileno())
    except (OSError, ValueError):
        return False


def has_job_control() -> bool:
    """Whether a stopped program would come back: a shell with job control gives each one a process group of its own."""
    return os.getpgrp() != os.getsid(0)
