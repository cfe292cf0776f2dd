"""Settings changed in the form: what they need, what is said before it starts, and the run that starts with them."""

import msgspec
import pytest

from cgtop.core.events import Process, Telemetry
from cgtop.core.memory_map import GIB, MIB
from cgtop.core.presets import PRESETS
from cgtop.core.settings import RunSettings
from cgtop.core.sizing import needed_bytes
from cgtop.core.state import RunState, fold
from cgtop.tui.screens.settings import SettingsScreen
from cgtop.tui.settings_form import FIELDS, Form, Machine, changed, erased, moved, opened_form, predicted, typed
from cgtop.tui.widgets.form_view import render_form, verdict
from tests.sample import hello
from tests.tui.driving import app_of, notice, on_main, running, screen_text
from tests.tui.fakes import FakeLive, FakeRecorded, folded, until

DECODING = until("replay", decoding=True)
SETTINGS = RunSettings(model="qwen3-4b", device="cuda:0")
ROWS = {field.name: index for index, field in enumerate(FIELDS)}


def form_of(settings: RunSettings = SETTINGS, *, free: int | None = 100 * GIB, **machine: object) -> Form:
    form = opened_form(settings, RunState())
    return msgspec.structs.replace(form, machine=Machine(capability="9.0", free_bytes=free, **machine))  # type: ignore[arg-type]


def at(form: Form, name: str) -> Form:
    return moved(form, ROWS[name] - form.row)


def test_a_preset_needs_what_the_closed_forms_say() -> None:
    prediction = predicted(form_of())
    assert prediction.cache == 144 * MIB
    assert prediction.needed == needed_bytes(
        PRESETS["qwen3-4b"], capability="9.0", batch_size=1, max_cache_len=1024, dtype="bfloat16"
    )
    assert prediction.fits is True
    assert "✓ fits" in verdict(form_of()).plain


def test_what_does_not_fit_is_said_with_what_is_free() -> None:
    form = form_of(free=4 * GIB)
    assert predicted(form).fits is False
    assert "does not fit: 4,096.0 MiB are free" in verdict(form).plain


def test_keys_change_a_row_and_typing_replaces_its_value_first() -> None:
    form = at(form_of(), "max_cache_len")
    assert changed(form, 1).texts[form.row] == "2048"
    assert changed(form, -1).texts[form.row] == "512"
    form = typed(typed(typed(form, "3"), "x"), "0")
    assert form.texts[form.row] == "30"
    assert "has no room to decode" in verdict(form).plain
    form = typed(form, "0")
    assert predicted(form).cache == 300 * 144 * MIB // 1024
    assert erased(form).texts[form.row] == "30"
    warm = at(form_of(), "warmup")
    assert changed(warm, 1).texts[warm.row] == "4"
    assert changed(changed(changed(changed(warm, -1), -1), -1), -1).texts[warm.row] == "0"
    mode = at(form_of(), "mode")
    assert typed(mode, "x") == mode
    assert changed(mode, 1).texts[mode.row] == "eager"


def test_a_model_that_is_no_preset_is_predicted_from_its_last_run_only() -> None:
    settings = RunSettings(model="/checkpoints/mine", device="cuda:0")
    assert predicted(form_of(settings)).needed is None
    assert "known once it is loaded" in verdict(form_of(settings)).plain
    form = form_of(settings, known=hello().model, known_as="/checkpoints/mine")
    assert predicted(form).weights == 8_044_936_192
    assert predicted(form).cache == 144 * MIB


def test_auto_is_the_preset_that_fits_and_tiny_on_a_cpu() -> None:
    auto = RunSettings(device="auto")
    assert predicted(form_of(auto)).model == "qwen3-4b"
    assert predicted(form_of(auto, free=3 * GIB)).model == "qwen3-0.6b"
    on_cpu = form_of(auto, free=None, on_cpu=True)
    assert predicted(on_cpu).model == "tiny"
    assert "no limit is claimed" in verdict(on_cpu).plain


def test_free_memory_counts_what_this_worker_gives_back() -> None:
    telemetry = Telemetry(
        t=50.0, free_bytes=10 * GIB, processes=(Process(pid=1, bytes=8 * GIB, own=True), Process(pid=2, bytes=GIB))
    )
    assert opened_form(SETTINGS, fold(DECODING, telemetry)).machine.free_bytes == 18 * GIB
    device = msgspec.structs.replace(hello().device, free_bytes=99 * GIB)
    started = folded([msgspec.structs.replace(hello(), device=device)])
    assert opened_form(SETTINGS, started).machine.free_bytes == 99 * GIB
    assert opened_form(SETTINGS, RunState()).machine.free_bytes is None


@pytest.mark.parametrize("size", [(20, 1), (30, 2), (36, 4), (40, 7), (62, 10), (100, 20)])
def test_the_chosen_row_shows_at_any_size(size: tuple[int, int]) -> None:
    for row in range(len(FIELDS)):
        lines = render_form(moved(form_of(), row), *size)
        assert 1 <= len(lines) <= size[1]
        assert sum("▸" in line.plain for line in lines) == 1


async def test_a_run_starts_with_the_settings_that_were_chosen() -> None:
    source = FakeLive(DECODING)
    source.settings = SETTINGS
    async with running(source) as pilot:
        await pilot.press("o", "down", "right", "down", "4", "enter")
        await pilot.pause()
        assert source.restarts == 1
        assert source.settings == msgspec.structs.replace(SETTINGS, max_cache_len=2048, batch_size=4)
        assert on_main(pilot)
        assert notice(pilot) == "a new worker starts"


async def test_what_does_not_fit_starts_only_when_asked_twice() -> None:
    device = msgspec.structs.replace(hello().device, free_bytes=2 * GIB)
    source = FakeLive(folded([msgspec.structs.replace(hello(), device=device)]))
    source.settings = SETTINGS
    async with running(source) as pilot:
        await pilot.press("o", "enter")
        await pilot.pause()
        assert source.restarts == 0
        assert "does not fit" in screen_text(pilot)
        assert "enter again" in screen_text(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert source.restarts == 1


async def test_settings_that_cannot_work_do_not_start_and_say_why() -> None:
    source = FakeLive(DECODING)
    async with running(source) as pilot:
        await pilot.press("o", "down", "down", "0", "enter")
        await pilot.pause()
        assert source.restarts == 0
        assert "batch size must be 1 or more" in screen_text(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert on_main(pilot)
        assert source.restarts == 0


async def test_restart_offers_the_settings_first() -> None:
    async with running(FakeLive(DECODING)) as pilot:
        await pilot.press("R")
        assert "change the settings first" in screen_text(pilot)
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SettingsScreen)


@pytest.mark.parametrize("state", [until("release"), RunState()], ids=["released", "starting"])
async def test_the_form_opens_in_any_state_of_a_live_run(state: RunState) -> None:
    async with running(FakeLive(state)) as pilot:
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(pilot.app.screen, SettingsScreen)


async def test_a_recording_has_no_settings_to_change() -> None:
    async with running(FakeRecorded(12.0)) as pilot:
        await pilot.press("o")
        assert "its settings stay" in notice(pilot)
        assert app_of(pilot).screen is app_of(pilot).main
