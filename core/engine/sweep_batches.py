"""Every way of serving several batch sizes with graphs, measured: what each size adds, in order, and its speed."""

from collections.abc import Sequence
from functools import partial

import msgspec

from ..events import Error, SweepEnd, SweepRow
from ..memory_map import MIB
from .strategies import STRATEGIES, Caches, Strategy
from .sweep_attempts import Wanted, attempt
from .sweep_costs import difference, read
from .sweep_lengths import with_workspace
from .sweep_rig import Rig
from .sweep_rows import again, measure, tokens_at_most
from .sweep_verify import tolerance

DEFAULT = (1, 2, 4, 8, 16)


def sweep_batches(rig: Rig, batch_sizes: Sequence[int], names: Sequence[str]) -> SweepEnd:
    """Measure one strategy after the other, emitting each row; the graphs of one stand until it is done."""
    notes: list[str] = []
    for name in names:
        finished, found = _strategy(rig, STRATEGIES[name], batch_sizes)
        notes += [f"{name}: {note}" for note in found]
        if not finished:
            return SweepEnd(sweep="batches", cancelled=True, notes=(*notes, *_agreements(rig), *rig.notes()))
    return SweepEnd(sweep="batches", notes=(*notes, *_agreements(rig), *rig.notes()))


def _strategy(rig: Rig, strategy: Strategy, batch_sizes: Sequence[int]) -> tuple[bool, list[str]]:
    """Whether all its rows were made, and what is to be noted."""
    rig.tidy()
    start = read(rig.device, ())
    caches = _caches(rig, strategy)
    pool = rig.device.new_pool() if strategy.shared_pool else None
    total: int | None = 0
    rows: list[SweepRow] = []
    finished = True
    for batch_size in strategy.order(batch_sizes):
        if rig.lab.cancelled():
            finished = False
            break
        row = attempt(
            rig,
            Wanted("batches", strategy.name, batch_size),
            partial(measure, rig, "batches", caches, batch_size, pool),
        )
        if row.status == "done":
            if len(rig.served) == 1:
                row = with_workspace(row, rig.workspace_bytes)
            total = None if total is None or row.total_bytes is None else total + row.total_bytes
            row = msgspec.structs.replace(row, total_bytes=total)
        elif not rig.served:
            # What they share was allocated for a row that is not there; a pool that no graph holds must not be reused.
            caches = _caches(rig, strategy)
            pool = rig.device.new_pool() if strategy.shared_pool else None
        rows.append(row)
        rig.lab.emit(row)
        rig.tell_memory()
    notes = _replayed_again(rig, strategy, caches) if finished and all(row.status == "done" for row in rows) else []
    if caches.attention != Caches.attention:
        rig.forget_references(caches.attention)
    del caches
    rig.drop()
    left = difference(read(rig.device, ()).allocated, start.allocated)
    if left:
        what = ": the stream's workspace" if left == rig.workspace_bytes else ""
        notes.append(f"{left / MIB:+,.1f} MiB allocated once its graphs and caches were dropped{what}")
    return finished, notes


def _caches(rig: Rig, strategy: Strategy) -> Caches:
    return strategy.caches(
        rig.loaded,
        device=rig.device.torch_device,
        max_cache_len=rig.lab.settings.max_cache_len,
        tokens=tokens_at_most(rig),
    )


def _replayed_again(rig: Rig, strategy: Strategy, caches: Caches) -> list[str]:
    """Each graph once more, after all were captured. A wrong one is an error: its row has been told as right."""
    if not strategy.shared_pool or not rig.lab.settings.verify_steps:
        return []
    wrong = again(rig, caches)
    if wrong:
        sizes = ", ".join(str(size) for size in wrong)
        rig.lab.emit(
            Error(
                kind="capture",
                headline=f"{strategy.name}: after all captures, graphs give other logits (batch sizes {sizes})",
                hint="The figures of this strategy are not valid.",
                recoverable=True,
            )
        )
    return [] if wrong else [f"each of its {len(rig.served)} graphs was right again after all were captured"]


def _agreements(rig: Rig) -> list[str]:
    """Paged attention against the model's own, over all rows that could be compared."""
    found = rig.agreements
    if not found:
        return []
    equal, tokens = sum(one.equal_tokens for one in found), sum(one.tokens for one in found)
    return [
        f"paged attention against the model's own, under the same tokens: {equal:,} of {tokens:,} greedy tokens equal, "
        f"first logits at most {max(one.first_difference for one in found):.2g} apart "
        f"(tolerance {tolerance(rig.loaded):.2g})"
    ]
