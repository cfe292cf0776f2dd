"""`python -m tests.benchmarks.start`: from the command to the first screen, in a real pseudo-terminal of 120×36.

The first screen counts when the phase list and the device's line are both there. With `--device auto` on a machine with
a GPU that is a live run; the worker is still importing torch then. One start before them is not counted: it leaves
Python's byte code, as the first start after an installation does.
"""

import argparse
import os
import sys
import time

import msgspec
import ptyprocess
import pyte

COLUMNS, LINES = 120, 36
PATIENCE_S = 30
LEFT_OUT = ("COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--pause", type=float, default=2.0, help="seconds before each: the worker before lets the GPU go"
    )
    options = parser.parse_args()
    _first_screen(options.device, 0)
    times = sorted(_first_screen(options.device, options.pause) for _ in range(options.runs))
    result = {"what": "seconds to the first screen", "device": options.device, "seconds": times}
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0


def _first_screen(device: str, pause_s: float) -> float:
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    environment["TERM"] = "xterm-256color"
    command = [sys.executable, "-m", "cgtop.tui.cli", "--device", device]
    time.sleep(pause_s)
    begun = time.monotonic()
    child = ptyprocess.PtyProcess.spawn(command, dimensions=(LINES, COLUMNS), env=environment)
    written: list[tuple[float, bytes]] = []
    try:
        while time.monotonic() < begun + PATIENCE_S and not _may_be_there(written):
            written.append((time.monotonic() - begun, child.read(1 << 16)))
    finally:
        child.close(force=True)
    # Only now: a terminal made of Python takes longer to draw than the screen takes to be there.
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    for t, part in written:
        stream.feed(part)
        if _is_there(screen.display):
            return t
    raise SystemExit(f"no screen in {PATIENCE_S} s:\n" + "\n".join(screen.display))


def _may_be_there(written: list[tuple[float, bytes]]) -> bool:
    """By the bytes alone; the last lines of the screen are written last."""
    text = b"".join(part for _, part in written)
    return b"static cache" in text and b"quit" in text and (b"starting the worker" in text or b"torch" in text)


def _is_there(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return "static cache" in text and "replay" in text and ("starting the worker" in lines[0] or "torch" in lines[0])


if __name__ == "__main__":
    sys.exit(main())
