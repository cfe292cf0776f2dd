"""A recording that a program of somebody else's made: no model is known, and the screen shows it all the same."""

from pathlib import Path

import pytest

from cgtop.core.events import SCHEMA, DeviceInfo, Hello, Status
from cgtop.core.playback import Player
from cgtop.core.recording import Recording
from cgtop.core.settings import RunSettings
from cgtop.core.sources import RecordedSource
from tests.sample import decode, memory, phase_end
from tests.tui.driving import at_rest, running, screen_text


def own_run() -> Recording:
    device = DeviceInfo(kind="cuda", name="NVIDIA Sample GPU")
    hello = Hello(schema=SCHEMA, device=device, settings=RunSettings(model="own model"))
    events = [hello, phase_end(1, "load"), memory(1, "load"), decode(2, "graph", 10, 99.0, 10)]
    return Recording([*events, Status(t=2, state="idle")])


@pytest.mark.parametrize("size", [(40, 12), (120, 36)])
async def test_a_run_without_a_known_model_is_drawn_at_any_size(size: tuple[int, int]) -> None:
    player = Player(own_run())
    player.seek(10)
    async with running(RecordedSource(player), size) as pilot:
        await at_rest(pilot)
        assert "load" in screen_text(pilot)


def test_the_example_is_where_the_documentation_says() -> None:
    assert (Path(__file__).parents[2] / "examples" / "own_model.py").is_file()
