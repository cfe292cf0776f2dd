"""The view of the caches, drawn without an app."""

import msgspec
import pytest
from textual.content import Content

from cgtop.core.events import Caches, DynamicCapture, Event, PhaseEnd
from cgtop.core.state import RunState, fold
from cgtop.tui.widgets.cache_view import UNUSED, CacheSlice, cache_bars, render_caches
from tests.sample import hello
from tests.tui.fakes import folded, until

TOKEN = 147_456
SIZES = [(40, 8), (40, 10), (60, 12), (80, 20), (120, 30), (200, 50)]
USELESS = DynamicCapture(
    captured=True, replays=4, length_before=36, length_after=36, eager_ids=(11, 52, 7, 9), replay_ids=(11, 11, 11, 11),
    note="a replay runs no Python",
)  # fmt: skip


def caches(position: int, *, moves: int | None = None, t: float = 1e6) -> Caches:
    return Caches(
        t=t, static_bytes=1024 * TOKEN + 288, static_position=position, static_moves=0, dynamic_bytes=position * TOKEN,
        dynamic_position=position, dynamic_steps=position - 32, dynamic_moves=position - 32 if moves is None else moves,
    )  # fmt: skip


def view(*events: Event, recorded: bool = False) -> CacheSlice:
    state = until("replay", decoding=True)
    for event in events:
        state = fold(state, event)
    return CacheSlice.of(state, recorded=recorded)


def text(lines: list[Content]) -> str:
    """What stands there, also where it wraps."""
    return " ".join(line.plain for line in lines)


def test_the_dynamic_bar_grows_with_the_tokens_and_the_static_one_fills_up_at_a_fixed_length() -> None:
    early, late = (cache_bars(view(caches(position)), 120) for position in (100, 900))
    static = [bars[0].plain for bars in (early, late)]
    assert static[0].count("█") + static[0].count(UNUSED) == static[1].count("█") + static[1].count(UNUSED)
    assert static[0].count("█") < static[1].count("█")
    assert early[1].plain.count("█") < late[1].plain.count("█")
    assert "100 of 1,024 tokens, 10 % in use" in static[0]


def test_addresses_and_allocations_are_told_of_each_cache_and_mode() -> None:
    lines = text(render_caches(view(caches(68)), 120, 30))
    assert "StaticCache 0 tensors  DynamicCache in 36 of 36 steps" in lines
    assert "eager 2,338" in lines
    assert "graph 0" in lines


def test_the_guides_table_stands_beside_what_was_measured() -> None:
    lines = render_caches(view(caches(68), USELESS), 120, 30)
    rows = {name: next(line.plain for line in lines if line.plain.startswith(name)) for name in ("CUDA", "address st")}
    assert "no            ≠ captured, but useless" in rows["CUDA"]  # the guide's word, for another reason
    assert "✓ 360 replays, verified" in rows["CUDA"]
    assert "unstable      ✓ moved in 36 of 36 steps" in rows["address st"]


def test_the_position_is_that_of_whoever_told_it_last() -> None:
    at = view().by_mode["graph"].position
    assert f"{at} of 1,024" in text(render_caches(view(caches(68, t=0.0)), 120, 30))
    assert "68 of 1,024" in text(render_caches(view(caches(68)), 120, 30))


def test_a_static_cache_is_no_better_used_because_decoding_filled_it() -> None:
    for position in (68, 1000):
        row = next(line.plain for line in render_caches(view(caches(position)), 120, 30) if "efficiency" in line.plain)
        assert f"✓ {position / 10.24:.0f} % now, 3 % at first" in row


def test_a_static_cache_that_is_not_there_yet_proves_nothing() -> None:
    row = next(
        line.plain for line in render_caches(CacheSlice.of(until("load")), 120, 30) if "efficiency" in line.plain
    )
    assert "? 3 % at first, by the settings" in row


def test_a_dynamic_cache_that_did_not_move_contradicts_the_guide() -> None:
    assert "✗ moved in 0 of 36 steps" in text(render_caches(view(caches(68, moves=0)), 120, 30))


def test_a_capture_that_succeeds_is_shown_with_what_its_replays_do() -> None:
    lines = text(render_caches(view(caches(68), USELESS), 160, 40))
    assert "it succeeds. In 4 replays its length stayed: 36 tokens" in lines
    assert "Replays gave 11 11 11 11; eager steps give 11 52 7 9" in lines
    assert "holds for another reason" in lines
    assert "a replay runs no Python" in lines


def test_a_capture_that_fails_tells_why_and_agrees_with_the_guide() -> None:
    failed = DynamicCapture(captured=False, error="RuntimeError: not permitted\x1b[31m")
    lines = text(render_caches(view(caches(68), failed), 160, 40))
    assert "it fails, as the guide says: RuntimeError: not permitted." in lines
    assert "✓ capture failed" in lines


def test_before_an_attempt_the_key_is_named_but_not_in_a_recording_and_not_on_a_cpu() -> None:
    assert "press t" in text(render_caches(view(), 120, 30))
    assert "not attempted up to here" in text(render_caches(view(recorded=True), 120, 30))
    on_cpu = folded([hello(), PhaseEnd(phase="capture", status="unavailable", reason="needs CUDA")])
    assert "not possible here: needs CUDA" in text(render_caches(CacheSlice.of(on_cpu), 120, 30))


def test_without_any_figure_nothing_reads_as_zero() -> None:
    lines = text(render_caches(CacheSlice.of(RunState()), 120, 30))
    assert "StaticCache  n/a" in lines
    assert "eager n/a" in lines
    assert " 0" not in lines


def test_before_the_first_sample_the_phases_tell_the_bytes() -> None:
    lines = text(render_caches(CacheSlice.of(until("static_cache")), 120, 30))
    assert "144.0 MiB" in lines
    assert "MiB after prefill" in lines


def test_wrong_results_of_the_graph_are_no_proof_of_its_compatibility() -> None:
    state = until("replay", decoding=True)
    assert state.verification is not None
    wrong = msgspec.structs.replace(state.verification, verdict="mismatch")
    assert "✗ 360 replays, wrong results" in text(render_caches(view(wrong), 120, 30))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "slice_", [view(caches(68), USELESS), CacheSlice(), view(recorded=True)], ids=["full", "empty", "early"]
)
def test_it_fits_at_every_size_and_keeps_bars_moves_and_allocations(size: tuple[int, int], slice_: CacheSlice) -> None:
    lines = render_caches(slice_, *size)
    assert len(lines) <= size[1]
    assert all(line.cell_length <= size[0] for line in lines)
    assert lines[0].plain.lower().startswith("static")
    assert "moved" in lines[2].plain
    assert "alloc" in lines[3].plain
