"""The screen on a worker with the real session, on a CPU that pretends to capture."""

from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from tests.tui.live_keys import press_every_key

SMALL = RunSettings(model="tiny", device="cpu", prompt_len=7, max_cache_len=40, tokens=20)


async def test_every_key_acts_after_a_run_of_all_phases_and_after_each_experiment() -> None:
    await press_every_key(LiveSource(SMALL, session="tests.fakes.pretend:captures"))
