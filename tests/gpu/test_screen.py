"""The screen on a real run on the GPU."""

from cgtop.core.sources import LiveSource
from tests.gpu.conftest import SMALL
from tests.tui.live_keys import press_every_key


async def test_every_key_acts_after_a_run_of_all_phases_and_after_each_experiment() -> None:
    await press_every_key(LiveSource(SMALL))
