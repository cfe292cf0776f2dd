"""What each key does in which state, and what it says where it cannot act."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from cgtop.core.commands import (
    AnyCommand,
    BreakInput,
    Cancel,
    Command,
    MendInput,
    Pause,
    Resume,
    RunAll,
    RunBench,
    RunCheck,
    RunPhase,
    RunSweep,
    SetMode,
    TryDynamicCapture,
    Verify,
)
from cgtop.core.events import (
    Demonstration,
    DeviceInfo,
    End,
    Error,
    Event,
    PhaseBegin,
    PhaseEnd,
    Status,
    SweepBegin,
)
from cgtop.core.sources import Source
from cgtop.core.state import RunState, fold
from cgtop.tui.keys import ALL_BINDINGS, PLAY_BINDINGS, RUN_BINDINGS
from cgtop.tui.refusals import Facts, refusal, refusal_words
from cgtop.tui.screens.modal import AskScreen
from cgtop.tui.views import VIEWS, view_key
from tests.sample import hello
from tests.tui.driving import app_of, notice, on_main, running, screen_text, shown_view, shows
from tests.tui.fakes import FakeLive, FakeRecorded, folded, until

DECODING = until("replay", decoding=True)
PAUSED = fold(DECODING, Status(t=99.0, state="paused", mode="graph", phase="replay", next_phase="release"))
LOADED = until("load")
COPIED = until("copy_kv")
REPLAYED = fold(until("replay"), Status(t=50.0, state="idle", next_phase="release"))
CAPTURED = fold(until("capture"), Status(t=49.0, state="idle", next_phase="replay"))
RELEASED = until("release")
FAILED = fold(LOADED, Error(t=9.0, kind="device_lost", headline="the GPU is gone", hint="R", detail="Traceback"))
RECOVERABLE = fold(LOADED, Error(t=9.0, kind="out_of_memory", headline="no room", detail="Traceback", recoverable=True))
BROKEN = fold(
    CAPTURED,
    Demonstration(
        t=9.0, stage="broken", fed_ids=(1,), expected_ids=(2,), replay_ids=(3,), captured_address=1, present_address=2
    ),
)
MEASURING = fold(CAPTURED, Status(t=9.0, state="running"))
VERIFYING = fold(DECODING, Status(t=99.0, state="running", phase="capture", next_phase="release"))
NOT_VERIFIED = msgspec.structs.replace(
    CAPTURED,
    hello=msgspec.structs.replace(hello(), settings=msgspec.structs.replace(hello().settings, verify_steps=0)),
)
FAILED_CAPTURE = fold(
    until("warmup"), Error(t=9.0, kind="out_of_memory", headline="no room", phase="capture", recoverable=True)
)
ENDED = fold(LOADED, End(t=9.0, reason="killed"))
CPU_HELLO = msgspec.structs.replace(hello(), device=msgspec.structs.replace(hello().device, kind="cpu"))
ON_CPU = fold(
    msgspec.structs.replace(COPIED, hello=CPU_HELLO),
    PhaseEnd(t=20.0, phase="capture", status="unavailable", reason="needs CUDA"),
)


# ----------------------------------------------------------------------------------------- keys on a live run

ACTS: list[tuple[RunState, str, Sequence[Command]]] = [
    (RunState(), "n", [RunPhase(phase="context")]),
    (RunState(), "r", [RunAll()]),
    (LOADED, "n", [RunPhase(phase="prefill")]),
    (LOADED, "r", [RunAll()]),
    (COPIED, "e", [SetMode(mode="eager")]),
    (COPIED, "d", [SetMode(mode="dynamic")]),
    (CAPTURED, "g", [SetMode(mode="graph")]),
    (DECODING, "e", [SetMode(mode="eager")]),
    (DECODING, "g", [SetMode(mode="graph")]),
    (DECODING, "space", [Pause()]),
    (PAUSED, "space", [Resume()]),
    (RECOVERABLE, "n", [RunPhase(phase="prefill")]),
    (ON_CPU, "e", [SetMode(mode="eager")]),
    (CAPTURED, "t", [TryDynamicCapture()]),
    (CAPTURED, "b", [BreakInput()]),
    (BROKEN, "b", [MendInput()]),
    (CAPTURED, "v", [Verify()]),
]


async def test_a_key_that_can_act_sends_its_command() -> None:
    source = FakeLive()
    async with running(source) as pilot:
        for state, key, sent in ACTS:
            source.state, source.sent = state, []
            app_of(pilot).tick()
            await pilot.press(key)
            assert source.sent == sent, key
            await pilot.press("1")
            assert notice(pilot).startswith("noted") == (state.hello is None), key
            assert notice(pilot) == "" or state.hello is None, key


async def test_a_measurement_is_asked_for_once_however_fast_one_presses() -> None:
    source = FakeLive(CAPTURED)
    async with running(source) as pilot:
        await pilot.press("7", "m", "m")
        assert source.sent == [RunBench(modes=("eager", "graph"))]
        source.state = fold(CAPTURED, Status(t=60.0, state="idle", next_phase="replay"))
        app_of(pilot).tick()
        await pilot.press("m")
        assert len(source.sent) == 2


REFUSED: list[tuple[RunState, str, str]] = [
    (RunState(), "e", "still starting"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "n", "Model load is still running"),
    (folded([hello(), PhaseBegin(t=1.0, phase="load")]), "e", "Model load is still running"),
    (DECODING, "r", "only release is left"),
    (RELEASED, "n", "released"),
    (RELEASED, "g", "released"),
    (LOADED, "e", "e: copy the prompt's KV first (n)"),
    (LOADED, "d", "d: prefill"),
    (COPIED, "g", "g: graph capture first (n)"),
    (ON_CPU, "g", "capture needs CUDA; this run is on the CPU"),
    (LOADED, "space", "nothing to pause"),
    (LOADED, "left_square_bracket", "only a recording"),
    (LOADED, "x", "no error so far"),
    (COPIED, "b", "b: graph capture first (n)"),
    (COPIED, "v", "v: graph capture first (n)"),
    (LOADED, "t", "t: copy the prompt's KV first (n)"),
    (ON_CPU, "t", "capture needs CUDA"),
    (CAPTURED, "m", "m measures in the views"),
    (MEASURING, "n", "a measurement is running"),
    (MEASURING, "g", "a measurement is running"),
    (VERIFYING, "v", "the graph is being verified"),
    (NOT_VERIFIED, "v", "started without verification"),
    (FAILED_CAPTURE, "g", "n tries it again"),
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


@pytest.mark.parametrize(
    "state", [DECODING, PAUSED, VERIFYING, REPLAYED], ids=["decoding", "paused", "verifying", "after an experiment"]
)
async def test_a_release_is_asked_for_first(state: RunState) -> None:
    source = FakeLive(state)
    async with running(source) as pilot:
        for answer, sent in (("n", []), ("escape", []), ("y", [RunPhase(phase="release")])):
            await pilot.press("n")
            assert isinstance(pilot.app.screen, AskScreen)
            await pilot.press(answer)
            await pilot.pause()
            assert source.sent == sent


async def test_m_measures_what_its_view_shows_and_stops_it() -> None:
    source = FakeLive(CAPTURED)
    async with running(source) as pilot:
        for view, command in (
            ("5", RunSweep(sweep="cache_lens")),
            ("6", RunSweep(sweep="batches")),
            ("7", RunBench(modes=("eager", "graph"))),
            ("8", RunCheck()),
        ):
            source.state, source.sent = CAPTURED, []
            app_of(pilot).tick()
            await pilot.press(view, "m")
            assert source.sent == [command]
            source.state = MEASURING
            app_of(pilot).tick()
            await pilot.press("m")
            assert source.sent == [command, Cancel()]


@pytest.mark.parametrize(
    ("command", "begin", "view", "where"),
    [
        ("run_bench", None, "8", "view 7 is measuring: m there stops it"),
        ("run_check", None, "5", "view 8 is measuring: m there stops it"),
        ("run_sweep", SweepBegin(sweep="cache_lens", values=(256,)), "6", "view 5 is measuring"),
    ],
)
async def test_m_in_another_view_does_not_stop_a_measurement(
    command: str, begin: Event | None, view: str, where: str
) -> None:
    state = fold(CAPTURED, Status(t=9.0, state="running", experiment=command))
    source = FakeLive(state if begin is None else fold(state, begin))
    async with running(source) as pilot:
        await pilot.press(view, "m")
        assert source.sent == [] and notice(pilot).startswith(where)
        await pilot.press(where.partition("view ")[2][0], "m")
        assert source.sent == [Cancel()]


async def test_what_a_key_said_is_gone_once_another_acts() -> None:
    source = FakeLive(ON_CPU)
    async with running(source) as pilot:
        await pilot.press("g")
        assert notice(pilot).startswith("g: ")
        await pilot.press("e")
        assert notice(pilot) == "" and source.sent == [SetMode(mode="eager")]


async def test_a_comparison_without_a_graph_is_of_what_there_is() -> None:
    source = FakeLive(ON_CPU)
    async with running(source) as pilot:
        await pilot.press("7", "m")
        assert source.sent == [RunBench(modes=("eager",))]


async def test_the_number_keys_tab_and_a_click_choose_the_view() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        for view in VIEWS:
            await pilot.press(view_key(view.id))
            assert shown_view(pilot) == view.id
            assert await shows(pilot, f"[{view_key(view.id)} {view.title}]")
        await pilot.press("tab")
        assert shown_view(pilot) == "phases"
        await pilot.press("shift+tab")
        assert shown_view(pilot) == "guide"
        await pilot.click("#tabs", offset=(14, 0))
        await pilot.pause()
        assert shown_view(pilot) == "caches"


async def test_an_error_is_told_in_every_view() -> None:
    async with running(FakeLive(FAILED)) as pilot:
        for view in VIEWS:
            await pilot.press(view_key(view.id))
            assert await shows(pilot, "the GPU is gone"), view.id


STATES: dict[str, Callable[[], Source]] = {
    "starting": lambda: FakeLive(RunState()),
    "idle": lambda: FakeLive(LOADED),
    "running": lambda: FakeLive(folded([hello(), PhaseBegin(t=1.0, phase="load")])),
    "measuring": lambda: FakeLive(MEASURING),
    "decoding": lambda: FakeLive(DECODING),
    "paused": lambda: FakeLive(PAUSED),
    "failed": lambda: FakeLive(FAILED),
    "dead": lambda: FakeLive(ENDED),
    "released": lambda: FakeLive(RELEASED),
    "recorded": lambda: FakeRecorded(12.0, playing=False),
    "at the end": lambda: FakeRecorded(1e6, playing=False),
}


@pytest.mark.parametrize("state", STATES)
async def test_every_key_does_something_or_says_why_not(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = STATES[state]()
    moves = {"up", "down", "left", "right", "escape"}
    async with running(source) as pilot:
        app = app_of(pilot)
        bindings = ALL_BINDINGS if state == "recorded" else (*RUN_BINDINGS, *PLAY_BINDINGS)
        for key in (key for binding in bindings for key in binding.key.split(",")):
            if key in ("q", "ctrl+c", "ctrl+z"):
                continue
            app.main.end_notice()
            app.main.show_view("phases" if key != "1" else "map")
            before = (app.main.shown, app.source.poll(), place_of(source))
            if isinstance(source, FakeLive):
                source.sent = []
            await pilot.press(key)
            for _ in range(3000):
                acted = (app.main.shown, app.source.poll(), place_of(source)) != before or not on_main(pilot)
                sent = isinstance(source, FakeLive) and source.sent
                if acted or sent or notice(pilot) or key in moves:
                    break
                await pilot.pause(0.02)
            else:
                pytest.fail(f"{key} did nothing and said nothing")
            while not on_main(pilot):
                await pilot.press("escape")
                await pilot.pause()


def place_of(source: Source) -> tuple[float, float, bool] | None:
    if not isinstance(source, FakeRecorded):
        return None
    return source.player.position, source.player.speed, source.player.playing


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
        assert notice(pilot) == "change of mode: no graph was captured"


@pytest.mark.parametrize("command", get_args(AnyCommand), ids=lambda command: str(command.__name__))
def test_no_refusal_shows_the_engines_name_of_a_command(command: type[Command]) -> None:
    tag = command.__struct_config__.tag
    assert isinstance(tag, str)
    said = refusal_words(tag, "it cannot")
    assert said.endswith(": it cannot")
    assert "_" not in said
    assert refusal_words("of_a_newer_engine", "it cannot") == "it cannot"


@pytest.mark.parametrize("view", ["5", "6"])
async def test_on_a_cpu_a_sweep_is_not_even_asked_for(view: str) -> None:
    on_cpu = msgspec.structs.replace(hello(), device=DeviceInfo(kind="cpu", name="a CPU"))
    source = FakeLive(fold(fold(RunState(), on_cpu), PhaseEnd(phase="load")))
    async with running(source) as pilot:
        await pilot.press(view, "m")
        assert notice(pilot) == "m: capture needs CUDA; this run is on the CPU"
        assert source.sent == []


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


async def test_in_a_recording_n_goes_to_the_next_stop_and_space_pauses() -> None:
    source = FakeRecorded(playing=True)
    async with running(source) as pilot:
        await pilot.press("n")
        stop = source.player.stops[0].t
        assert source.player.position == stop
        for playing in (True, False):
            await pilot.press("space")
            assert source.player.playing is playing
        await pilot.press("right_square_bracket")
        assert source.player.position == pytest.approx(stop + 5.0, abs=0.2)
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


def test_what_a_recording_refuses_is_said_in_the_room_beside_the_seek_bar() -> None:
    facts = Facts(state=RunState(), kind="recorded")
    for action in ("mode('eager')", "mode('dynamic')", "mode('graph')", "try_capture", "options", "measure", "verify"):
        said = refusal(action, facts)
        assert said is not None and len(said) <= 75
    assert refusal("measure", msgspec.structs.replace(facts, view="guide")) == refusal("measure", facts)
    measures = refusal("measure", msgspec.structs.replace(facts, view="checks"))
    assert measures == "recorded: live, this key measures"


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
