"""The report of a plan: the table of cases, what fits, and the terms of the first case with how each is known."""

from ...core.memory_map import GIB
from ...core.planner import Plan, PlanRow
from ..format import NA, mib, size
from .model import Column, Report, Row, Section, Table, Tone, row, safe_report

CARDS_GIB = (8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180)
"""Memory of cards that there are, for where none is named."""
HOW = {"measured": "measured", "computed": "computed", "inferred": "≈ inferred"}


def plan_report(plan: Plan) -> Report:
    """Pure."""
    sections = (_model_section(plan), _table(plan), *_limits(plan), _terms(plan))
    return safe_report(title="cgtop plan", mark="PLANNED, nothing was run or measured", sections=sections)


def _model_section(plan: Plan) -> Section:
    model, kv = plan.model, plan.model.kv
    sliding = f", {len(kv.sliding_windows)} of them sliding" if kv.sliding_windows else ""
    lines = (
        f"model: {model.name}, {model.parameters:,} parameters in {model.dtype} by {model.weights_from}",
        f"weights: {plan.weight_bytes:,} B = {size(plan.weight_bytes)}",
        f"cache: {kv.layers} layers{sliding}, {kv.kv_heads} KV heads for {model.heads} heads, head_dim {kv.head_dim}",
        f"measured terms from: {plan.measured_in or 'no recording'}",
    )
    return Section(title="Model", lines=lines, notes=plan.notes)


def _table(plan: Plan) -> Section:
    known = plan.memory_bytes is not None
    columns = (
        Column("batch", right=True),
        Column("cache", right=True),
        Column("StaticCache MiB", right=True),
        Column("total MiB", right=True),
        Column("left MiB" if known else "fits in", right=True, rank=1),
        Column("fits" if known else "note"),
    )
    title = f"What {size(plan.memory_bytes)} holds" if known else "What it needs"
    return Section(title=title, table=Table(columns, tuple(_row(case, known) for case in plan.rows)))


def _row(case: PlanRow, known: bool) -> Row:
    start = (f"{case.batch_size:,}", f"{case.max_cache_len:,}", mib(case.static_cache_bytes), mib(case.total_bytes))
    if not known:
        return row(*start, _card(case.total_bytes), case.note)
    verdict = {True: "yes", False: "NO", None: case.note or NA}[case.fits]
    tone: Tone = "normal" if case.fits else "bad" if case.fits is False else "quiet"
    return row(*start, mib(case.free_bytes), verdict, tone=tone)


def _card(total: int) -> str:
    card = next((gib for gib in CARDS_GIB if total <= gib * GIB), None)
    return f"{card} GiB" if card is not None else f"over {CARDS_GIB[-1]} GiB"


def _limits(plan: Plan) -> tuple[Section, ...]:
    if plan.memory_bytes is None:
        return ()
    limit = plan.model.max_positions
    lines = []
    for batch, length in plan.longest_cache.items():
        end = " (all the model's positions)" if length is not None and length == limit else ""
        what = f"{length:,} tokens{end}" if length is not None else "none: not even the prompt fits"
        lines.append(f"longest cache at batch {batch:,}: {what}")
    for length, most in plan.largest_batch.items():
        lines.append(f"largest batch at cache {length:,}: {f'{most:,}' if most is not None else 'none'}")
    return (Section(title="The most that fits", lines=tuple(lines)),)


def _terms(plan: Plan) -> Section:
    case = plan.rows[0]
    columns = (
        Column("term"),
        Column("bytes", right=True, rank=1),
        Column("MiB", right=True),
        Column("how known"),
        Column("from", rank=2),
    )
    rows = tuple(
        row(
            term.name,
            f"{term.bytes:,}" if term.bytes is not None else NA,
            mib(term.bytes),
            HOW[term.certainty] if term.bytes is not None else NA,
            term.source,
        )
        for term in case.terms
    )
    total = row("sum", f"{case.total_bytes:,}", mib(case.total_bytes), "", "")
    return Section(
        title=f"Terms of batch {case.batch_size:,}, cache {case.max_cache_len:,}",
        table=Table(columns, (*rows, total)),
        notes=(
            "≈ inferred: measured with another case, moved as the source says",
            "memory: as cudaMemGetInfo counts it; a card's nominal size is more than that",
        ),
    )
