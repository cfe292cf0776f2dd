"""What the screen costs while a worker decodes at 10 Hz in a terminal of 120×36. Processor time, not the clock's."""

import time
from pathlib import Path

import pytest

from cgtop.core.events import Error, PhaseBegin, PhaseEnd, Tokens
from cgtop.core.recording import open_recording
from tests.fakes.decoding import FLOOD_EVENTS, FLOOD_S
from tests.tui.terminal import Terminal, median

pytestmark = pytest.mark.terminal

DECODING_SHARE, IDLE_SHARE = 0.15, 0.02
"""Of one core."""
BYTES_A_SECOND = 30 * 1024
KEY_S = 0.1


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
        share, written = spent(terminal, 2.0)
        assert share < IDLE_SHARE, "idle"
        assert written < 200, "idle"
        terminal.send("r")
        terminal.wait_for("decoding · graph")
        time.sleep(0.5)
        share, written = spent(terminal, 4.0)
        assert share < DECODING_SHARE, "decoding"
        assert written < BYTES_A_SECOND, "decoding"
        terminal.send(" ")
        terminal.wait_for("paused · graph")
        time.sleep(0.5)
        share, written = spent(terminal, 2.0)
        assert share < IDLE_SHARE, "paused"
        assert written < 200, "paused"


def test_ten_thousand_events_a_second_lose_nothing_and_keys_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with Terminal.live("decoding:floods", str(path)) as terminal:
        terminal.wait_for("● LIVE", "next: Release")
        terminal.send("n")
        terminal.wait_for("fault")
        waits: list[float] = []
        end = time.monotonic() + FLOOD_S - 1
        while time.monotonic() < end and len(waits) < 9:
            key, shown = (("2", "[2 Caches]"), ("1", "[1 Phases]"))[len(waits) % 2]
            begun = time.monotonic()
            terminal.send(key)
            terminal.wait_for(shown)
            waits.append(time.monotonic() - begun)
            time.sleep(0.05)
        assert len(waits) >= 5
        assert median(waits) < KEY_S
        time.sleep(max(0.0, end + 1 - time.monotonic()))
        terminal.until(lambda: fully_recorded(path), 10.0, "not all was recorded")
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


def fully_recorded(path: Path) -> bool:
    return path.exists() and b"the flood is over" in path.read_bytes()[-2000:]
