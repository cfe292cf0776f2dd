"""Leaving by signal: the app ends by itself so that the terminal is restored; if it cannot, the process ends anyway."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
GRACE_S = 3.0
"""How long the app may take to restore the terminal."""


class ExitSignals:
    """Handlers on the running asyncio loop for the signals that end a terminal program."""

    def __init__(self, leave: Callable[[int], None]) -> None:
        self._leave = leave
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = threading.Event()

    def install(self) -> None:
        """Take the signals over. Does nothing outside the main thread, where Python cannot."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._caught, number)

    def remove(self) -> None:
        """Give the signals back."""
        if self._loop is not None and not self._left.is_set():
            for number in SIGNALS:
                self._loop.remove_signal_handler(number)
            self._loop = None

    def _caught(self, number: int) -> None:
        if self._left.is_set():
            return
        self._left.set()
        # With the terminal gone, writing to it can block for good: do not depend on it.
        watchdog = threading.Timer(GRACE_S, os._exit, (128 + number,))
        watchdog.daemon = True
        watchdog.start()
        self._leave(number)
