"""Each statement of the guide can be confirmed and can be refuted: its verdict follows the figures."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgtop.core import recordings
from cgtop.core.bundled import bundled_runs, telling_states
from cgtop.core.claims import STATEMENTS, claims_of
from cgtop.core.claims.evidence import Evidence
from cgtop.core.events import (
    Claim,
    Demonstration,
    DeviceInfo,
    DynamicCapture,
    Event,
    FixedTensor,
    Hello,
    PhaseId,
    SweepKind,
    SweepRow,
    decode_event,
    encode_event,
)
from cgtop.core.memory_map import MIB
from cgtop.core.phases import PHASE_IDS
from cgtop.core.recording import Recording, open_recording
from cgtop.core.state import PhaseState, RunState, Sweep, fold
from tests.core import guide_run
from tests.core.guide_run import ITEMS, batch_row, change, demonstration, guide_runs, length_row, main_run
from tests.sample import sample_run

Runs = list[RunState]
Perturbation = Callable[[Runs], Runs]
OWN_CONTRADICTION = "lengths.per_1k"
"""The guide's own table gives 206 and 174 MB per 1K for its two shortest caches, outside its "145-160"."""


def verdicts(runs: Runs) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in claims_of(runs)}


def bundled(name: str) -> Recording:
    return open_recording(Path(recordings.__file__).with_name(f"{name}.jsonl.gz"))


def main(**fields: object) -> Perturbation:
    """The same runs with other fields of the main one."""
    return lambda runs: [change(runs[0], **fields), *runs[1:]]


def items(phase: PhaseId, *pieces: tuple[str, int]) -> Perturbation:
    """A phase that is made of something else."""
    return main(phases=guide_run.phase_states({**ITEMS, phase: pieces}))


def ended(phase: PhaseId, **fields: object) -> Perturbation:
    """Another end of a phase."""

    def perturb(runs: Runs) -> Runs:
        rows = list(runs[0].phases)
        index = PHASE_IDS.index(phase)
        end = rows[index].end
        assert end is not None
        rows[index] = change(rows[index], end=change(end, **fields))
        return [change(runs[0], phases=tuple(rows)), *runs[1:]]

    return perturb


def rows_(kind: SweepKind, *rows: SweepRow) -> Perturbation:
    return lambda runs: main(sweeps={**runs[0].sweeps, kind: Sweep(rows=rows)})(runs)


def lengths(base_mib: float, bend: float = 0.0) -> Perturbation:
    """Other overheads: a fixed part, and a part that grows with the square."""
    cases = [(tokens, tokens * 0.140625 + base_mib + bend * tokens**2) for tokens in (256, 512, 1024, 2048, 4096)]
    return rows_("cache_lens", *(length_row(tokens, size) for tokens, size in cases))


def broken(*replayed: int) -> Perturbation:
    return lambda runs: [runs[0], change(runs[1], demonstration=demonstration("broken", replayed)), *runs[2:]]


def moving(static_moves: int, dynamic_moves: int, grown: bool = True) -> Perturbation:
    first, last = guide_run.caches(144, 5, 32, 0), guide_run.caches(144, 9 if grown else 5, 64, dynamic_moves)
    return main(caches=(first, change(last, static_moves=static_moves)))


def in_graph(runs: Runs) -> Runs:
    tensor = FixedTensor(name="input_ids", address=4096, bytes=8, update="in-graph")
    return main(addresses=change(runs[0].addresses, fixed=(tensor,)))(runs)  # type: ignore[type-var]


def moved(runs: Runs) -> Runs:
    return main(addresses=change(runs[0].addresses, moved=1))(runs)  # type: ignore[type-var]


def mismatch(runs: Runs) -> Runs:
    return main(verification=change(runs[0].verification, verdict="mismatch"))(runs)  # type: ignore[type-var]


def failed_capture(runs: Runs) -> Runs:
    rows = list(runs[0].phases)
    rows[PHASE_IDS.index("capture")] = PhaseState(id="capture", status="failed")
    return [change(runs[0], phases=tuple(rows), graph=None)]


def warmed_up(steps: int, runs: Runs) -> Runs:
    hello = runs[0].hello
    assert hello is not None
    return [change(runs[0], hello=change(hello, settings=change(hello.settings, warmup=steps))), *runs[1:]]


def fewer_suffice(runs: Runs) -> Runs:
    return [*runs[:2], guide_run.with_warmup(1, late=False), guide_run.with_warmup(0, late=True)]


def graph_of(**fields: object) -> Perturbation:
    return lambda runs: main(graph=change(runs[0].graph, **fields))(runs)  # type: ignore[type-var]


BIG = 600 * MIB
WORKSPACE = ("cuBLAS workspace of the stream", 8_519_680)
USABLE = DynamicCapture(captured=True, replays=4, length_before=32, length_after=36, usable=True)
USELESS = DynamicCapture(captured=True, replays=4, length_before=32, length_after=32, usable=False)
SLOW_GRAPH = main(comparison=guide_run.comparison(70.0, 25.0))
FAST_GRAPH = main(comparison=guide_run.comparison(18.0, 115.0))
ONE_SHARED = [batch_row(size, "shared-cache", 2304 if size == 16 else 0) for size in (16, 8, 4, 2, 1)]
OWN = [batch_row(size) for size in (1, 2, 4, 8, 16)]

FLIPS: dict[str, tuple[Perturbation, str]] = {
    "speed.faster": (SLOW_GRAPH, "does_not_hold"),
    "speed.eager": (FAST_GRAPH, "does_not_hold"),
    "speed.graph": (FAST_GRAPH, "does_not_hold"),
    "speed.ratio": (FAST_GRAPH, "does_not_hold"),
    "speed.reason": (SLOW_GRAPH, "does_not_hold"),
    "phases.load": (items("load", ("parameters", guide_run.WEIGHTS), ("unexplained", BIG)), "does_not_hold"),
    "phases.static_cache": (items("static_cache", ("StaticCache keys and values", 72 * MIB)), "does_not_hold"),
    "phases.main": (items("warmup", ("cuBLAS workspace", BIG)), "does_not_hold"),
    "phases.formula": (items("static_cache", ("StaticCache keys and values", 144 * MIB + 1)), "does_not_hold"),
    "phases.warmup": (items("warmup", WORKSPACE, ("logits", 303_872)), "other_reason"),
    "phases.capture": (items("capture", WORKSPACE, ("logits", 303_872)), "other_reason"),
    "phases.capture_small": (graph_of(instantiate_driver_bytes=BIG), "does_not_hold"),
    "phases.total": (items("load", ("parameters", guide_run.WEIGHTS + BIG)), "does_not_hold"),
    "phases.replay": (ended("replay", allocations=1), "does_not_hold"),
    "phases.replay_reason": (moved, "does_not_hold"),
    "warmup.enough": (items("capture", WORKSPACE), "does_not_hold"),
    "warmup.three": (fewer_suffice, "other_reason"),
    "addresses.fixed": (broken(5, 6), "does_not_hold"),
    "addresses.copy": (in_graph, "does_not_hold"),
    "caches.allocation": (moving(0, 30, grown=False), "does_not_hold"),
    "caches.addresses": (moving(1, 30), "does_not_hold"),
    "caches.graph": (main(dynamic_capture=USABLE), "does_not_hold"),
    "caches.efficiency": (items("prefill", ("DynamicCache keys and values", BIG)), "does_not_hold"),
    **{f"lengths.{tokens}": (lengths(65.0), "does_not_hold") for tokens in (256, 512, 1024, 2048, 4096)},
    "lengths.linear": (lengths(16.8, bend=1e-4), "does_not_hold"),
    "lengths.per_1k": (
        rows_("cache_lens", *(length_row(tokens, tokens * 0.140625 + 16.8) for tokens in (1024, 2048, 4096))),
        "holds",
    ),
    **{
        f"batches.{size}": (rows_("batches", *(batch_row(n, "own", 9) for n in (1, 2, 4, 8, 16))), "does_not_hold")
        for size in (1, 2, 4, 8, 16)
    },
    "batches.growth": (rows_("batches", batch_row(16), batch_row(1, "own", 0)), "does_not_hold"),
    "batches.own_cache": (rows_("batches", *OWN, *ONE_SHARED), "does_not_hold"),
    "batches.paging": (
        rows_("batches", *OWN, *(batch_row(size, "paged") for size in (1, 2, 4, 8, 16))),
        "does_not_hold",
    ),
    "workflow.prefill": (items("prefill"), "does_not_hold"),
    "workflow.create": (items("static_cache", ("StaticCache keys and values", 72 * MIB)), "does_not_hold"),
    "workflow.copy": (items("copy_kv", ("unexplained", 512)), "does_not_hold"),
    "workflow.warmup": (failed_capture, "does_not_hold"),
    "workflow.capture": (failed_capture, "does_not_hold"),
    "workflow.decode": (mismatch, "does_not_hold"),
    "summary.speed": (FAST_GRAPH, "does_not_hold"),
    "summary.capture": (graph_of(instantiate_driver_bytes=BIG), "does_not_hold"),
    "summary.main": (lengths(16.8, bend=1e-4), "does_not_hold"),
    "summary.replay": (ended("replay", device_allocations=2), "does_not_hold"),
    "summary.addresses": (broken(5, 6), "does_not_hold"),
}


def test_the_guide_is_right_where_the_figures_are_its_own() -> None:
    assert {name for name, verdict in verdicts(guide_runs()).items() if verdict != "holds"} == {OWN_CONTRADICTION}


def test_every_statement_has_a_flip() -> None:
    assert set(FLIPS) == {statement.id for statement in STATEMENTS}
    assert len(STATEMENTS) == len(FLIPS)


@pytest.mark.parametrize("name", FLIPS)
def test_a_perturbed_run_flips_the_verdict(name: str) -> None:
    perturb, wanted = FLIPS[name]
    before, after = verdicts(guide_runs())[name], verdicts(perturb(guide_runs()))[name]
    assert (before, after) == ("does_not_hold" if name == OWN_CONTRADICTION else "holds", wanted)


@pytest.mark.parametrize("name", FLIPS)
def test_nothing_measured_is_no_verdict(name: str) -> None:
    assert verdicts([])[name] == "not_measured"
    assert verdicts([RunState()])[name] == "not_measured"


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 60))
def test_every_finding_is_a_sentence_whatever_is_known(order: list[int], events: int) -> None:
    runs = [guide_runs()[index] for index in order]
    for states in (runs, list(telling_states(sample_run(decode_events=3)[:events]))):
        for claim in claims_of(states):
            assert claim.finding.endswith((".", "MiB")) and "None" not in claim.finding


@given(st.permutations(range(4)))
@settings(max_examples=24, deadline=None)
def test_the_order_of_the_runs_does_not_matter(order: list[int]) -> None:
    runs = guide_runs()
    assert verdicts([runs[index] for index in order]) == verdicts(runs)


def test_a_capture_on_a_dynamic_cache_that_succeeds_and_is_useless_is_another_reason() -> None:
    runs = main(dynamic_capture=USELESS)(guide_runs())
    claim = next(claim for claim in claims_of(runs) if claim.id == "caches.graph")
    assert claim.verdict == "other_reason" and "stays at 32 after 4 replays" in claim.finding


def test_speeds_of_wrong_results_prove_nothing() -> None:
    wrong = change(guide_run.comparison(), verdict="mismatch")
    judged = verdicts(main(comparison=wrong)(guide_runs()))
    assert (judged["speed.faster"], judged["speed.ratio"]) == ("does_not_hold", "not_measured")


OF_THE_GUIDES_MODEL = {
    *("speed.eager", "speed.graph", "speed.ratio", "summary.speed", "summary.capture", "summary.main"),
    *("phases.load", "phases.static_cache", "phases.main", "phases.warmup", "phases.capture", "phases.capture_small"),
    *("phases.total", "lengths.per_1k"),
    *(name for name in FLIPS if name.startswith(("lengths.", "batches.")) and name[-1].isdigit()),
}
OF_ANY_DEVICE = {
    *("phases.formula", "caches.allocation", "caches.efficiency"),
    *("workflow.prefill", "workflow.create", "workflow.copy"),
}


def with_hello(runs: Runs, change_it: Callable[[Hello], Hello]) -> Runs:
    return [change(run, hello=change_it(run.hello)) for run in runs if run.hello is not None]


@pytest.mark.parametrize("fields", [{"parameters": 1000, "name": "other"}, {"dtype": "float16"}])
def test_figures_of_another_model_or_dtype_are_not_the_guides(fields: dict[str, object]) -> None:
    judged = verdicts(with_hello(guide_runs(), lambda hello: change(hello, model=change(guide_run.MODEL, **fields))))
    assert {name for name, verdict in judged.items() if verdict == "not_measured"} == OF_THE_GUIDES_MODEL


def test_a_run_on_a_cpu_makes_no_claim_about_a_gpu_hold_or_fail() -> None:
    def on_cpu(hello: Hello) -> Hello:
        return change(hello, device=DeviceInfo(kind="cpu", name="a CPU"))

    for runs in (guide_runs(), failed_capture(guide_runs()), mismatch(guide_runs())):
        judged = verdicts(with_hello(runs, on_cpu))
        assert {name for name, verdict in judged.items() if verdict != "not_measured"} <= OF_ANY_DEVICE
    assert {name for name, verdict in verdicts(with_hello(guide_runs(), on_cpu)).items() if verdict == "holds"} == (
        OF_ANY_DEVICE
    )


@pytest.mark.parametrize(
    ("setting", "not_judged"),
    [
        ("batch_size", {"lengths.1024", "lengths.per_1k", "speed.eager", "phases.total", "summary.capture"}),
        ("max_cache_len", {"batches.4", "speed.ratio", "phases.static_cache", "phases.main", "summary.main"}),
    ],
)
def test_another_case_is_not_the_guides(setting: str, not_judged: set[str]) -> None:
    judged = verdicts(
        with_hello(guide_runs(), lambda hello: change(hello, settings=change(hello.settings, **{setting: 2048})))
    )
    assert {judged[name] for name in not_judged} == {"not_measured"}
    assert judged["phases.load"] == judged["phases.replay"] == "holds"


def test_other_warmups_than_three_say_nothing_of_three() -> None:
    judged = verdicts(warmed_up(5, guide_runs()[:1]))
    assert judged["workflow.warmup"] == judged["warmup.enough"] == judged["phases.warmup"] == "not_measured"


def test_warmups_without_a_capture_were_not_put_to_the_test() -> None:
    rows = tuple(row if row.id != "capture" else PhaseState(id="capture") for row in main_run().phases)
    assert verdicts([change(main_run(), phases=rows)])["workflow.warmup"] == "not_measured"


def test_sums_of_other_batch_sizes_are_not_the_guides_sums() -> None:
    judged = verdicts(rows_("batches", batch_row(16), batch_row(1))(guide_runs()))
    assert (judged["batches.1"], judged["batches.16"]) == ("holds", "not_measured")


def test_a_finding_names_the_run_that_its_figures_are_of() -> None:
    both = guide_runs()[:1]
    bench = change(main_run(), phases=RunState().phases, comparison=guide_run.comparison(20.0, 88.0))
    slower = change(bench, comparison=change(guide_run.comparison(30.0, 60.0), arms=(guide_run.arm("eager", 30.0),)))
    found = {claim.id: claim.finding for claim in claims_of([*both, bench], ("a.jsonl", "b.jsonl"))}
    assert found["phases.formula"].endswith(" From a.jsonl.")
    bare = change(main_run(), comparison=None)
    for runs, names in (([bare, slower, bench], "acb"), ([bench, slower, bare], "bca")):
        found = {claim.id: claim.finding for claim in claims_of(runs, tuple(names))}
        assert "×4.40" in found["speed.ratio"] and found["speed.ratio"].endswith(" From b.")
        assert found["phases.replay"].endswith(" From a.")
        assert found["speed.reason"].endswith((" From a and b.", " From b and a."))
    alone = claims_of([bench, bare], ("one", "one"))
    assert not any(" From " in claim.finding for claim in alone)


@pytest.mark.parametrize("runs", [guide_runs(), [state for run in bundled_runs() for state in run.states]])
def test_the_english_of_one_thing_is_singular(runs: Runs) -> None:
    for claim in claims_of(runs):
        assert not re.search(r"(?<![\d,.])1 (warmups|sizes|tokens|replays|addresses|times|tensors)\b", claim.finding)
        assert "by in-graph" not in claim.finding and "within eager noise" not in claim.finding


def test_the_bundled_run_is_judged_with_its_own_figures() -> None:
    found = {claim.id: claim for claim in claims_of([state for run in bundled_runs() for state in run.states])}
    assert found["phases.replay"].verdict == "holds"
    assert found["phases.formula"].verdict == "holds" and "150,994,944 B" in found["phases.formula"].finding
    assert found["phases.capture"].verdict in ("does_not_hold", "other_reason")
    assert "driver memory" in found["phases.capture"].finding


def test_claims_are_events() -> None:
    for claim in claims_of(guide_runs()):
        again = decode_event(encode_event(claim))
        assert isinstance(again, Claim) and again == claim


def test_the_last_state_of_each_run_of_a_stream_is_kept() -> None:
    events: list[Event] = [
        *sample_run(decode_events=1),
        demonstration("broken", (5, 5)),
        demonstration("mended", (5, 6)),
    ]
    states = telling_states([*events, *sample_run(decode_events=1)])
    stages = [state.demonstration.stage if state.demonstration else None for state in states]
    assert stages == [None, "mended"]
    assert [Evidence([state]).demonstration("broken") is not None for state in states] == [False, True]


def test_one_state_tells_both_stages_of_the_demonstration() -> None:
    state = RunState()
    for event in (*sample_run(decode_events=1), demonstration("broken", (5, 5)), demonstration("mended", (5, 6))):
        state = fold(state, event)
    found = Evidence([state])
    shown, mended = found.demonstration("broken"), found.demonstration("mended")
    assert shown is not None and mended is not None
    assert (shown.replay_ids, mended.replay_ids) == ((5, 5), (5, 6))


def test_a_rebound_input_is_judged_by_logits_and_says_so() -> None:
    def fixed(replayed: tuple[int, ...], difference: float | None, tolerance: float | None = 0.066) -> Claim:
        shown = change(demonstration("broken", replayed), difference=difference, tolerance=tolerance)
        state = fold(main_run(), shown)
        return next(claim for claim in claims_of([state]) if claim.id == "addresses.fixed")

    assert fixed((5, 6), 0.5).verdict == "holds", "the same ids by chance"
    assert "logits are 0.5 apart, where 0.066 is rounding" in fixed((5, 6), 0.5).finding
    assert fixed((5, 7), 0.01).verdict == "does_not_hold", "another id by rounding"
    assert fixed((5, 7), None, None).verdict == "holds", "by the ids in an older recording"
    assert fixed((5, 6), None).verdict == "holds", "logits that are no numbers follow nothing"
    assert fixed((5,), 0.0).verdict == "holds", "half of the replays are not all"
    assert fixed((), 0.0).verdict == "not_measured"


def test_an_id_that_flips_between_nearly_equal_logits_does_not_decide_about_copying() -> None:
    def copied(difference: float) -> str:
        mended = change(demonstration("mended", (5, 7)), difference=difference, tolerance=0.066)
        state = fold(fold(main_run(), demonstration("broken", (5, 5))), mended)
        found = next(claim for claim in claims_of([state]) if claim.id == "addresses.copy")
        return found.finding

    assert "does reach the graph" in copied(0.01)
    assert "did not reach the graph" in copied(1.4)


def test_an_input_that_is_rebound_on_purpose_is_no_address_that_moved() -> None:
    run = main_run()
    assert run.addresses is not None
    away = change(run.addresses, fixed=tuple(change(tensor, moved=True) for tensor in guide_run.FIXED), moved=1)
    rebound = change(run, addresses=away, demonstration=demonstration("broken", (5, 5)))
    judged = verdicts([rebound])
    assert judged["phases.replay_reason"] == verdicts([run])["phases.replay_reason"] == "holds"
    worse = change(rebound, addresses=change(away, moved=2))
    assert verdicts([worse])["phases.replay_reason"] == "does_not_hold"


def test_an_input_put_right_again_did_not_move_before_the_next_list_of_addresses_either() -> None:
    """Earlier versions told of the addresses only with the next replays."""
    recording = bundled("h200-qwen3-4b")
    places = {e.stage: n + 1 for n, e in enumerate(recording.events) if isinstance(e, Demonstration)}
    broken, mended = (recording.state_after(places[stage]) for stage in ("broken", "mended"))
    assert broken.addresses is not None and broken.addresses.moved == 1
    judged = verdicts([change(mended, addresses=broken.addresses)])
    assert (judged["phases.replay_reason"], judged["workflow.copy"]) == ("holds", "holds")


def test_ways_of_serving_are_compared_over_the_same_batch_sizes() -> None:
    """In the middle of a sweep one way has fewer rows: its smaller sum, or its larger one, is no finding."""
    every = [*OWN, *ONE_SHARED, *(batch_row(size, "paged", 2306 if size == 16 else 0) for size in (16, 8, 4, 2, 1))]
    judged = verdicts(rows_("batches", *every)(guide_runs()))
    assert (judged["batches.own_cache"], judged["batches.paging"]) == ("does_not_hold", "holds")
    for some in (every[:7], every[:9], [*every[5:10], *every[:2]]):
        assert verdicts(rows_("batches", *some)(guide_runs()))["batches.own_cache"] == "not_measured", some
    for some in (every[:12], [*every[10:], *every[:2]]):
        assert verdicts(rows_("batches", *some)(guide_runs()))["batches.paging"] == "not_measured", some


def test_the_largest_overhead_is_known_when_warmup_and_capture_have_added_theirs() -> None:
    for status in ("pending", "running"):
        rows = [change(row, status=status, end=None) if row.id == "capture" else row for row in main_run().phases]
        assert verdicts([change(main_run(), phases=tuple(rows))])["phases.main"] == "not_measured"


def test_a_capture_is_judged_when_it_has_ended() -> None:
    rows = [change(row, status="running", end=None) if row.id == "capture" else row for row in main_run().phases]
    judged = verdicts([change(main_run(), phases=tuple(rows))])
    assert {judged[name] for name in ("workflow.capture", "addresses.copy")} == {"not_measured"}


def test_an_allocation_in_a_later_replay_is_one_of_a_replay() -> None:
    """The phase's counters are of its own replays; the decode loop counts all of them."""
    run = main_run()
    graph = change(run.decode_by_mode["graph"], replays=4000, replay_allocations=3)
    (claim,) = (
        found
        for found in claims_of([change(run, decode_by_mode={**run.decode_by_mode, "graph": graph})])
        if found.id == "phases.replay"
    )
    assert claim.verdict == "does_not_hold" and "in all 4,000 replays 3" in claim.finding


@pytest.mark.parametrize("experiment", ["batches", "check"])
def test_what_an_experiment_did_is_not_denied(experiment: str) -> None:
    """A sweep allocates caches and a check replays, but outside of the phases that these statements are judged by."""
    recording = bundled(f"h200-qwen3-4b-{experiment}")
    findings = {claim.id: claim.finding for claim in claims_of([recording.state_after(len(recording.events))])}
    if experiment == "batches":
        assert findings["phases.static_cache"] == "Not measured: no static cache phase that has ended."
    assert findings["phases.replay"] == "Not measured: no replay phase that has ended, with the allocator's counters."
    assert "for those of comparisons and checks" in findings["workflow.decode"]


def test_nothing_is_judged_by_a_comparison_that_was_stopped_before_there_was_an_interval() -> None:
    for rounds, used in ((5, False), (6, True)):
        stopped = change(guide_run.comparison(30.0, 31.0), stopped=True, rounds=rounds)
        seen = Evidence([change(main_run(), comparison=stopped)])
        assert (seen.comparison is not None) == used
        assert (seen.speed_up == pytest.approx(31 / 30)) == used


def test_a_speed_up_says_whether_it_is_of_the_comparison() -> None:
    for run, told in ((main_run(), True), (change(main_run(), comparison=None), False)):
        findings = {claim.id: claim.finding for claim in claims_of([run])}
        assert all(("in the comparison" in findings[name]) is told for name in ("speed.faster", "speed.ratio"))


def test_speeds_are_of_the_longest_stretch_and_of_more_than_a_few_steps() -> None:
    short, long = guide_run.decode("eager", 18.0), guide_run.decode("eager", 27.0)
    run = change(main_run(), comparison=None)
    graph = run.decode_by_mode["graph"]
    stretched = change(run, decode_by_mode={"eager": short, "graph": graph}, longest_by_mode={"eager": long})
    assert Evidence([stretched]).speed("eager") == 27.0
    few = change(run, decode_by_mode={"eager": change(short, tokens=2), "graph": graph})
    assert Evidence([few]).speed("eager") is None and Evidence([few]).speed_up is None
    assert verdicts([few])["speed.ratio"] == "not_measured"
