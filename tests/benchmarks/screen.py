"""`python -m tests.benchmarks.screen`: eager decoding with the live screen at its default rate against headless.

One worker decodes eagerly all the time. Its events are folded ten times a second in both arms; in one the whole app
draws them, in a real pseudo-terminal of 120×36, in the other nothing does. The worker's own times are compared, ABBA.
"""

import argparse
import os
import pty
import sys
import termios
import threading
import time
from collections.abc import Callable

import msgspec
from textual.timer import Timer

from cgtop.core.commands import RunAll, SetMode
from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from cgtop.core.state import RunState
from cgtop.core.statistics import Interval, paired
from cgtop.tui.app import CgtopApp

SIZE = (36, 120)
SETTLE_S = 0.3
"""After an arm begins, before it is measured."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--least", type=int, default=8, help="pairs")
    parser.add_argument("--most", type=int, default=200, help="pairs")
    options = parser.parse_args()
    out, written = _use_pseudo_terminal()
    settings = RunSettings(model=options.model, device=options.device, mode="eager", verify_steps=0, tokens=16)
    source = LiveSource(settings)
    try:
        _until(source, lambda state: state.hello is not None or bool(state.errors), 120)
        source.send(RunAll())
        _until(source, lambda state: state.decode is not None and state.decode.tokens > 5, 120)
        source.send(SetMode(mode="eager"))
        _until(source, lambda state: state.decode is not None and state.decode.mode == "eager", 60)
        state = source.poll()
        bench = _Bench(source, options.seconds)
        bench.run(least=options.least, most=options.most)
    finally:
        source.close()
    ratio = bench.ratio
    assert state.hello is not None and ratio is not None
    result = {
        "what": "eager decode with the live screen / headless, same worker",
        "device": state.hello.device.name,
        "versions": state.hello.versions,
        "model": options.model,
        "terminal": f"{SIZE[1]}x{SIZE[0]}",
        "seconds_each": options.seconds,
        "ratio": ratio._asdict(),
        "screen_tok_s": sorted(bench.screen),
        "headless_tok_s": sorted(bench.headless),
        "terminal_bytes_s": sum(written) / (len(bench.screen) * (options.seconds + SETTLE_S)),
    }
    os.write(out, msgspec.json.encode(result) + b"\n")
    sys.stderr.write(f"with screen / headless: {ratio}\n")
    return 0


class _Bench:
    """The app runs all the time; a thread measures, and has it draw or not. Where it does not, the thread polls."""

    def __init__(self, source: LiveSource, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._app = CgtopApp(source)
        self.ratio: Interval | None = None
        self.screen: list[float] = []
        self.headless: list[float] = []

    def run(self, *, least: int, most: int) -> None:
        """Measure until the interval of the ratio is within ±1 %, or `most` pairs are made."""
        thread = threading.Thread(target=self._measure, args=(least, most), daemon=True)
        thread.start()
        self._app.run()
        thread.join()

    def _measure(self, least: int, most: int) -> None:
        try:
            time.sleep(SETTLE_S)
            self.ratio, self.screen, self.headless = paired(
                self._with_screen, self._without, least=least, most=most, half_width=0.01
            )
        finally:
            self._app.call_from_thread(self._app.exit)

    def _with_screen(self) -> float:
        self._app.call_from_thread(self._timer.resume)
        time.sleep(SETTLE_S)
        first = self._app.state
        time.sleep(self._seconds)
        return _rate(first, self._app.state)

    def _without(self) -> float:
        self._app.call_from_thread(self._timer.pause)
        _poll_for(self._source, SETTLE_S)
        first = self._source.poll()
        _poll_for(self._source, self._seconds)
        return _rate(first, self._source.poll())

    @property
    def _timer(self) -> Timer:
        timer = self._app._timer
        assert timer is not None
        return timer


def _rate(first: RunState, last: RunState) -> float:
    """Tokens a second by the worker's own clock."""
    begin, end = first.decode, last.decode
    assert begin is not None and end is not None and end.t > begin.t and begin.mode == end.mode == "eager"
    return (end.tokens - begin.tokens) / (end.t - begin.t)


def _poll_for(source: LiveSource, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        source.poll()
        time.sleep(0.1)


def _until(source: LiveSource, reached: Callable[[RunState], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not reached(source.poll()):
        if time.monotonic() > end or source.poll().errors:
            raise SystemExit(f"not reached in {seconds:.0f} s: {source.poll().errors}")
        time.sleep(0.05)


def _use_pseudo_terminal() -> tuple[int, list[int]]:
    """Make fd 0 and 1 a pseudo-terminal that is read; returns the old standard output and the sizes of all reads."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, SIZE)
    os.environ.setdefault("TERM", "xterm-256color")
    out = os.dup(1)
    for fd in (0, 1):
        os.dup2(slave, fd)
    terminal = os.fdopen(1, "w", closefd=False)
    for name in ("stdout", "__stdout__", "__stderr__"):  # Textual's driver writes to sys.__stderr__
        setattr(sys, name, terminal)
    written: list[int] = []

    def read() -> None:
        while data := os.read(master, 1 << 16):
            written.append(len(data))

    threading.Thread(target=read, daemon=True).start()
    return out, written


if __name__ == "__main__":
    sys.exit(main())
