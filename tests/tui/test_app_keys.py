"""What each key does in which state, and what it says where it cannot act."""

from collections.abc import Sequence

import msgspec
import pytest

from cgtop.core.commands import Command, Pause, Resume, RunAll, RunPhase, SetMode
from cgtop.core.events import End, Error, PhaseBegin, PhaseEnd, Status
from cgtop.core.sources import Source
from cgtop.core.state import RunState, fold
from cgtop.tui.screens.modal import AskScreen
from tests.sample import hello
from tests.tui.driving import app_of, notice, on_main, running, screen_text
from tests.tui.fakes import FakeLive, FakeRecorded, folded, until

DECODING = until("replay", decoding=True)
PAUSED = fold(DECODING, Status(t=99.0, state="paused", mode="graph", phase="replay", next_phase="release"))
LOADED = until("load")
COPIED = until("copy_kv")
REPLAYED = fold(until("replay"), Status(t=50.0, state="idle", next_phase="release"))
CAPTURED = until("capture")
RELEASED = until("release")
FAILED = fold(LOADED, Error(t=9.0, kind="device_lost", headline="the GPU is gone", hint="R", detail="Traceback"))
RECOVERABLE = fold(LOADED, Error(t=9.0, kind="out_of_memory", headline="no room", detail="Traceback", recoverable=True))
ENDED = fold(LOADED, End(t=9.0, reason="killed"))
CPU_HELLO = msgspec.structs.replace(hello(), device=msgspec.structs.replace(hello().device, kind="cpu"))
ON_CPU = fold(
    msgspec.structs.replace(COPIED, hello=CPU_HELLO),
    PhaseEnd(t=20.0, phase="capture", status="unavailable", reason="needs CUDA"),
)


# ----------------------------------------------------------------------------------------- keys on a live run

ACTS: list[tuple[RunState, str, Sequence[Command]]] = [
    (LOADED, "n", [RunPhase()]),
    (LOADED, "r", [RunAll()]),
    (REPLAYED, "n", [RunPhase()]),
    (COPIED, "e", [SetMode(mode="eager")]),
    (COPIED, "d", [SetMode(mode="dynamic")]),
    (CAPTURED, "g", [SetMode(mode="graph")]),
    (DECODING, "e", [SetMode(mode="eager")]),
    (DECODING, "g", [SetMode(mode="graph")]),
    (DECODING, "space", [Pause()]),
    (PAUSED, "space", [Resume()]),
    (RECOVERABLE, "n", [RunPhase()]),
    (ON_CPU, "e", [SetMode(mode="eager")]),
]


async def test_a_key_that_can_act_sends_its_command() -> None:
    source = FakeLive()
    async with running(source) as pilot:
        for state, key, sent in ACTS:
            source.state, source.sent = state, []
            app_of(pilot).tick()
            await pilot.press(key)
            assert source.sent == sent, key
            assert notice(pilot) == "", key


REFUSED: list[tuple[RunState, str, str]] = [
    (RunState(), "n", "still starting"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "n", "Model load is still running"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "e", "Model load is still running"),
    (DECODING, "r", "only release is left"),
    (RELEASED, "n", "released"),
    (RELEASED, "g", "released"),
    (LOADED, "e", "e: copy the prompt's kv first (n)"),
    (LOADED, "d", "d: prefill"),
    (COPIED, "g", "g: graph capture first (n)"),
    (ON_CPU, "g", "capture needs CUDA; this run is on the CPU"),
    (LOADED, "space", "nothing to pause"),
    (LOADED, "left_square_bracket", "only a recording"),
    (LOADED, "x", "no error so far"),
    (FAILED, "n", "R starts a new one"),
    (ENDED, "n", "the worker has ended"),
    (ENDED, "space", "the worker has ended"),
]


async def test_a_key_that_cannot_act_says_why_in_one_line() -> None:
    source = FakeLive()
    async with running(source) as pilot:
        for state, key, why in REFUSED:
            source.state = state
            app_of(pilot).tick()
            await pilot.press(key)
            assert source.sent == [], key
            assert why in notice(pilot)
            assert why in screen_text(pilot)


async def test_a_command_that_nobody_takes_is_said() -> None:
    source = FakeLive(LOADED)
    source.takes = False
    async with running(source) as pilot:
        await pilot.press("n")
        assert "nobody took it" in notice(pilot)


async def test_what_the_engine_refuses_is_said_with_its_reason() -> None:
    source = FakeLive(LOADED)
    async with running(source) as pilot:
        source.state = fold(LOADED, Status(t=9.0, state="idle", refused="set_mode", why="no graph was captured"))
        app_of(pilot).tick()
        assert notice(pilot) == "set_mode: no graph was captured"


async def test_restart_asks_first_and_starts_anew_on_yes_only() -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        for answer, restarts in (("n", 0), ("escape", 0), ("y", 1)):
            await pilot.press("R")
            assert isinstance(pilot.app.screen, AskScreen)
            await pilot.press(answer)
            await pilot.pause()
            assert source.restarts == restarts
            assert on_main(pilot)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
@pytest.mark.parametrize("opened", [None, "question_mark", "R", "l"])
async def test_quit_leaves_from_any_screen_and_does_not_wait_for_the_source(key: str, opened: str | None) -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        if opened is not None:
            await pilot.press(opened)
        await pilot.press(key)
        await pilot.pause()
        assert pilot.app._exit
        assert not source.closed


# ------------------------------------------------------------------------------------------------ recordings


async def test_in_a_recording_n_goes_to_the_next_phase_and_space_pauses() -> None:
    source = FakeRecorded(playing=True)
    async with running(source) as pilot:
        await pilot.press("n")
        assert source.player.position == pytest.approx(0.5)
        for playing in (False, True):
            await pilot.press("space")
            assert source.player.playing is playing
        await pilot.press("right_square_bracket")
        assert source.player.position == pytest.approx(5.5)
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert source.player.position == 0.0


async def test_in_a_recording_r_plays_and_restart_goes_to_its_start_without_asking() -> None:
    source = FakeRecorded(8.0, playing=False)
    async with running(source) as pilot:
        await pilot.press("r")
        assert source.player.playing
        await pilot.press("R")
        assert source.player.position == 0.0
        assert on_main(pilot)


async def test_in_a_recording_the_modes_cannot_be_chosen() -> None:
    async with running(FakeRecorded(12.0)) as pilot:
        for key, mode in (("e", "eager"), ("d", "dynamic"), ("g", "graph")):
            await pilot.press(key)
            assert notice(pilot).startswith("recorded: ")
            assert mode in notice(pilot)


@pytest.mark.parametrize(
    ("source", "said", "never"), [(FakeRecorded(12.0), "REC", "● LIVE"), (FakeLive(DECODING), "LIVE", "REC")]
)
async def test_live_and_recorded_are_told_at_every_size(source: Source, said: str, never: str) -> None:
    async with running(source) as pilot:
        for size in ((120, 36), (80, 24), (60, 20), (40, 12), (40, 10), (20, 5)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert said in screen_text(pilot), size
            assert never not in screen_text(pilot), size


async def test_the_banner_tells_the_gpu_the_date_and_how_to_go_live() -> None:
    async with running(FakeRecorded(12.0)) as pilot:
        banner = screen_text(pilot).splitlines()[1]
    for wanted in ("RECORDED", "NVIDIA Sample GPU", "2026-11-30", "qwen3-4b", "cgtop --device cpu"):
        assert wanted in banner


async def test_the_state_moves_with_the_player() -> None:
    source = FakeRecorded(0.0)
    async with running(source) as pilot:
        assert "+7,726.0" not in screen_text(pilot)
        source.clock.now = 10.0
        app_of(pilot).tick()
        await pilot.pause()
        assert "+7,726.0" in screen_text(pilot)
