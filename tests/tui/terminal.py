"""A program in a real pseudo-terminal: what its screen shows, what it writes, what it costs."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import pyte

from tests.fakes.processes import PATIENCE_S

ROOT = Path(__file__).parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
LIVE = """
import sys
from pathlib import Path
from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from cgtop.tui.app import run_app
record = Path(sys.argv[2]) if len(sys.argv) > 2 else None
sys.exit(run_app(LiveSource(RunSettings(), record, session=sys.argv[1])))
"""
"""A live screen on a session of `tests.fakes`; arguments: the session, and where to record."""


class Terminal:
    """Runs a command until it is left; its screen is kept up by a thread."""

    def __init__(self, *command: str, size: tuple[int, int] = (120, 36)) -> None:
        self.screen = pyte.Screen(*size)
        self.written = 0
        """Bytes that the program has written."""
        self._stream = pyte.ByteStream(self.screen)
        self._changed = threading.Condition()
        self._text: tuple[int, str] = (-1, "")
        """What it showed when so many bytes were written: drawing it anew takes long."""
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.modes_before = termios.tcgetattr(self._theirs)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CGTOP_")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=self._theirs, stdout=self._theirs, stderr=self._theirs, start_new_session=True,
            env=environment | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def live(cls, session: str, *record: str, size: tuple[int, int] = (120, 36)) -> "Terminal":
        """A live screen on a session of `tests.fakes`."""
        return cls(sys.executable, "-c", LIVE, f"tests.fakes.{session}", *record, size=size)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        self._reader.join(5)
        os.close(self._ours)

    @property
    def text(self) -> str:
        """What the screen shows."""
        with self._changed:
            if self._text[0] != self.written:
                self._text = self.written, "\n".join(self.screen.display)
            return self._text[1]

    @property
    def modes_are_back(self) -> bool:
        """Whether the terminal's settings are as they were before the program started."""
        return termios.tcgetattr(self._theirs) == self.modes_before

    @property
    def cpu_s(self) -> float:
        """Processor time of the program itself so far; its worker's is not in it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def withheld_s(self) -> float:
        """Seconds for which threads of the program and of this test could have run and the machine ran others."""
        waited_ns = 0
        for pid in (self.process.pid, os.getpid()):
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):  # the thread has ended
                    waited_ns += int(path.read_text().split()[1])
        return waited_ns / 1e9

    def children(self) -> list[int]:
        """Process ids of what the program started."""
        found: list[int] = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            found += [int(pid) for pid in path.read_text().split()]
        return found

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._ours, keys.encode())

    def wait_for(self, *wanted: str, timeout: float = PATIENCE_S) -> str:
        """The screen once it shows all of these. Raises `AssertionError` with the screen where it does not."""
        self.until(lambda: all(text in self.text for text in wanted), timeout, f"{wanted} did not show")
        return self.text

    def until(self, condition: Callable[[], object], timeout: float, why: str) -> None:
        """Wait for a condition. Raises `AssertionError`, with the screen."""
        end = time.monotonic() + timeout
        with self._changed:
            while not condition():
                assert time.monotonic() < end, f"{why} in {timeout} s:\n{self.text}"
                self._changed.wait(0.05)

    def ended(self, timeout: float = PATIENCE_S) -> int:
        """The exit code, as a shell would say it."""
        code = self.process.wait(timeout)
        return 128 - code if code < 0 else code

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        os.kill(self.process.pid, number)

    def _read(self) -> None:
        while self.process.poll() is None or select.select([self._ours], [], [], 0)[0]:
            if not select.select([self._ours], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # the program's end was closed
                return
            with self._changed:
                self.written += len(data)
                self._stream.feed(data)
                self._changed.notify_all()


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return sorted(values)[len(values) // 2]
