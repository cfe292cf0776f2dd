"""What the screen costs while a worker decodes at 10 Hz in a terminal of 120×36. Processor time, not the clock's."""

import itertools
import math
import time
from pathlib import Path

import pytest

from cgtop.core.events import Error, PhaseBegin, PhaseEnd, Tokens
from cgtop.core.recording import open_recording
from tests.fakes.decoding import FLOOD_EVENTS, FLOOD_S
from tests.fakes.processes import PATIENCE_S, holds, takes_less
from tests.tui.terminal import Terminal, median

pytestmark = [pytest.mark.terminal, pytest.mark.timed]

DECODING_SHARE, IDLE_SHARE = 0.15, 0.02
"""Of one core."""
BYTES_A_SECOND, IDLE_BYTES_A_SECOND = 30 * 1024, 200
KEY_S = 0.1


def stays_under(share: float, bytes_a_second: float, terminal: Terminal, seconds: float) -> None:
    """Fail if the screen costs more in a stretch, and again in one of the two that follow it."""
    found: list[tuple[float, float]] = []

    def stretch() -> bool:
        found.append(spent(terminal, seconds))
        return found[-1][0] < share and found[-1][1] < bytes_a_second

    assert holds(stretch), f"shares and bytes a second: {found}, allowed are {share} and {bytes_a_second}"


def spent(terminal: Terminal, seconds: float) -> tuple[float, float]:
    """Share of a core and bytes a second over some seconds."""
    cpu, written, begun = terminal.cpu_s, terminal.written, time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - begun
    return (terminal.cpu_s - cpu) / elapsed, (terminal.written - written) / elapsed


def test_decoding_paused_and_idle_cost_what_they_may() -> None:
    with Terminal.live("decoding:decodes") as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context")
        time.sleep(0.5)
        stays_under(IDLE_SHARE, IDLE_BYTES_A_SECOND, terminal, 2.0)
        terminal.send("r")
        terminal.wait_for("decoding · graph")
        time.sleep(0.5)
        stays_under(DECODING_SHARE, BYTES_A_SECOND, terminal, 4.0)
        terminal.send(" ")
        terminal.wait_for("paused · graph")
        time.sleep(0.5)
        stays_under(IDLE_SHARE, IDLE_BYTES_A_SECOND, terminal, 2.0)


def test_ten_thousand_events_a_second_lose_nothing_and_keys_are_answered(tmp_path: Path) -> None:
    tries = itertools.count()
    assert takes_less(KEY_S, lambda: flooded(tmp_path / f"run-{next(tries)}.jsonl"))


def flooded(path: Path) -> float:
    """A screen is flooded and nothing is lost; the seconds that a key waited meanwhile, as the median.

    Not counted is what the key waited for a processor that others had.
    """
    with Terminal.live("decoding:floods", str(path)) as terminal:
        terminal.wait_for("● LIVE", "next: Release")
        terminal.send("n")
        terminal.wait_for("Release everything now?")
        terminal.send("y")
        terminal.wait_for("fault")
        waits: list[float] = []
        while len(waits) < 9 and not fully_recorded(path):
            key, shown = (("2", "[2 Caches]"), ("1", "[1 Phases]"))[len(waits) % 2]
            begun, withheld = time.monotonic(), terminal.withheld_s
            terminal.send(key)
            terminal.wait_for(shown)
            waits.append(time.monotonic() - begun - (terminal.withheld_s - withheld))
            time.sleep(0.05)
        terminal.until(lambda: fully_recorded(path), PATIENCE_S, "not all was recorded")
        terminal.send("q")
        assert terminal.ended() == 0
    events = open_recording(path).events
    total = FLOOD_EVENTS * FLOOD_S
    tokens = [event.ids[0] for event in events if isinstance(event, Tokens)]
    assert tokens == [number for number in range(total) if number % 100 > 2]
    faults = [event.headline for event in events if isinstance(event, Error)]
    assert faults == [f"fault {number}" for number in range(2, total, 100)]
    for kind in (PhaseBegin, PhaseEnd):
        assert sum(isinstance(event, kind) for event in events) == 8 + total // 100
    return median(waits) if len(waits) >= 5 else math.inf


def fully_recorded(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2000))
        return b"the flood is over" in file.read()
