"""The sections about memory: the phase table, what each Δ is made of, the buckets, the guide's figures."""

import re

from ...core.events import CounterName, Counters, Item, Memory, PhaseEnd
from ...core.memory_map import BUCKET_BY_ID, BUCKETS
from ...core.phases import PHASE_BY_ID, PHASES, Phase
from ...core.plurals import counted
from ...core.state import PhaseState, RunState
from ..format import NA, count, delta_mib, duration, mib
from .model import Column, Row, Section, Table, Tone, row

NO_TOTAL = "the platform gives no device total: only these bytes were counted, and no total is claimed"
COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved", "driver")
STATUS_WORDS = {
    "pending": "not run",
    "running": "not finished",
    "done": "done",
    "unavailable": "unavailable",
    "failed": "FAILED",
}
CERTAINTY_MARKS = {"measured": "measured", "computed": "computed", "inferred": "≈ inferred"}


def phase_table(state: RunState) -> Section:
    """One row a phase: all four counters with their Δ, peak, allocations and time."""
    columns = (
        Column("phase"),
        Column("state", rank=4),
        Column("requested", right=True, rank=6),
        Column("Δ req.", right=True, rank=2),
        Column("allocated", right=True, rank=1),
        Column("Δ alloc.", right=True),
        Column("reserved", right=True, rank=6),
        Column("Δ res.", right=True, rank=3),
        Column("driver", right=True, rank=6),
        Column("Δ driver", right=True, rank=1),
        Column("peak", right=True, rank=7),
        Column("allocs", right=True, rank=5),
        Column("time", right=True, rank=4),
    )
    reasons = tuple(
        f"{PHASE_BY_ID[phase.id].short}: {STATUS_WORDS[phase.status]}{reason}"
        for phase in state.phases
        if phase.status in ("unavailable", "failed")
        for reason in (f", {phase.end.reason}" if phase.end is not None and phase.end.reason else "",)
    )
    notes = tuple(
        f"{PHASE_BY_ID[phase.id].short}: {note}"
        for phase in state.phases
        if phase.end is not None
        for note in phase.end.notes
    )
    return Section(
        title="Phase by phase (MiB)",
        table=Table(columns, tuple(_phase_row(phase) for phase in state.phases)),
        notes=reasons + notes,
    )


def delta_table(state: RunState) -> Section:
    """Every Δ of every phase and counter, with the items that add up to it."""
    columns = (
        Column("phase"),
        Column("counter"),
        Column("item"),
        Column("bytes", right=True, rank=2),
        Column("MiB", right=True),
        Column("how known", rank=1),
        Column("note", rank=3),
    )
    rows: list[Row] = []
    for phase in state.phases:
        if phase.end is not None and phase.end.status != "unavailable":
            rows += _delta_rows(phase.end)
    return Section(
        title="What each Δ is made of",
        table=Table(columns, tuple(rows)) if rows else None,
        lines=() if rows else ("no phase has ended",),
        notes=("≈ inferred: the bytes were measured, their cause was concluded, not measured",) if rows else (),
    )


def bucket_table(state: RunState) -> Section:
    """Where every byte of the device is at the end of each phase, adding up to the total."""
    samples = [(phase, state.boundary_memory[phase.id]) for phase in PHASES if phase.id in state.boundary_memory]
    title = "Where the bytes are at the end of each phase (MiB)"
    if not samples:
        return Section(title=title, lines=("no sample was taken",))
    essential = {samples[-1][0].id, "load", "replay"}
    columns = (
        Column("bucket"),
        *(
            Column(phase.short, right=True, rank=0 if phase.id in essential else 1 + i)
            for i, (phase, _) in enumerate(samples)
        ),
    )
    rows = [
        row(bucket.title, *(mib(sample.buckets.get(bucket.id)) for _, sample in samples))
        for bucket in BUCKETS
        if any(bucket.id in sample.buckets for _, sample in samples)
    ]
    rows.append(row("sum of the buckets", *(mib(sum(sample.buckets.values())) for _, sample in samples)))
    rows.append(row("device total", *(mib(sample.total_bytes) for _, sample in samples)))
    return Section(title=title, table=Table(columns, tuple(rows)), notes=_bucket_notes(samples))


def guide_table(state: RunState) -> Section:
    """Allocated of this run beside the guide's, and where the guide's reason is corrected."""
    columns = (
        Column("phase"),
        Column("guide", right=True, rank=3),
        Column("guide Δ", right=True),
        Column("this run", right=True, rank=3),
        Column("this run Δ", right=True),
        Column("the guide says", rank=1),
    )
    rows: list[Row] = []
    corrections: list[str] = []
    for phase in PHASES:
        if phase.guide_allocated_mib is None:
            continue
        before, after = _counters(state.phase(phase.id))
        guide_delta = phase.guide_delta_mib
        rows.append(
            row(
                phase.short,
                count(phase.guide_allocated_mib),
                "0" if guide_delta == 0 else f"+{guide_delta:,.0f}" if guide_delta is not None else NA,
                mib(after.allocated),
                delta_mib(_delta(before.allocated, after.allocated)),
                phase.guide_says,
            )
        )
        if phase.correction:
            corrections.append(f"{phase.short}: {phase.correction}")
    return Section(
        title="Beside the guide (allocated, MiB)",
        table=Table(columns, tuple(rows)),
        notes=(
            "The guide: RTX 3090, Qwen3-4B bf16, cache 1024; its only counter: torch.cuda.memory_allocated(), in MiB",
            *corrections,
        ),
    )


def _phase_row(phase: PhaseState) -> Row:
    end = phase.end
    before, after = _counters(phase)
    cells = [PHASE_BY_ID[phase.id].short, STATUS_WORDS[phase.status]]
    for name in COUNTERS:
        old, new = _counter(before, name), _counter(after, name)
        cells += [mib(new), delta_mib(_delta(old, new))]
    cells += [
        mib(end.peak_allocated if end else None),
        count(end.allocations if end else None),
        duration(end.seconds if end else None),
    ]
    tone: Tone = "bad" if phase.status == "failed" else "normal" if phase.status == "done" else "quiet"
    return row(*cells, tone=tone)


def _delta_rows(end: PhaseEnd) -> list[Row]:
    """A row a counter where one item is the whole Δ, else the Δ and a row for each item."""
    rows: list[Row] = []
    title = PHASE_BY_ID[end.phase].short
    for name in COUNTERS:
        total = _delta(_counter(end.before, name), _counter(end.after, name))
        items = _adding_up(end.explained.get(name, ()), total)
        start = ("" if rows else title, name)
        if len(items) == 1 and items[0].bytes == total:
            rows.append(_item_row(start, items[0].name, items[0]))
            continue
        what = "Δ" if items else NA if total is None else "no change"
        rows.append(row(*start, what, _signed_bytes(total), delta_mib(total), "", ""))
        rows += [_item_row(("", ""), item.name, item, indent="  ") for item in items]
    return rows


def _item_row(start: tuple[str, str], name: str, item: Item, *, indent: str = "") -> Row:
    tone: Tone = "bad" if item.name == "unexplained" and item.bytes else "normal" if start[1] else "quiet"
    known = CERTAINTY_MARKS[item.certainty]
    name = f"graph's {name}" if name.startswith("private pool ") else name
    return row(
        *start,
        f"{indent}{name}",
        _signed_bytes(item.bytes),
        delta_mib(item.bytes),
        known,
        note_text(item.note),
        tone=tone,
    )


def note_text(note: str) -> str:
    """An item's note as a reader's words: the title of a bucket for its id, and segments as older recordings have them.

    "kv_static" -> "KV static"; "-1 segments" -> "−1 segment".
    """
    if note in BUCKET_BY_ID:
        return BUCKET_BY_ID[note].title
    found = re.fullmatch(r"([+−-])(\d+) segments?", note)
    if found is None:
        return note
    sign = "+" if found[1] == "+" else "−"
    return f"{sign}{counted(int(found[2]), 'segment')}"


def _adding_up(items: tuple[Item, ...], total: int | None) -> tuple[Item, ...]:
    """The items, with what is missing to the Δ as an item of its own: a sum that fails is shown, not hidden."""
    rest = 0 if total is None else total - sum(item.bytes for item in items)
    if not rest:
        return items
    return (*items, Item(name="unexplained", bytes=rest, certainty="computed", note="the items do not add up to the Δ"))


def _bucket_notes(samples: list[tuple[Phase, Memory]]) -> tuple[str, ...]:
    notes: dict[str, None] = {}
    absent: dict[str, dict[str, None]] = {}  # reason -> titles, in order
    for phase, sample in samples:
        total = sum(sample.buckets.values())
        if sample.total_bytes is None:
            notes[NO_TOTAL] = None
        elif total != sample.total_bytes:
            notes[
                f"{phase.short}: the buckets miss the device total by {_signed_bytes(sample.total_bytes - total)} B"
            ] = None
        if not sample.settled:
            notes[f"{phase.short}: unsettled, memory kept changing while the processes were read"] = None
        for bucket_id, reason in sample.reasons.items():
            absent.setdefault(reason, {})[BUCKET_BY_ID[bucket_id].title if bucket_id in BUCKET_BY_ID else bucket_id] = (
                None
            )
    for reason, titles in absent.items():
        notes[f"n/a: {', '.join(titles)} ({reason})"] = None
    sources = {sample.source: None for _, sample in samples if sample.source}
    if sources:
        notes["source: " + "; ".join(sources)] = None
    return tuple(notes)


def _counters(phase: PhaseState) -> tuple[Counters, Counters]:
    if phase.end is None or phase.end.status == "unavailable":
        return Counters(), Counters()
    return phase.end.before, phase.end.after


def _counter(counters: Counters, name: CounterName) -> int | None:
    match name:
        case "requested":
            return counters.requested
        case "allocated":
            return counters.allocated
        case "reserved":
            return counters.reserved
        case "driver":
            return counters.driver


def _delta(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _signed_bytes(difference: int | None) -> str:
    if difference is None:
        return NA
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return f"{sign}{abs(difference):,}"
