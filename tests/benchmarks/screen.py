"""`python -m tests.benchmarks.screen`: eager decoding with the live screen at its default rate against headless.

One worker decodes eagerly all the time. Its events are folded ten times a second in both arms; in one the whole app
draws them, in a real pseudo-terminal of 120×36, in the other nothing does. The worker's own times are compared, ABBA.
"""

import argparse
import asyncio
import os
import pty
import sys
import termios
import threading
import time
from collections.abc import Callable

import msgspec

from cgtop.core.commands import RunAll, SetMode
from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from cgtop.core.state import RunState
from cgtop.core.statistics import paired
from cgtop.tui.app import CgtopApp

SIZE = (36, 120)
SETTLE_S = 1.0
"""After an arm begins, before it is measured."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--least", type=int, default=8, help="pairs")
    parser.add_argument("--most", type=int, default=60, help="pairs")
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
        begun = len(written)
        drawn_s = [0.0]

        def drawn() -> float:
            start = time.monotonic()
            rate = asyncio.run(_with_screen(source, options.seconds))
            drawn_s[0] += time.monotonic() - start
            return rate

        ratio, screen, headless = paired(
            drawn, lambda: _without(source, options.seconds), least=options.least, most=options.most, half_width=0.01
        )
        terminal_bytes = sum(written[begun:])
    finally:
        source.close()
    assert state.hello is not None
    result = {
        "what": "eager decode with the live screen / headless, same worker",
        "device": state.hello.device.name,
        "versions": state.hello.versions,
        "model": options.model,
        "terminal": f"{SIZE[1]}x{SIZE[0]}",
        "seconds_each": options.seconds,
        "ratio": ratio._asdict(),
        "screen_tok_s": sorted(screen),
        "headless_tok_s": sorted(headless),
        "terminal_bytes_s": terminal_bytes / drawn_s[0],
    }
    os.write(out, msgspec.json.encode(result) + b"\n")
    sys.stderr.write(f"with screen / headless: {ratio}\n")
    return 0


async def _with_screen(source: LiveSource, seconds: float) -> float:
    app = CgtopApp(source)
    rates: list[float] = []

    async def measure() -> None:
        await asyncio.sleep(SETTLE_S)
        first = source.poll()
        await asyncio.sleep(seconds)
        rates.append(_rate(first, source.poll()))
        app.exit()

    task = asyncio.ensure_future(measure())
    await app.run_async()
    await task
    return rates[0]


def _without(source: LiveSource, seconds: float) -> float:
    _poll_for(source, SETTLE_S)
    first = source.poll()
    _poll_for(source, seconds)
    return _rate(first, source.poll())


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
