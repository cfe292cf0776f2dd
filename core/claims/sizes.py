"""The guide's tables of cache lengths and of batch sizes."""

from functools import partial

from .. import guide
from ..events import SweepRow
from ..fit import fit_line
from ..memory_map import MIB
from .cases import GUIDES_BATCHES, GUIDES_LENGTHS
from .evidence import Evidence, Finding, judged, mib, not_measured, prints_as
from .statement import Statement

LINEAR = 0.999
"""Share of the variance that a straight line must explain."""
PER_1000_LOW, PER_1000_HIGH = 145, 160


def _length(tokens: int, seen: Evidence) -> Finding:
    printed = guide.CACHE_LENGTH_BY_TOKENS[tokens]
    row = next((row for row in seen.rows("cache_lens") if row.value == tokens), None)
    if row is None or row.allocated_bytes is None:
        return not_measured(f"no row of {tokens:,} tokens in a sweep of cache lengths")
    per_1000 = row.allocated_bytes / MIB / tokens * 1000
    sentence = (
        f"At {tokens:,} tokens {mib(row.allocated_bytes)} are allocated ({_pieces(row)}), {per_1000:,.0f} MiB per 1,000"
    )
    return judged(prints_as(row.allocated_bytes, printed.total_mib), f"{sentence}; workspaces differ between GPUs.")


def _linear(seen: Evidence) -> Finding:
    points = _points(seen)
    if len({tokens for tokens, _ in points}) < 3:
        return not_measured("fewer than three cache lengths")
    line = fit_line([tokens for tokens, _ in points], [size for _, size in points])
    share = line.r_squared
    return judged(
        share is not None and share >= LINEAR and line.slope > 0,
        f"A line through {len(points)} lengths has slope {line.slope:,.0f} B a token and {mib(line.intercept)} at 0; "
        f"r² {f'{share:.5f}' if share is not None else 'n/a'}.",
    )


def _per_1000(seen: Evidence) -> Finding:
    points = [point for point in _points(seen) if point[0] in guide.CACHE_LENGTH_BY_TOKENS]
    if not points:
        return not_measured("no cache length of the guide's table in a sweep")
    figures = {tokens: size / MIB / tokens * 1000 for tokens, size in points}
    within = {tokens for tokens, value in figures.items() if PER_1000_LOW <= round(value) <= PER_1000_HIGH}
    told = ", ".join(f"{value:,.0f} at {tokens:,}" for tokens, value in sorted(figures.items()))
    return judged(
        len(within) == len(figures),
        f"Per 1,000 tokens, in MiB: {told}. A token itself takes 144 KiB, which is 140.6 MiB per 1,000; "
        "the rest is a fixed part that short caches spread over few tokens.",
    )


def _batch(size: int, seen: Evidence) -> Finding:
    printed = guide.BATCH_SIZE_BY_SIZE[size]
    rows = seen.rows("batches")
    row = next((row for row in rows if row.value == size), None)
    if row is None or row.kv_bytes is None:
        return not_measured(f"no row of batch size {size} with a cache of its own")
    below = [other.kv_bytes for other in rows if other.value <= size and other.kv_bytes is not None]
    total = sum(below)
    printed_sizes = [other.batch_size for other in guide.BATCH_SIZES if other.batch_size <= size]
    if sorted(other.value for other in rows if other.value <= size) != printed_sizes:
        return not_measured(f"it takes every batch size of the guide's table up to {size}, and no other")
    sentence = f"Batch size {size} takes a StaticCache of {mib(row.kv_bytes)}, up to here {mib(total)}"
    return judged(
        prints_as(row.kv_bytes, printed.cache_mib) and prints_as(total, printed.cumulative_mib), f"{sentence}."
    )


def _growth(seen: Evidence) -> Finding:
    rows = [row for row in seen.rows("batches") if row.kv_bytes is not None]
    if len(rows) < 2:
        return not_measured("fewer than two batch sizes with caches of their own")
    first = min(rows, key=lambda row: row.value)
    total = sum(row.kv_bytes or 0 for row in rows)
    largest = max(rows, key=lambda row: row.value)
    return judged(
        total > (largest.kv_bytes or 0) and total > 2 * (first.kv_bytes or 0),
        f"From {mib(first.kv_bytes or 0)} at batch size {first.value} to {mib(total)} for {len(rows)} sizes, where the "
        f"largest alone takes {mib(largest.kv_bytes or 0)}.",
    )


def _own_cache(seen: Evidence) -> Finding:
    own, shared = seen.rows("batches"), seen.rows("batches", "shared-cache")
    if not _comparable(own, shared):
        return not_measured("caches of their own and one shared cache were not both measured, for the same batch sizes")
    alone, together = _kv(own), _kv(shared)
    wrong = [row.value for row in shared if row.verdict == "mismatch"]
    if wrong:
        return Finding("holds", f"Graphs on slices of one cache gave wrong results at batch size {wrong[0]}.")
    return judged(
        together >= alone,
        f"One cache sliced for {len(shared)} batch sizes takes {mib(together)}, caches of their own {mib(alone)}; "
        "the sliced graphs were right.",
    )


def _paging(seen: Evidence) -> Finding:
    own, paged = seen.rows("batches"), seen.rows("batches", "paged")
    if not _comparable(own, paged):
        return not_measured("caches of their own and a paged cache were not both measured, for the same batch sizes")
    alone, together = _kv(own), _kv(paged)
    wrong = [row.value for row in paged if row.verdict == "mismatch"]
    if wrong:
        return Finding("does_not_hold", f"The paged cache gave wrong results at batch size {wrong[0]}.")
    if together >= alone:
        return Finding("does_not_hold", f"The paged cache takes {mib(together)}, caches of their own {mib(alone)}.")
    sliced = seen.rows("batches", "shared-cache")
    other = f"; one sliced cache needs no paging for it: {mib(_kv(sliced))}" if _comparable(own, sliced) else ""
    return Finding("holds", f"The paged cache takes {mib(together)}, caches of their own {mib(alone)}{other}.")


def _comparable(own: tuple[SweepRow, ...], other: tuple[SweepRow, ...]) -> bool:
    """Whether both are of the same several batch sizes: while a sweep goes on, one of them is short of rows."""
    sizes = {row.value for row in own}
    return len(sizes) > 1 and sizes == {row.value for row in other}


def _kv(rows: tuple[SweepRow, ...]) -> int:
    return sum(row.kv_bytes or 0 for row in rows)


def _points(seen: Evidence) -> list[tuple[int, int]]:
    return [(row.value, row.allocated_bytes) for row in seen.rows("cache_lens") if row.allocated_bytes is not None]


def _pieces(row: SweepRow) -> str:
    known = (("cache", row.kv_bytes), ("workspace", row.workspace_bytes), ("logits and inputs", row.graph_io_bytes))
    return ", ".join(f"{name} {mib(size)}" for name, size in known if size is not None)


STATEMENTS = (
    *(
        Statement(
            f"lengths.{row.tokens}",
            f"A cache of {row.tokens:,} tokens costs {row.total_mib} MB, {row.per_1000_mib} MB per 1K tokens.",
            partial(_length, row.tokens),
            GUIDES_LENGTHS,
        )
        for row in guide.CACHE_LENGTHS
    ),
    Statement("lengths.linear", "The overhead grows linearly with the cache length.", _linear),
    Statement("lengths.per_1k", "1K tokens cost about 145 to 160 MB.", _per_1000, GUIDES_LENGTHS),
    *(
        Statement(
            f"batches.{row.batch_size}",
            f"Batch size {row.batch_size} takes {row.cache_mib:,} MB, up to here {row.cumulative_mib:,} MB.",
            partial(_batch, row.batch_size),
            GUIDES_BATCHES,
        )
        for row in guide.BATCH_SIZES
    ),
    Statement("batches.growth", "Graphs for several batch sizes make the memory grow fast.", _growth),
    Statement("batches.own_cache", "That is because each batch size needs a StaticCache of its own.", _own_cache),
    Statement("batches.paging", "PagedAttention shares the cache and avoids it.", _paging),
)
