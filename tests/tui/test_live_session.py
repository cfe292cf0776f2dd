"""The screen on a worker with the real session, on a CPU that pretends to capture."""

from cgtop.core.settings import RunSettings
from cgtop.core.sources import LiveSource
from tests.tui.driving import app_of, notice, running
from tests.tui.live_keys import Keys, is_in, press_every_key

SMALL = RunSettings(model="tiny", device="cpu", prompt_len=7, max_cache_len=40, tokens=20)


async def test_every_key_acts_after_a_run_of_all_phases_and_after_each_experiment() -> None:
    await press_every_key(LiveSource(SMALL, session="tests.fakes.pretend:captures"))


async def test_what_is_pressed_while_the_worker_starts_is_done_once_it_is_there() -> None:
    source = LiveSource(SMALL, session="tests.fakes.pretend:captures")
    try:
        async with running(source) as pilot:
            await pilot.press("r")
            assert "noted: it begins" in notice(pilot)
            await pilot.press("n")
            assert "noted already" in notice(pilot)
            await Keys(pilot).until(is_in("decoding", "graph"))
            assert not app_of(pilot).state.errors
    finally:
        source.close()
