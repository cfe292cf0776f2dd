"""Made-up sweeps of a 4B model: their shape is a real one's, their figures are nobody's measurement."""

from cgtop.core.events import SweepBegin, SweepEnd, SweepRow
from cgtop.core.memory_map import MIB
from cgtop.tui.widgets.sweep_slice import SweepSlice

TOKEN = 147_456
LENGTHS = (256, 512, 1024, 2048, 4096)
SIZES = (1, 2, 4, 8, 16)
BATCH_STRATEGIES = ("own", "shared-pool", "shared-pool-ascending", "shared-cache", "paged")


def cache_lens(rows: int = 5, *, end: bool = True, oom: bool = False, cancelled: bool = False) -> SweepSlice:
    made = [length_row(tokens, 131.0 - 0.008 * tokens) for tokens in LENGTHS[:rows]]
    if oom:
        made[-1] = SweepRow(
            sweep="cache_lens", value=LENGTHS[rows - 1], status="out_of_memory", needed_bytes=576 * MIB,
            free_bytes=300 * MIB, hint="leave out the longest",
        )  # fmt: skip
    ended = SweepEnd(
        sweep="cache_lens", cancelled=cancelled, slope_bytes_per_token=None if cancelled else float(TOKEN),
        intercept_bytes=None if cancelled else 26.3 * MIB, r_squared=None if cancelled else 0.999998,
    )  # fmt: skip
    return SweepSlice(
        kind="cache_lens",
        begin=SweepBegin(sweep="cache_lens", values=LENGTHS),
        rows=tuple(made),
        end=ended if end else None,
        token_bytes=TOKEN,
        capacity=1024,
    )


def length_row(tokens: int, speed: float) -> SweepRow:
    return SweepRow(
        sweep="cache_lens", value=tokens, kv_bytes=tokens * TOKEN + 288, kv_closed_form_bytes=tokens * TOKEN,
        workspace_bytes=0, pool_bytes=22 * MIB, graph_io_bytes=304_128, allocated_bytes=tokens * TOKEN + 304_128,
        reserved_bytes=tokens * TOKEN + 22 * MIB, driver_bytes=4 * MIB, total_bytes=tokens * TOKEN + 26 * MIB,
        peak_bytes=2 * MIB, tok_s=speed, verdict="identical",
    )  # fmt: skip


def batches(rows: int = 25, *, end: bool = True) -> SweepSlice:
    made: list[SweepRow] = []
    for strategy in BATCH_STRATEGIES:
        total = 0
        largest_first = strategy in ("shared-pool", "shared-cache")
        for size in sorted(SIZES, reverse=largest_first):
            one = strategy in ("shared-cache", "paged")
            kv = 1024 * TOKEN * (size if not one else 16 if not total else 0)
            pool = 22 * MIB if strategy == "own" or not total else 2 * MIB * (strategy == "shared-pool-ascending")
            total += kv + pool + 4 * MIB
            made.append(
                SweepRow(
                    sweep="batches",
                    strategy=strategy,
                    value=size,
                    kv_bytes=kv,
                    kv_closed_form_bytes=kv,
                    workspace_bytes=0,
                    pool_bytes=pool,
                    graph_io_bytes=0,
                    allocated_bytes=kv,
                    driver_bytes=4 * MIB,
                    total_bytes=total,
                    peak_bytes=0,
                    tok_s=115.0 * size,
                    verdict="identical",
                    pages_in_use=4 * size if strategy == "paged" else None,
                    page_bytes=16 * TOKEN if strategy == "paged" else None,
                )
            )
    return SweepSlice(
        kind="batches",
        begin=SweepBegin(sweep="batches", values=SIZES, strategies=BATCH_STRATEGIES),
        rows=tuple(made[:rows]),
        end=SweepEnd(sweep="batches") if end else None,
        token_bytes=TOKEN,
        capacity=1024,
    )
