"""The report of a run: complete, exact where it can be, and honest where it cannot."""

from functools import reduce

import msgspec
import pytest

from cgtop.core.events import (
    CounterName,
    Counters,
    Decode,
    Error,
    Event,
    Item,
    Memory,
    PhaseEnd,
    PhaseId,
    Verification,
)
from cgtop.core.memory_map import MIB
from cgtop.core.phases import PHASE_BY_ID, PHASE_IDS
from cgtop.core.state import RunState, fold
from cgtop.tui.report import Origin, Report, Section, Table, report
from tests.sample import counters, hello, sample_run
from tests.tui.experiments import COMPARED

COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved", "driver")


def state_of(events: list[Event]) -> RunState:
    return reduce(fold, events, RunState())


def section(made: Report, start: str) -> Section:
    return next(section for section in made.sections if section.title.startswith(start))


def table(made: Report, start: str) -> Table:
    found = section(made, start).table
    assert found is not None
    return found


def with_verdict(verdict: str) -> list[Event]:
    return [
        msgspec.structs.replace(event, verdict=verdict) if isinstance(event, Verification) else event
        for event in sample_run()
    ]


def test_every_phase_has_a_row_and_every_counter_its_delta() -> None:
    rows = table(report(state_of(sample_run())), "Phase by phase").rows
    assert [row.cells[0] for row in rows] == [PHASE_BY_ID[phase].short for phase in PHASE_IDS]
    load = rows[PHASE_IDS.index("load")].cells
    assert load[2:10] == ("7,672.0", "+7,672.0", "7,726.0", "+7,726.0", "8,468.0", "+8,468.0", "612.0", "+92.0")


def test_every_delta_stands_with_its_items_in_exact_bytes() -> None:
    rows = [row.cells for row in table(report(state_of(sample_run())), "What each Δ").rows]
    named: dict[tuple[str, str], list[str]] = {}
    phase = ""
    for cells in rows:
        phase = cells[0] or phase
        named.setdefault((phase, cells[1]), []).extend(cells[2:4])
    for event in sample_run():
        if not isinstance(event, PhaseEnd):
            continue
        for name in COUNTERS:
            texts = named[PHASE_BY_ID[event.phase].short, name]
            for item in event.explained[name]:
                assert item.name in texts
                assert f"{abs(item.bytes):,}" in "".join(texts)


def test_an_inferred_cause_is_marked_and_a_measured_one_is_not() -> None:
    rows = [row.cells for row in table(report(state_of(sample_run())), "What each Δ").rows]
    assert next(cells for cells in rows if cells[2] == "load driver")[5] == "≈ inferred"
    assert next(cells for cells in rows if cells[2] == "load requested")[5] == "measured"


def test_items_that_do_not_add_up_are_shown_as_unexplained() -> None:
    end = PhaseEnd(
        phase="load",
        before=Counters(requested=0),
        after=Counters(requested=100 * MIB),
        explained={"requested": (Item(name="weights", bytes=99 * MIB),)},
    )
    rows = table(report(state_of([hello(), end])), "What each Δ").rows
    unexplained = next(row for row in rows if row.cells[2].strip() == "unexplained")
    assert unexplained.cells[3] == f"+{MIB:,}"
    assert unexplained.tone == "bad"


def test_buckets_stand_beside_the_device_total_they_add_up_to() -> None:
    rows = {row.cells[0]: row.cells[1:] for row in table(report(state_of(sample_run())), "Where the bytes").rows}
    assert rows["sum of the buckets"] == rows["device total"] == ("143,360.0",) * len(PHASE_IDS)


def test_buckets_that_miss_the_total_are_told_by_how_much() -> None:
    sample = Memory(phase="load", total_bytes=100, buckets={"weights": 60, "free": 37})
    notes = section(report(state_of([hello(), sample])), "Where the bytes").notes
    assert "load: the buckets miss the device total by +3 B" in notes


def test_what_no_event_said_is_not_a_number() -> None:
    cpu = PhaseEnd(phase="load", before=Counters(requested=0), after=Counters(requested=MIB), seconds=None)
    made = report(state_of([hello(), cpu, Memory(phase="load", buckets={"weights": MIB}, reasons={"free": "no GPU"})]))
    cells = table(made, "Phase by phase").rows[PHASE_IDS.index("load")].cells
    assert cells[2:4] == ("1.0", "+1.0")
    assert set(cells[4:]) == {"n/a"}
    rows = {row.cells[0]: row.cells[1] for row in table(made, "Where the bytes").rows}
    assert (rows["weights"], rows["device total"]) == ("1.0", "n/a")
    assert "free" not in rows
    notes = section(made, "Where the bytes").notes
    assert "n/a: free (no GPU)" in notes
    assert any("no total is claimed" in note for note in notes)


def test_an_unavailable_phase_says_why_and_shows_no_figure() -> None:
    end = PhaseEnd(phase="capture", status="unavailable", reason="needs CUDA", after=counters("capture"))
    found = section(report(state_of([hello(), end])), "Phase by phase")
    assert "capture: unavailable, needs CUDA" in found.notes
    assert found.table is not None
    assert set(found.table.rows[PHASE_IDS.index("capture")].cells[2:]) == {"n/a"}


def test_a_verdict_of_several_replays_says_that_its_figures_are_of_the_farthest() -> None:
    events = [
        msgspec.structs.replace(event, replay_runs=8) if isinstance(event, Verification) else event
        for event in with_verdict("mismatch")
    ]
    lines = section(report(state_of(events)), "Verification").lines
    assert any(line.endswith(", the farthest of 8 replayed runs") for line in lines)
    assert not any("replayed runs" in line for line in section(report(state_of(sample_run())), "Verification").lines)


def test_a_mismatch_leaves_no_speed_standing() -> None:
    made = report(state_of(with_verdict("mismatch")))
    assert section(made, "Verification").lines[0] == "MISMATCH"
    assert section(made, "Verification").tone == "bad"
    speeds = section(made, "Decode speed")
    assert speeds.table is not None
    assert {row.cells[1] for row in speeds.table.rows} == {"not valid"}
    assert not any("graph over eager" in note for note in speeds.notes)


def test_a_speed_marked_invalid_by_the_engine_is_withheld() -> None:
    event = Decode(mode="graph", tokens=10, tok_s_mean=125.0, position=42, capacity=64, valid=False)
    speeds = table(report(state_of([hello(), event])), "Decode speed")
    assert "125" not in " ".join(speeds.rows[0].cells)


def test_speeds_stand_side_by_side_with_their_ratio() -> None:
    speeds = section(report(state_of(sample_run())), "Decode speed")
    assert speeds.table is not None
    assert [row.cells[:2] for row in speeds.table.rows] == [("eager", "28.1"), ("dynamic", "26.0"), ("graph", "125.5")]
    assert speeds.notes[0] == "graph over eager: ×4.5, of these means; bench gives an interval"


@pytest.mark.parametrize("phase", ["warmup", "capture"])
def test_the_guides_reason_is_corrected_where_it_is_wrong(phase: PhaseId) -> None:
    beside = section(report(state_of(sample_run())), "Beside the guide")
    assert f"{phase}: {PHASE_BY_ID[phase].correction}" in beside.notes
    assert beside.table is not None
    row = next(row for row in beside.table.rows if row.cells[0] == phase)
    assert row.cells[1:3] == (f"{PHASE_BY_ID[phase].guide_allocated_mib:,.0f}", "+8")


def test_recorded_figures_are_marked_with_gpu_date_and_model() -> None:
    made = report(state_of(sample_run()), Origin(recorded=True))
    assert made.recorded
    assert made.mark.startswith("RECORDED 2026-11-30 on NVIDIA Sample GPU, not live · qwen3-4b")
    assert "this machine" not in made.mark
    undated = [msgspec.structs.replace(hello(), started_at="")]
    assert "date not recorded" in report(state_of([*undated]), Origin(recorded=True)).mark
    assert "LIVE" in report(state_of(sample_run())).mark


def test_an_error_keeps_what_was_measured_before_it() -> None:
    events: list[Event] = [event for event in sample_run() if event.t < 2.5]
    failed = Error(
        kind="out_of_memory", headline="Out of memory", hint="--max-cache-len 512", phase="prefill", free_bytes=MIB
    )
    made = report(state_of([*events, failed]))
    assert section(made, "What went wrong").lines == (
        "prefill: Out of memory",
        "  free 1.0 MiB",
        "  --max-cache-len 512",
    )
    assert table(made, "Phase by phase").rows[PHASE_IDS.index("load")].cells[2] == "7,672.0"


def test_names_from_outside_cannot_steer_a_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    start = hello()
    assert start.model is not None
    named = msgspec.structs.replace(
        start,
        device=msgspec.structs.replace(start.device, name=f"GPU{evil}"),
        model=msgspec.structs.replace(start.model, name=f"m{evil}"),
    )
    item = PhaseEnd(
        phase="load",
        before=Counters(requested=0),
        after=Counters(requested=1),
        explained={"requested": (Item(name=evil, bytes=1, note=evil),)},
        notes=(evil,),
    )
    made = msgspec.json.encode(report(state_of([named, item, Error(kind="internal", headline=evil, hint=evil)])))
    assert b"\\u001b" not in made and b"\\u0007" not in made


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("kv_static", "KV static"),
        ("graph_io", "graph I/O"),
        ("+1 segments", "+1 segment"),
        ("-1 segments", "−1 segment"),
        ("−12 segments", "−12 segments"),
        ("block size minus requested size", "block size minus requested size"),
    ],
)
def test_notes_are_in_a_readers_words(note: str, shown: str) -> None:
    item = Item(name="private pool 1.0", bytes=1008, note=note)
    end = PhaseEnd(
        phase="capture",
        before=Counters(reserved=0),
        after=Counters(reserved=1008),
        explained={"reserved": (item,)},
    )
    rows = [row.cells for row in table(report(state_of([hello(), end])), "What each Δ").rows]
    [cells] = [cells for cells in rows if cells[2] == "graph's private pool 1.0"]
    assert cells[3:5] == ("+1,008", "+1,008 B") and cells[6] == shown


@pytest.mark.parametrize(("tokens", "told"), [(1, True), (15, True), (16, False), (63, False), (None, False)])
def test_few_different_tokens_are_said_to_prove_little_where_they_are_few(tokens: int | None, told: bool) -> None:
    events = [
        msgspec.structs.replace(event, distinct_tokens=tokens) if isinstance(event, Verification) else event
        for event in sample_run()
    ]
    notes = section(report(state_of(events)), "Verification").notes
    assert any("prove little" in note for note in notes) is told


def test_a_run_that_compared_modes_has_no_empty_table_of_speeds() -> None:
    titles = [found.title for found in report(state_of([hello(), COMPARED])).sections]
    assert "Decode speed" not in titles and "Decode modes compared" in titles
    assert "Decode speed" in [found.title for found in report(state_of([hello()])).sections]
    assert "Decode speed" in [found.title for found in report(state_of([*sample_run(), COMPARED])).sections]


def test_a_stream_without_a_run_makes_a_report_all_the_same() -> None:
    made = report(RunState())
    assert "no run was started" in made.mark
    assert isinstance(section(made, "Run"), Section)


def test_addresses_that_nothing_compared_are_not_said_to_have_stayed() -> None:
    run = state_of(sample_run())
    assert run.addresses is not None
    for checked, said in ((0, "no comparison told"), (3, "moved: 0, compared 3 times")):
        told = msgspec.structs.replace(run, addresses=msgspec.structs.replace(run.addresses, checked=checked))
        lines = section(report(told, Origin(recorded=False)), "Graph").lines
        assert [line.partition(", ")[2] for line in lines if line.startswith("fixed addresses")] == [said]


def test_what_was_not_verified_says_why_that_matters_or_that_there_is_nothing_to_verify() -> None:
    unverified = state_of([event for event in sample_run() if not isinstance(event, Verification)])
    assert section(report(unverified), "Verification").lines == (
        "not done in this run: nothing proves the replayed tokens",
    )
    before_capture = state_of([hello(), PhaseEnd(phase="load")])
    assert section(report(before_capture), "Verification").lines == ("not done in this run: no graph was captured",)
