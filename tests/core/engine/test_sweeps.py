"""Sweeps on the real tiny model and a CPU that pretends to capture: every strategy, closed forms, failures, sums."""

import gc
from typing import Any

import msgspec
import pytest
import torch

from cgtop.core.commands import Cancel, RunPhase, RunSweep
from cgtop.core.engine import sweep_batches, sweep_rig, sweep_rows
from cgtop.core.engine.graphs import CapturedStep
from cgtop.core.engine.ledger import Ledger
from cgtop.core.engine.prompts import Prompt, prefill
from cgtop.core.engine.strategies import STRATEGIES
from cgtop.core.engine.sweep_attempts import Wanted, knob
from cgtop.core.engine.sweep_rig import Rig
from cgtop.core.engine.verdicts import EAGER_RUNS
from cgtop.core.events import Error, PhaseEnd, Status, SweepBegin, SweepRow, Tokens
from cgtop.core.memory_map import MIB
from cgtop.core.settings import RunSettings
from cgtop.core.state import RunState, fold
from tests.core.engine.driving import Driven, with_
from tests.core.engine.sweeping import Sweeping

BATCHES = RunSweep(sweep="batches", values=(1, 3, 2))
LENGTHS = RunSweep(sweep="cache_lens", values=(16, 32, 64))
QUICK = with_(verify_steps=0)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_rows, "SPEED_STEPS", 4)
    monkeypatch.setattr(sweep_rows, "SPIN_UP_STEPS", 2)
    monkeypatch.setattr(gc, "collect", lambda: 0)  # most of such a test's time, and nothing here hangs on it


@pytest.fixture(scope="module")
def all_strategies() -> Sweeping:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_rows, "SPEED_STEPS", 4)
        sweeping = Sweeping(with_(max_cache_len=90))
        sweeping.sweep(RunSweep(sweep="batches", values=(1, 3)))
        return sweeping


def rows_of(sweeping: Sweeping, strategy: str) -> list[SweepRow]:
    return [row for row in sweeping.of(SweepRow) if row.strategy == strategy]


# ---------------------------------------------------------------------------------------------------- batch sizes


def test_every_strategy_is_captured_in_its_order_verified_and_timed(all_strategies: Sweeping) -> None:
    orders = {name: [row.value for row in rows_of(all_strategies, name)] for name in STRATEGIES}
    ascending, descending = [1, 3], [3, 1]
    assert orders == {
        "own": ascending,
        "shared-pool": descending,
        "shared-pool-ascending": ascending,
        "shared-cache": descending,
        "paged": descending,
    }
    for row in all_strategies.of(SweepRow):
        assert (row.status, row.verdict) == ("done", "identical")
        assert row.tok_s is not None and row.tok_s > 0
        assert (row.verify_steps, row.identical_steps, row.max_difference) == (64, 64, 0.0)
        assert (row.eager_runs, row.eager_difference, row.reason) == (1, None, "")
    begin = all_strategies.of(SweepBegin)[0]
    assert (begin.values, begin.strategies) == ((1, 3), tuple(STRATEGIES))


def test_an_attention_that_is_too_far_from_the_models_own_is_a_mismatch_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweep_rows, "tolerance", lambda loaded: -1.0)
    monkeypatch.setattr(sweep_rows, "again", lambda rig, caches: [])
    sweeping = Sweeping()
    own, paged = sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own", "paged")))
    assert (own.verdict, own.reason) == ("identical", "")
    assert (paged.verdict, paged.tok_s, paged.max_difference) == ("mismatch", None, 0.0)
    assert "from that of the model's own attention, and -1 is allowed: no speed is valid" in paged.reason


def test_tokens_are_equal_across_strategies_in_fp32(all_strategies: Sweeping) -> None:
    agreement = next(note for note in all_strategies.end.notes if note.startswith("paged attention"))
    assert "256 of 256 greedy tokens equal" in agreement  # 64 steps of batch 1 and of batch 3
    for name in ("shared-pool", "shared-pool-ascending", "shared-cache", "paged"):
        assert f"{name}: each of its 2 graphs was right again after all were captured" in all_strategies.end.notes


def test_kv_is_the_closed_form_and_counters_and_shared_memory_counts_once(all_strategies: Sweeping) -> None:
    info = all_strategies.session.workflow.plan.info
    token = 2 * info.layers * info.kv_heads * info.head_dim * 4
    counters = 8 * info.layers
    for name in ("own", "shared-pool", "shared-pool-ascending"):
        for row in rows_of(all_strategies, name):
            assert row.kv_closed_form_bytes == row.value * 90 * token
            assert row.kv_bytes == row.kv_closed_form_bytes + counters
    largest, smaller = rows_of(all_strategies, "shared-cache")
    assert largest.kv_bytes == 3 * 90 * token + counters
    assert (smaller.kv_bytes, smaller.kv_closed_form_bytes) == (0, 0)
    largest, smaller = rows_of(all_strategies, "paged")
    pages = 3 * 6 + 1
    assert largest.page_bytes == 16 * token
    assert largest.kv_closed_form_bytes == pages * 16 * token
    assert largest.kv_bytes == largest.kv_closed_form_bytes + counters + 3 * 6 * 8
    assert smaller.kv_bytes == 0
    in_use = -(-(7 + 64 + 1) // 16)
    assert (largest.pages_in_use, smaller.pages_in_use) == (3 * in_use, in_use)


def test_pools_are_shared_where_the_strategy_says_so(all_strategies: Sweeping) -> None:
    handles = [pool for _, pool in all_strategies.device.captures]
    assert handles[:2] == [None, None]
    assert [len(set(handles[i : i + 2])) for i in (2, 4, 6, 8)] == [1, 1, 1, 1]
    assert len({handles[i] for i in (2, 4, 6, 8)}) == 4 and None not in handles[2:]


def test_graphs_of_a_strategy_are_dropped_together_after_its_last_row() -> None:
    sweeping = Sweeping(QUICK)
    standing: list[int] = []
    sweeping.on_row = lambda row: standing.append(len(sweeping.device.captures) - len(sweeping.device.released))
    sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own", "shared-pool")))
    assert standing == [1, 2, 1, 2]
    assert len(sweeping.device.released) == 4


def test_without_verification_nothing_is_called_verified() -> None:
    sweeping = Sweeping(QUICK)
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(2,), strategies=("paged",)))
    assert [row.verdict for row in rows] == [None]
    assert any("not verified" in note for note in sweeping.end.notes)


def test_a_wrong_replay_is_a_mismatch_without_a_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping()
    capture = sweeping.device.capture

    def spoilt(*arguments: object) -> CapturedStep:
        captured = capture(*arguments)  # type: ignore[arg-type]
        replay = captured.replay

        def wrong() -> None:
            replay()
            captured.logits.add_(1)

        monkeypatch.setattr(captured, "replay", wrong)
        return captured

    monkeypatch.setattr(sweeping.device, "capture", spoilt)
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own",)))
    assert [(row.verdict, row.tok_s) for row in rows] == [("mismatch", None)]
    (row,) = rows
    assert row.max_difference == pytest.approx(1)
    assert (row.eager_difference, row.eager_runs) == (0.0, EAGER_RUNS)
    assert (row.verify_steps, row.identical_steps, row.first_mismatch_step) == (64, 0, 0)
    for part in ("from step 0 on", "in 8 of 8 replayed runs", "up to 1 from the nearest of 8 eager runs"):
        assert part in row.reason
    assert "no speed is valid" in rows[0].reason


def test_a_graph_that_a_later_capture_wrote_over_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping()
    again = sweep_rows.again

    def overwritten(rig: Rig, caches: object) -> list[int]:
        captured = rig.served[0].captured
        replay = captured.replay

        def wrong() -> None:
            replay()
            captured.logits.neg_()

        captured.replay = wrong  # type: ignore[method-assign]
        return again(rig, caches)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep_batches, "again", overwritten)
    sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("shared-pool",)))
    assert "batch sizes 2" in sweeping.of(Error)[0].headline


# -------------------------------------------------------------------------------------------------- failed rows


@pytest.mark.parametrize("strategy", ["own", "shared-cache", "paged"])
def test_out_of_memory_at_one_size_keeps_the_other_rows(strategy: str) -> None:
    sweeping = Sweeping(QUICK)

    def full(batch_size: int) -> None:
        if batch_size == 8:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. 512.00 MiB is free.")

    sweeping.device.before_capture = full
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2, 4, 8), strategies=(strategy,)))
    by_size = {row.value: row for row in rows}
    assert {size: row.status for size, row in by_size.items()} == {
        1: "done",
        2: "done",
        4: "done",
        8: "out_of_memory",
    }
    failed = by_size[8]
    assert failed.needed_bytes == 3 << 29 and failed.free_bytes == 512 << 20
    assert "1.50 GiB needed" in failed.reason and "512.0 MiB free" in failed.reason
    assert failed.hint == "Try --max-cache-len 10 (now 40)."
    assert not sweeping.end.cancelled and not sweeping.of(Error)
    assert sum(row.kv_bytes or 0 for row in rows) > 0, "what a shared cache takes is in the first row that stands"
    assert sweeping.of(Status)[-1].state == "idle"


def test_the_pool_and_what_is_reserved_are_told_with_out_of_memory() -> None:
    sweeping = Sweeping(QUICK)
    sweeping.device.pool_growth = [700, 0]

    def full(batch_size: int) -> None:
        if batch_size == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")

    sweeping.device.before_capture = full
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    assert (rows[1].pool_bytes, rows[1].reserved_bytes) == (700, 4096 + 700)
    assert "700" not in rows[1].reason or "pools" in rows[1].reason


def test_the_session_decodes_on_after_out_of_memory() -> None:
    sweeping = Sweeping(QUICK)

    def full(batch_size: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    sweeping.device.before_capture = full
    sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own",)))
    sweeping.run(RunPhase(), RunPhase())
    assert [end.phase for end in sweeping.of(PhaseEnd)][-2:] == ["static_cache", "copy_kv"]


def test_another_failure_is_a_failed_row_and_a_lost_device_ends_the_run() -> None:
    sweeping = Sweeping(QUICK)
    errors = {1: RuntimeError("operation not permitted when stream is capturing"), 2: None}

    def fails(batch_size: int) -> None:
        if (error := errors[batch_size]) is not None:
            raise error

    sweeping.device.before_capture = fails
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    assert [row.status for row in rows] == ["failed", "done"] and "captured" in rows[0].reason

    sweeping = Sweeping(QUICK)
    errors[1] = RuntimeError("CUDA error: an illegal memory access was encountered")
    sweeping.device.before_capture = fails
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    assert [row.status for row in rows] == ["failed"]
    assert sweeping.of(Error)[-1].kind == "device_lost" and sweeping.of(Status)[-1].state == "failed"


def test_the_knob_is_an_option_of_the_sweep_that_failed() -> None:
    settings = RunSettings(max_cache_len=1024)
    assert knob(Wanted("batches", "own", 16), 1 << 30, 3 << 30, settings) == "Try --max-cache-len 256 (now 1024)."
    assert knob(Wanted("cache_lens", "own", 4096), None, None, settings) == "Try lengths up to 2048 in --cache-lens."
    larger = msgspec.structs.replace(settings, batch_size=4)
    assert knob(Wanted("cache_lens", "own", 4096), None, None, larger) == "Try --batch-size 2 (now 4)."


# -------------------------------------------------------------------------------------------------- sums and peaks


def test_costs_are_measured_one_by_one_and_summed_never_extrapolated() -> None:
    sweeping = Sweeping(QUICK)
    sweeping.device.pool_growth = [500, 2, 1]
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(4, 2, 1), strategies=("shared-pool",)))
    assert [row.pool_bytes for row in rows] == [500, 2, 1]
    assert [row.reserved_bytes for row in rows] == [500, 2, 1]
    assert [row.total_bytes for row in rows] == [500, 502, 503]


def test_a_transient_peak_is_told_beside_what_is_retained() -> None:
    sweeping = Sweeping(QUICK)
    sweeping.device.pool_growth, sweeping.device.retained, sweeping.device.transient = [0], 24, 900
    (row,) = sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own",)))
    assert (row.allocated_bytes, row.total_bytes, row.peak_bytes) == (24, 24, 900)


@pytest.mark.parametrize("cleared", [False, True], ids=["kept", "cleared with the graphs"])
def test_the_streams_workspace_counts_once_a_strategy_and_in_every_length(
    monkeypatch: pytest.MonkeyPatch, cleared: bool
) -> None:
    """Whether dropping graphs frees it depends on torch: the rows must be the same."""
    order: list[str] = []
    sweeping = Sweeping(QUICK)
    device = sweeping.device
    device.pool_growth = [0] * 6
    standing_at: list[int] = []

    def provoke(ledger: Ledger, stream: object, dtype: object, where: str) -> int:
        if "sweep" not in where:
            return 0
        order.append("provoked")
        gone = cleared and standing_at and len(device.released) > standing_at[-1]
        if standing_at and not gone:
            return 0
        standing_at.append(len(device.released))
        device.take(0 if gone else 32)
        return 32

    def prefilled(*arguments: Any, **named: Any) -> Prompt:
        order.append("prefilled")
        return prefill(*arguments, **named)

    monkeypatch.setattr(Ledger, "provoke_workspace", provoke)
    monkeypatch.setattr(sweep_rig, "prefill", prefilled)
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own", "shared-pool")))
    assert order[:2] == ["provoked", "prefilled"]
    assert [row.workspace_bytes for row in rows] == [32, 0, 32, 0]
    if not cleared:
        assert [row.total_bytes for row in rows] == [32, 32, 32, 32]
    rows = sweeping.sweep(RunSweep(sweep="cache_lens", values=(16, 32)))[4:]
    assert [row.workspace_bytes for row in rows] == [32, 32]
    if not cleared:
        assert [(row.allocated_bytes, row.total_bytes) for row in rows] == [(32, 32), (32, 32)]


def test_what_a_platform_does_not_count_is_unknown_not_nothing() -> None:
    sweeping = Sweeping(QUICK)
    (row,) = sweeping.sweep(RunSweep(sweep="batches", values=(1,), strategies=("own",)))
    assert row.kv_bytes
    for name in ("pool_bytes", "allocated_bytes", "reserved_bytes", "driver_bytes", "total_bytes", "peak_bytes"):
        assert getattr(row, name) is None


# --------------------------------------------------------------------------------------------------- cache lengths


def test_each_length_is_a_row_in_the_order_asked_for() -> None:
    sweeping = Sweeping()
    rows = sweeping.sweep(LENGTHS)
    info = sweeping.session.workflow.plan.info
    token = 2 * info.layers * info.kv_heads * info.head_dim * 4
    assert [row.value for row in rows] == [16, 32, 64]
    for row in rows:
        assert (row.sweep, row.strategy, row.status, row.verdict) == ("cache_lens", "own", "done", "identical")
        assert row.kv_closed_form_bytes == row.value * token and row.kv_bytes == row.value * token + 8 * info.layers
    assert sweeping.end.slope_bytes_per_token is None, "nothing is fitted through totals that are unknown"


def test_the_line_through_the_totals_is_the_kv_of_a_token_and_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweeping = Sweeping(QUICK)
    device = sweeping.device
    device.pool_growth = [30, 30, 30]
    lengths = [16, 32, 64]
    monkeypatch.setattr(device, "before_capture", lambda _: setattr(device, "retained", 10 + 7 * lengths.pop(0)))
    rows = sweeping.sweep(LENGTHS)
    assert [row.total_bytes for row in rows] == [40 + 7 * length for length in (16, 32, 64)]
    assert sweeping.end.slope_bytes_per_token == pytest.approx(7)
    assert sweeping.end.intercept_bytes == pytest.approx(40)
    assert sweeping.end.r_squared == pytest.approx(1)
    assert sweeping.end.notes[0].startswith("slope: 7 B a token")
    assert not [note for note in sweeping.end.notes if note.startswith("held")], "the same at every length"


def test_what_a_pool_holds_in_whole_segments_is_told_beside_the_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping(QUICK)
    device = sweeping.device
    device.pool_growth = [2 * MIB, 2 * MIB, 20 * MIB]
    lengths = [16, 32, 64]
    monkeypatch.setattr(device, "before_capture", lambda _: setattr(device, "retained", 7 * lengths.pop(0)))
    rows = sweeping.sweep(LENGTHS)
    slope = sweeping.end.slope_bytes_per_token
    assert slope is not None and slope > 100_000
    (told,) = [note for note in sweeping.end.notes if note.startswith("held")]
    assert "2.0 at 16, 2.0 at 32, 20.0 at 64 tokens" in told
    assert [row.allocated_bytes for row in rows] == [7 * length for length in (16, 32, 64)]


# ------------------------------------------------------------------------------------------------- cancel, refusals


def test_a_cancelled_sweep_keeps_its_rows_and_gives_back_what_it_took() -> None:
    sweeping = Sweeping(QUICK)
    sweeping.on_row = lambda row: Cancel() if row.value == 2 else None
    rows = sweeping.sweep(RunSweep(sweep="batches", values=(1, 2, 3)))
    assert [(row.strategy, row.value) for row in rows] == [("own", 1), ("own", 2)]
    assert sweeping.end.cancelled
    assert len(sweeping.device.released) == 2
    assert sweeping.of(Status)[-1].state == "idle"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (RunSweep(sweep="batches", strategies=("nonsense",)), "no strategy 'nonsense'; choose from own, shared-pool"),
        (RunSweep(sweep="batches", values=(0,)), "a batch size must be 1 or more"),
        (RunSweep(sweep="cache_lens", values=(7, 64)), "no room to decode after a prompt of 7; choose lengths from 8"),
        (RunSweep(sweep="cache_lens", values=(50_000,)), "knows 40960 positions; choose lengths up to 40960"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_is_measured(command: RunSweep, why: str) -> None:
    sweeping = Sweeping(QUICK)
    assert sweeping.sweep(command) == []
    assert why in sweeping.refusal
    assert not sweeping.of(SweepBegin)


def test_a_cpu_has_no_graphs_to_measure() -> None:
    driven = Driven()
    driven.run(LENGTHS)
    status = next(status for status in driven.of(Status) if status.refused)
    assert status.refused == "run_sweep" and "CUDA graphs need CUDA" in status.why


def test_after_release_there_is_no_model_to_measure() -> None:
    sweeping = Sweeping(with_(verify_steps=0, tokens=4))
    workflow = sweeping.session.workflow
    for _ in range(9):
        sweeping.queue.put(RunPhase())
    sweeping.sweep(LENGTHS)
    assert workflow.loaded is None and "released" in sweeping.refusal


# -------------------------------------------------------------------------------------------------- the run's own


def test_the_runs_own_decoding_goes_on_where_it_was() -> None:
    def tokens(sweeping: Sweeping) -> list[int]:
        static = sweeping.session.workflow.static
        assert static is not None
        with torch.no_grad():
            return [int(static.step()[0].argmax()) for _ in range(5)]

    settings = with_(verify_steps=64, max_cache_len=48)
    swept, plain = Sweeping(settings), Sweeping(settings)
    for sweeping in (swept, plain):
        for _ in range(7):
            sweeping.queue.put(RunPhase())
    guard = swept.session.workflow
    swept.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own", "paged")))
    plain.run()
    assert guard.guard is not None and guard.guard.moved() == []
    assert guard.captured is not None and guard.static is not None
    assert tokens(swept) == tokens(plain)
    assert guard.loaded is not None and guard.loaded.model.config._attn_implementation == "sdpa"


def test_rows_fold_into_the_state_as_they_come() -> None:
    sweeping = Sweeping(QUICK)
    sweeping.sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own",)))
    state = RunState()
    for event in sweeping.events:
        state = fold(state, event)
    sweep = state.sweeps["batches"]
    assert sweep.begin is not None and sweep.end is not None and [row.value for row in sweep.rows] == [1, 2]
    assert not [event for event in sweeping.events if isinstance(event, Tokens)], "the run's own figures are untouched"
