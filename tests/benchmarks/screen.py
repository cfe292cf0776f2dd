"""`python -m tests.benchmarks.screen`: eager decoding with the live screen at its default rate against headless.

One worker decodes eagerly all the time, and one app runs, in a real pseudo-terminal of 120×36. In short arms, A B B A,
the app draws ten times a second, or does not while the same events are only folded. The worker notes when each step
came back; the speeds' ratio is that of the median step times, its interval a bootstrap over the pairs of arms.
"""

import argparse
import os
import pty
import random
import sys
import tempfile
import termios
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from textual.timer import Timer

from cgtop.core.commands import RunAll, SetMode
from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from cgtop.core.state import RunState
from cgtop.tui.app import CgtopApp

from . import steps

SIZE = (36, 120)
SETTLE_S = 0.1
"""After an arm begins, before it is measured."""
RESAMPLES = 1000
LOOK_EVERY = 20
"""Pairs between two looks at the interval."""


class Arm(NamedTuple):
    """A stretch of the system's monotonic clock."""

    begin: float
    end: float


class Ratio(NamedTuple):
    """Speed with the screen over headless, with its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--arm", type=float, default=0.6, help="seconds of each arm")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which no further pair is made")
    parser.add_argument("--within", type=float, default=0.01, help="half width of the interval that is aimed at")
    options = parser.parse_args()
    out, written = _use_pseudo_terminal()
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "steps"
        os.environ[steps.VARIABLE] = str(noted)
        settings = RunSettings(model=options.model, device=options.device, mode="eager", verify_steps=0, tokens=16)
        source = LiveSource(settings, session="tests.benchmarks.steps:session")
        try:
            _until(source, lambda state: state.hello is not None, 120)
            source.send(RunAll())
            _until(source, lambda state: state.decode is not None and state.decode.tokens > 5, 120)
            source.send(SetMode(mode="eager"))
            _until(source, lambda state: state.decode is not None and state.decode.mode == "eager", 60)
            state = source.poll()
            bench = _Bench(source, noted, options.arm, options.limit, options.within)
            bench.run()
        finally:
            source.close()
        drawn, plain = bench.step_times()
    hello, ratio = state.hello, bench.ratio
    if hello is None or ratio is None:
        raise SystemExit("nothing was measured")
    result = {
        "what": "eager decode with the live screen / headless, same worker: ratio of median step times",
        "device": hello.device.name,
        "versions": hello.versions,
        "model": options.model,
        "terminal": f"{SIZE[1]}x{SIZE[0]}",
        "arm_s": options.arm,
        "ratio": ratio._asdict(),
        "screen": _summary([step for arm in drawn for step in arm]),
        "headless": _summary([step for arm in plain for step in arm]),
        "terminal_bytes_s": sum(written) / (ratio.pairs * (options.arm + SETTLE_S)),
    }
    os.write(out, msgspec.json.encode(result) + b"\n")
    sys.stderr.write(f"with screen / headless: {ratio.value:.4f} (95 % {ratio.low:.4f} to {ratio.high:.4f})\n")
    return 0


class _Bench:
    """The app runs all the time; a thread measures, and has it draw or not. Where it does not, the thread polls."""

    def __init__(self, source: LiveSource, noted: Path, arm_s: float, limit_s: float, within: float) -> None:
        self._source = source
        self._noted = noted
        self._arm_s = arm_s
        self._limit_s = limit_s
        self._within = within
        self._app = CgtopApp(source)
        self._drawn: list[Arm] = []
        self._plain: list[Arm] = []
        self.ratio: Ratio | None = None

    def run(self) -> None:
        """Measure until the interval is narrow enough, or the time is up."""
        thread = threading.Thread(target=self._measure, daemon=True)
        thread.start()
        self._app.run()
        thread.join()

    def step_times(self) -> tuple[list[list[float]], list[list[float]]]:
        """Seconds of the steps of each arm: drawn, and plain."""
        times = steps.read(self._noted)

        def inside(arm: Arm) -> list[float]:
            found = times[bisect_left(times, arm.begin) : bisect_right(times, arm.end)]
            return [after - before for before, after in pairwise(found)]

        return [inside(arm) for arm in self._drawn], [inside(arm) for arm in self._plain]

    def _measure(self) -> None:
        try:
            while self._app._timer is None:  # not drawn for the first time yet
                time.sleep(0.05)
            end = time.monotonic() + self._limit_s
            while time.monotonic() < end and not self._is_narrow():
                for _ in range(LOOK_EVERY // 2):
                    for arm in (self._with_screen, self._without, self._without, self._with_screen):
                        arm()
                self.ratio = _ratio(*self.step_times())
        finally:
            self._app.call_from_thread(self._app.exit)

    def _is_narrow(self) -> bool:
        ratio = self.ratio
        return ratio is not None and (ratio.high - ratio.low) / 2 / ratio.value <= self._within

    def _with_screen(self) -> None:
        self._app.call_from_thread(self._timer.resume)
        time.sleep(SETTLE_S)
        begin = time.monotonic()
        time.sleep(self._arm_s)
        self._drawn.append(Arm(begin, time.monotonic()))

    def _without(self) -> None:
        self._app.call_from_thread(self._timer.pause)
        _poll_for(self._source, SETTLE_S)
        begin = time.monotonic()
        _poll_for(self._source, self._arm_s)
        self._plain.append(Arm(begin, time.monotonic()))

    @property
    def _timer(self) -> Timer:
        timer = self._app._timer
        assert timer is not None
        return timer


def _ratio(drawn: list[list[float]], plain: list[list[float]], seed: int = 0) -> Ratio | None:
    """Median step time headless over that with the screen; resampled are the pairs of arms."""
    pairs = list(zip(drawn, plain, strict=True))

    def of(chosen: list[tuple[list[float], list[float]]]) -> float:
        with_screen = [step for arm, _ in chosen for step in arm]
        without = [step for _, arm in chosen for step in arm]
        return median(without) / median(with_screen)

    if not any(arm for arm, _ in pairs) or not any(arm for _, arm in pairs):
        return None
    generator = random.Random(seed)
    resampled = sorted(of(generator.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    low, high = resampled[int(0.025 * RESAMPLES)], resampled[int(0.975 * RESAMPLES) - 1]
    return Ratio(of(pairs), low, high, len(pairs))


def _summary(step_s: list[float]) -> dict[str, float]:
    ordered = sorted(step_s)
    return {
        "steps": len(ordered),
        "median_ms": median(ordered) * 1000,
        "p10_ms": ordered[len(ordered) // 10] * 1000,
        "p90_ms": ordered[len(ordered) * 9 // 10] * 1000,
    }


def _poll_for(source: LiveSource, seconds: float) -> None:
    """What a headless reader does: take the events ten times a second."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        source.poll()
        time.sleep(min(0.1, left))


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
