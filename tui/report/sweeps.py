"""The sections about sweeps: cache lengths with the line through them, and every way of serving several batch sizes."""

from collections.abc import Sequence

from ...core.events import SweepEnd, SweepKind, SweepRow, Verdict
from ...core.guide import BATCH_SIZE_BY_SIZE, CACHE_LENGTH_BY_TOKENS
from ...core.memory_map import MIB
from ...core.state import RunState, Sweep
from ..format import NA, count, mib, percent, significant, size, tok_s
from .model import Column, Row, Section, Table, Tone, row

LENGTH_COLUMNS = (
    Column("tokens", right=True),
    Column("KV", right=True, rank=2),
    Column("closed form", right=True, rank=5),
    Column("workspace", right=True, rank=5),
    Column("pool", right=True, rank=4),
    Column("driver", right=True, rank=4),
    Column("allocated", right=True, rank=3),
    Column("overhead", right=True),
    Column("/1,000", right=True, rank=3),
    Column("/1,024", right=True, rank=6),
    Column("peak", right=True, rank=7),
    Column("tok/s", right=True),
    Column("replay"),
    Column("guide", right=True, rank=1),
    Column("guide /1,000", right=True, rank=6),
)
BATCH_COLUMNS = (
    Column("strategy"),
    Column("batch", right=True),
    Column("KV", right=True, rank=2),
    Column("closed form", right=True, rank=6),
    Column("pool", right=True, rank=3),
    Column("workspace", right=True, rank=5),
    Column("driver", right=True, rank=4),
    Column("peak", right=True, rank=6),
    Column("pages in use", right=True, rank=7),
    Column("cumulative", right=True),
    Column("guide", right=True, rank=1),
    Column("tok/s", right=True),
    Column("replay"),
)
NOISE_COLUMNS = (Column("off by", right=True, rank=8), Column("eager's own", right=True, rank=8))
NOISE = (
    "off by: a replay's largest difference of a logit from the nearest eager run; eager's own: of eager runs, at most"
)
VERDICTS: dict[Verdict, str] = {
    "identical": "identical",
    "within_eager_noise": "within noise",
    "mismatch": "MISMATCH",
}
STATUS = {"out_of_memory": "out of memory", "failed": "failed", "skipped": "skipped"}
PEAK = "peak: the most that was allocated while a row was made, above what stood before it"
GUIDE = "guide: MiB of torch.cuda.memory_allocated() on its RTX 3090 with Qwen3-4B; beside ours, no mark to reach"


def sweep_sections(state: RunState) -> tuple[Section, ...]:
    """The sweeps of a run, finished or not; empty where none was made."""
    sections = []
    if "cache_lens" in state.sweeps:
        sections.append(_lengths(state.sweeps["cache_lens"]))
    if "batches" in state.sweeps:
        sections.append(_batches(state.sweeps["batches"]))
    return tuple(sections)


def is_sound(sweep: Sweep) -> bool:
    """Whether every row that was asked for was measured, and no replay was found wrong."""
    wanted = 0 if sweep.begin is None else len(sweep.begin.values) * max(1, len(sweep.begin.strategies))
    good = [row for row in sweep.rows if row.status == "done" and row.verdict != "mismatch"]
    return sweep.end is not None and not sweep.end.cancelled and bool(good) and len(good) == wanted


def _lengths(sweep: Sweep) -> Section:
    noise = _has_noise(sweep.rows)
    return Section(
        title="Cache lengths: what a StaticCache and its graph add (MiB)",
        lines=_fit_lines(sweep.end),
        table=Table(
            LENGTH_COLUMNS + (NOISE_COLUMNS if noise else ()),
            tuple(_length_row(one, noise=noise) for one in sweep.rows),
        ),
        notes=(
            "overhead: allocated, what the graph's pool holds beyond its tensors, and the driver's part, each length "
            "as if it were the only one; /1,000 divides it by thousands, where the guide divides allocated alone",
            f"{PEAK}; the workspace, which lengths share, stood before it in all but the first",
            GUIDE,
            *((NOISE,) if noise else ()),
            *_notes(sweep, "cache_lens"),
        ),
    )


def _fit_lines(end: SweepEnd | None) -> tuple[str, ...]:
    if end is None or end.slope_bytes_per_token is None or end.intercept_bytes is None:
        return ()
    quality = NA if end.r_squared is None else f"{end.r_squared:.6f}"
    return (
        f"overhead = {end.intercept_bytes / MIB:,.1f} MiB + {end.slope_bytes_per_token:,.0f} B × tokens "
        f"(least squares, r² = {quality})",
    )


def _length_row(one: SweepRow, *, noise: bool) -> Row:
    guide = CACHE_LENGTH_BY_TOKENS.get(one.value)
    return row(
        count(one.value),
        mib(one.kv_bytes),
        mib(one.kv_closed_form_bytes),
        mib(one.workspace_bytes),
        _measured(one, one.pool_bytes),
        mib(one.driver_bytes),
        mib(one.allocated_bytes),
        mib(one.total_bytes),
        _per(one, 1000),
        _per(one, 1024),
        mib(one.peak_bytes),
        _speed(one),
        _result(one),
        NA if guide is None else count(guide.total_mib),
        NA if guide is None else count(guide.per_1000_mib),
        *(_noise(one) if noise else ()),
        tone=_tone(one),
    )


def _batches(sweep: Sweep) -> Section:
    noise = _has_noise(sweep.rows)
    names = list(dict.fromkeys(one.strategy for one in sweep.rows))
    return Section(
        title="Batch sizes: what each way of serving them adds, in capture order (MiB)",
        lines=_totals(sweep.rows, names),
        table=Table(BATCH_COLUMNS + (NOISE_COLUMNS if noise else ()), tuple(_batch_rows(sweep.rows, noise=noise))),
        notes=(
            "cumulative: allocated, what pools hold beyond their tensors, and the driver's part, summed over the rows "
            "as they were measured",
            PEAK,
            *_page_notes(sweep.rows),
            GUIDE,
            *((NOISE,) if noise else ()),
            *_notes(sweep, "batches"),
        ),
    )


def _totals(rows: Sequence[SweepRow], names: Sequence[str]) -> tuple[str, ...]:
    """Each strategy's total, beside that of the guide's way where both served the same sizes."""
    done = {name: [one for one in rows if one.strategy == name and one.status == "done"] for name in names}
    totals = {name: max((one.total_bytes or 0 for one in mine), default=0) for name, mine in done.items()}
    own = {one.value for one in done.get("own", ())}
    lines = []
    for name, mine in done.items():
        if not mine:
            lines.append(f"{name}: no size was measured")
            continue
        total = totals[name] or None
        same = name != "own" and {one.value for one in mine} == own
        share = f", {percent(total, totals['own'])} of own" if same and total and totals["own"] else ""
        lines.append(f"{name}: {size(total)} for {len(mine)} batch sizes{share}")
    return tuple(lines)


def _batch_rows(rows: Sequence[SweepRow], *, noise: bool) -> list[Row]:
    made = []
    before = None
    for one in rows:
        guide = BATCH_SIZE_BY_SIZE.get(one.value) if one.strategy == "own" else None
        made.append(
            row(
                one.strategy if one.strategy != before else "",
                count(one.value),
                mib(one.kv_bytes),
                mib(one.kv_closed_form_bytes),
                _measured(one, one.pool_bytes),
                mib(one.workspace_bytes),
                mib(one.driver_bytes),
                mib(one.peak_bytes),
                count(one.pages_in_use) if one.page_bytes is not None else "",
                mib(one.total_bytes),
                "" if guide is None else count(guide.cumulative_mib),
                _speed(one),
                _result(one),
                *(_noise(one) if noise else ()),
                tone=_tone(one),
            )
        )
        before = one.strategy
    return made


def _page_notes(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    paged = [one for one in rows if one.page_bytes is not None and one.pages_in_use is not None]
    if not paged:
        return ()
    most = max(paged, key=lambda one: one.pages_in_use or 0)
    in_use = (most.pages_in_use or 0) * (most.page_bytes or 0)
    return (
        f"paged: a page is {size(most.page_bytes)} over all layers; at batch {most.value} {count(most.pages_in_use)} "
        f"pages, {size(in_use)}, hold tokens, whatever the pool's size",
    )


def _has_noise(rows: Sequence[SweepRow]) -> bool:
    """Whether the figures behind the verdicts are known; recordings of older versions do not have them."""
    return any(one.max_difference is not None for one in rows)


def _noise(one: SweepRow) -> tuple[str, str]:
    return significant(one.max_difference), significant(one.eager_difference)


def _notes(sweep: Sweep, kind: SweepKind) -> tuple[str, ...]:
    """What the sweep noted, then why rows are missing."""
    notes = list(sweep.end.notes) if sweep.end is not None else ["the sweep has not come to its end"]
    if sweep.end is not None and sweep.end.cancelled:
        notes.append("the sweep was cancelled: rows are missing")
    for one in sweep.rows:
        if one.status == "done" and not one.reason:
            continue
        where = f"{one.value:,} tokens" if kind == "cache_lens" else f"{one.strategy}, batch {one.value}"
        notes.append(f"{where}: {one.reason}" + (f". {one.hint}" if one.hint else ""))
    return tuple(notes)


def _measured(one: SweepRow, size_bytes: int | None) -> str:
    """A figure of what the row added; where it failed, the figure is of the device instead, and stands in the notes."""
    return mib(size_bytes) if one.status == "done" else NA


def _per(one: SweepRow, tokens: int) -> str:
    return NA if one.total_bytes is None else f"{one.total_bytes / MIB * tokens / one.value:,.1f}"


def _speed(one: SweepRow) -> str:
    return "not valid" if one.verdict == "mismatch" else tok_s(one.tok_s)


def _result(one: SweepRow) -> str:
    if one.status != "done":
        return STATUS[one.status]
    return "not verified" if one.verdict is None else VERDICTS[one.verdict]


def _tone(one: SweepRow) -> Tone:
    return "normal" if one.status == "done" and one.verdict != "mismatch" else "bad"
