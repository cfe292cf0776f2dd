"""`python -m tests.benchmarks.start`: from the command to the first screen, in a real pseudo-terminal of 120×36.

The first screen counts when the phase list and the device's line are both there. With `--device auto` on a machine with
a GPU that is a live run; the worker is still importing torch then.
"""

import argparse
import os
import sys
import time

import msgspec
import pexpect
import pyte

COLUMNS, LINES = 120, 36


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    times = sorted(_first_screen(options.device) for _ in range(options.runs))
    result = {"what": "seconds to the first screen", "device": options.device, "seconds": times}
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0


def _first_screen(device: str) -> float:
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    environment = {**os.environ, "TERM": "xterm-256color"}
    begun = time.monotonic()
    child = pexpect.spawn(
        sys.executable, ["-m", "cgtop.tui.cli", "--device", device], dimensions=(LINES, COLUMNS), env=environment
    )
    try:
        while time.monotonic() < begun + 30:
            stream.feed(child.read_nonblocking(1 << 16, timeout=30))
            if _is_there(screen.display):
                return time.monotonic() - begun
    finally:
        child.close(force=True)
    raise SystemExit("no screen in 30 s:\n" + "\n".join(screen.display))


def _is_there(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return "static cache" in text and "replay" in text and ("starting the worker" in lines[0] or "torch" in lines[0])


if __name__ == "__main__":
    sys.exit(main())
