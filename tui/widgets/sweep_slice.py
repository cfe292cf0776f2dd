"""What is known of a sweep over cache lengths or batch sizes, taken out of a run's state."""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from ...core.bundled import play_command
from ...core.events import SweepBegin, SweepEnd, SweepKind, SweepRow
from ...core.state import RunState, Sweep
from ..refusals import why_no_capture

STRATEGIES: dict[str, str] = {
    "own": "own cache and own pool for each size, as the guide counts",
    "shared-pool": "own caches, one pool for all graphs, largest first",
    "shared-pool-ascending": "own caches, one pool, smallest first: order matters",
    "shared-cache": "one cache of the largest size, sliced for the others; one pool",
    "paged": "pages of one shared pool through a block table, as PagedAttention",
}
EXPERIMENTS: dict[SweepKind, tuple[str, ...]] = {"cache_lens": ("scaling",), "batches": ("batches",)}
"""How the names of bundled recordings of a sweep end."""


class SweepCursor(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose: a strategy to open (null: the latest), and the first line that is shown."""

    strategy: str | None = None
    top: int = 0


class SweepSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of a sweep shows."""

    kind: SweepKind
    begin: SweepBegin | None = None
    rows: tuple[SweepRow, ...] = ()
    end: SweepEnd | None = None
    over: bool = False
    """Whether the run itself has ended, so that nothing more comes."""
    token_bytes: int | None = None
    """Keys and values of one token of one sequence, by the closed form."""
    capacity: int | None = None
    recorded: bool = False
    no_capture: str = ""
    """Why nothing can be captured here, and so nothing measured, if so."""
    coming: bool = False
    """Whether this recording holds it, further on."""
    elsewhere: str = ""
    """The command that plays a recording of such a sweep, if there is one."""
    cursor: SweepCursor = SweepCursor()

    @classmethod
    def of(cls, state: RunState, kind: SweepKind, *, recorded: bool = False, coming: bool = False) -> "SweepSlice":
        """The slice of a run for one kind of sweep."""
        sweep = state.sweeps.get(kind, Sweep())
        model = state.hello.model if state.hello is not None else None
        asked = state.hello.settings if state.hello is not None else None
        tokens = asked.max_cache_len * asked.batch_size if asked is not None else 0
        return cls(
            kind=kind,
            begin=sweep.begin,
            rows=sweep.rows,
            end=sweep.end,
            over=state.end is not None,
            token_bytes=model.static_cache_bytes // tokens if model is not None and tokens else None,
            capacity=asked.max_cache_len if asked is not None else None,
            recorded=recorded,
            coming=coming,
            no_capture=why_no_capture(state),
            elsewhere=play_command(*EXPERIMENTS[kind]) if sweep.begin is None and not coming else "",
        )

    @property
    def wanted(self) -> int | None:
        """How many rows there will be, if that was said."""
        if self.begin is None:
            return None
        return len(self.begin.values) * max(1, len(self.begin.strategies))

    @property
    def running(self) -> bool:
        """Whether rows are still to come."""
        return (self.begin is not None or bool(self.rows)) and self.end is None and not self.over

    @property
    def by_strategy(self) -> dict[str, tuple[SweepRow, ...]]:
        """Rows of each strategy, in the order in which they were measured."""
        return {name: tuple(rows) for name, rows in groupby(self.rows, key=lambda row: row.strategy)}

    @property
    def waiting(self) -> tuple[int, ...]:
        """Values that the strategy being measured has still before it; largest first if it began so."""
        if self.begin is None or not self.running:
            return ()
        latest = self.rows[-1].strategy if self.rows else None
        done = [row.value for row in self.rows if row.strategy == latest]
        values = self.begin.values
        if done and len(values) > 1 and done[0] == max(values):
            values = tuple(sorted(values, reverse=True))
        return tuple(value for value in values if value not in done)


def added(rows: Sequence[SweepRow]) -> tuple[int | None, ...]:
    """Bytes that each of these measured rows alone added, all of a sweep's in their order; null where unknown.

    `SweepRow.total_bytes` is that of a cache length by itself, but with batch sizes the sum over a strategy's rows.
    """
    sums: dict[str, int | None] = {}
    found = []
    for row in rows:
        before = sums.get(row.strategy, 0) if row.sweep == "batches" else 0
        found.append(None if row.total_bytes is None or before is None else row.total_bytes - before)
        sums[row.strategy] = row.total_bytes
    return tuple(found)


def per(row: SweepRow, tokens: int) -> float | None:
    """Bytes that the row of a cache length added, for each `tokens` tokens of it."""
    return row.total_bytes * tokens / row.value if row.total_bytes is not None and row.value else None
