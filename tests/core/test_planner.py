"""A plan adds up, agrees with what a recorded run really took, and finds the most that fits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgtop.core.bundled import bundled_runs
from cgtop.core.configs import model_facts
from cgtop.core.events import SweepRow
from cgtop.core.memory_map import GIB, MIB
from cgtop.core.overheads import Overheads, overheads_of
from cgtop.core.planner import Plan, PlanRow, expanded_kv_bytes, make_plan
from cgtop.core.state import RunState, Sweep
from tests.core.guide_run import change, main_run

FOUR_B = model_facts("qwen3-4b")


@pytest.fixture(autouse=True)
def no_workspace_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def recorded() -> tuple[RunState, Overheads]:
    for run in bundled_runs():
        known = overheads_of(run.state, run.name)
        if known is not None and known.model == "qwen3-4b":
            return run.state, known
    raise AssertionError("no bundled run of qwen3-4b")


def term(row: PlanRow, name: str) -> int | None:
    return next(found.bytes for found in row.terms if found.name == name)


def one(plan: Plan) -> PlanRow:
    (row,) = plan.rows
    return row


def test_closed_forms_are_the_published_figures() -> None:
    plan = make_plan(FOUR_B, cache_lens=(1024,), capability="8.6")
    assert plan.weight_bytes == 8_044_936_192
    assert plan.static_cache_bytes == one(plan).static_cache_bytes == 150_994_944
    assert term(one(plan), "length counters") == 288
    assert term(one(plan), "cuBLAS workspace") == 8_519_680
    assert term(one(plan), "logits kept by the graph") == 303_872
    assert term(one(make_plan(FOUR_B, cache_lens=(1024,), capability="9.0")), "cuBLAS workspace") == 33_554_432


def test_the_plan_of_the_recorded_case_is_what_the_recorded_run_took() -> None:
    state, known = recorded()
    asked = state.hello.settings if state.hello else None
    assert asked is not None
    plan = make_plan(
        FOUR_B,
        capability="9.0",
        cache_lens=(asked.max_cache_len,),
        batch_sizes=(asked.batch_size,),
        prompt_len=asked.prompt_len,
        overheads=known,
    )
    end = state.phase("replay").end
    assert end is not None and end.after.reserved is not None and end.after.driver is not None
    assert abs(one(plan).total_bytes - (end.after.reserved + end.after.driver)) < MIB / 10
    assert {found.certainty for found in one(plan).terms} == {"computed", "measured"}
    assert all(known.source == found.source for found in one(plan).terms if found.certainty == "measured")


def test_another_model_or_case_is_concluded_not_measured() -> None:
    _, known = recorded()
    rows = make_plan(FOUR_B, cache_lens=(4096,), overheads=known).rows
    pool = next(found for found in rows[0].terms if found.name == "graph pool")
    assert pool.certainty == "inferred" and known.source in pool.source
    grown = expanded_kv_bytes(FOUR_B, 1, 4096) - expanded_kv_bytes(FOUR_B, 1, 1024)
    assert grown == 48 * MIB and pool.bytes == (known.pool_bytes or 0) + grown
    other = one(make_plan(model_facts("qwen3-8b"), cache_lens=(1024,), overheads=known))
    certainty = {found.name: found.certainty for found in other.terms}
    assert certainty["CUDA context"] == "measured"
    assert certainty["executable graph"] == certainty["rounding"] == certainty["graph pool"] == "inferred"


def test_what_another_gpu_was_measured_with_is_concluded_for_this_one() -> None:
    _, known = recorded()
    assert known.capability == "9.0"
    other = one(make_plan(FOUR_B, cache_lens=(1024,), capability="8.6", overheads=known))
    assert {term.certainty for term in other.terms if known.source in term.source} == {"inferred"}
    assert all("on another GPU" in term.source for term in other.terms if term.certainty == "inferred")
    same = one(make_plan(FOUR_B, cache_lens=(1024,), capability="9.0", overheads=known))
    assert {term.certainty for term in same.terms if known.source in term.source} == {"measured"}


def test_a_measured_pool_of_a_sweep_is_taken_as_it_is() -> None:
    row = SweepRow(sweep="cache_lens", value=4096, pool_bytes=70 * MIB)
    state, _ = recorded()
    known = overheads_of(change(state, sweeps={"cache_lens": Sweep(rows=(row,))}), "mine")
    assert known is not None
    pool = next(t for t in one(make_plan(FOUR_B, cache_lens=(4096,), overheads=known)).terms if t.name == "graph pool")
    assert (pool.bytes, pool.certainty) == (70 * MIB - 303_872, "measured")


def test_without_a_recording_what_is_not_known_is_not_in_the_sum() -> None:
    row = one(make_plan(FOUR_B, cache_lens=(1024,)))
    unknown = [found.name for found in row.terms if found.bytes is None]
    assert "graph pool" in unknown and "CUDA context and modules" in unknown
    assert row.total_bytes == sum(found.bytes for found in row.terms if found.bytes is not None)


def test_a_run_on_a_cpu_or_without_a_graph_gives_no_overheads() -> None:
    assert overheads_of(RunState(), "none") is None
    run = main_run()
    assert run.hello is not None
    on_cpu = change(run.hello, device=change(run.hello.device, kind="cpu"))
    assert overheads_of(change(run, hello=on_cpu), "cpu") is None


@settings(max_examples=25, deadline=None)
@given(
    memory=st.integers(1, 200).map(lambda gib: gib * GIB),
    batch=st.integers(1, 64),
    model=st.sampled_from(["qwen3-0.6b", "qwen3-4b", "qwen3-8b"]),
)
def test_the_longest_cache_and_the_largest_batch_are_the_last_that_fit(memory: int, batch: int, model: str) -> None:
    facts = model_facts(model)
    plan = make_plan(facts, memory_bytes=memory, batch_sizes=(batch,), cache_lens=(1024,))
    longest, largest = plan.longest_cache[batch], plan.largest_batch[1024]

    def fits(size: int, length: int) -> bool | None:
        return one(make_plan(facts, memory_bytes=memory, batch_sizes=(size,), cache_lens=(length,))).fits

    if longest is not None:
        assert fits(batch, longest) is True
        assert longest == facts.max_positions or fits(batch, longest + 1) is False
    else:
        assert fits(batch, 33) is False
    if largest is not None:
        assert fits(largest, 1024) is True and fits(largest + 1, 1024) is False
    else:
        assert fits(1, 1024) is False


def test_a_cache_beyond_the_models_positions_is_told_not_judged() -> None:
    row = one(make_plan(FOUR_B, memory_bytes=200 * GIB, cache_lens=(50_000,)))
    assert row.fits is None and "40,960" in row.note
