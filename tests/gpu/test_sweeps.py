"""Sweeps on a real GPU: closed forms to the byte, shared pools, graphs that are right, nothing left behind."""

from typing import TypeVar

import msgspec
import pytest

from cgtop.core.client import EngineClient
from cgtop.core.commands import Command, Quit, RunPhase, RunSweep, Verify
from cgtop.core.events import (
    Error,
    Event,
    Hello,
    Memory,
    ModelInfo,
    Status,
    SweepBegin,
    SweepEnd,
    SweepRow,
    Verification,
)
from cgtop.core.settings import RunSettings
from tests.gpu.conftest import SMALL

E = TypeVar("E", bound=Event)
SIZES = (1, 4, 2)
UP_TO_CAPTURE = 7
MIB = 1 << 20


class Talk:
    """A worker that is sent one command after the other, each once the one before is done."""

    def __init__(self, settings: RunSettings, commands: tuple[Command, ...]) -> None:
        self.events: list[Event] = []
        waiting = [*commands, Quit()]
        client = EngineClient(settings)
        try:
            client.send(waiting.pop(0))
            busy = False
            for event in client.events():
                self.events.append(event)
                over = isinstance(event, Status) and (event.refused or (busy and event.state != "running"))
                if over and waiting:
                    client.send(waiting.pop(0))
                busy = not over and (busy or isinstance(event, Verification) or _is_running(event))
        finally:
            client.close()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def model(self) -> ModelInfo:
        model = self.of(Hello)[0].model
        assert model is not None
        return model

    def rows(self, strategy: str) -> list[SweepRow]:
        return [row for row in self.of(SweepRow) if row.strategy == strategy]


def _is_running(event: Event) -> bool:
    return isinstance(event, Status) and event.state == "running"


@pytest.fixture(scope="module")
def batches() -> Talk:
    """All strategies, with the model that costs no time: kernels and allocator are the real ones."""
    settings = msgspec.structs.replace(SMALL, model="tiny", max_cache_len=256)
    return Talk(settings, (RunSweep(sweep="batches", values=SIZES),))


@pytest.fixture(scope="module")
def lengths() -> Talk:
    """A run up to its own graph, a sweep of cache lengths beside it, and the run's graph verified again."""
    phases = tuple(RunPhase() for _ in range(UP_TO_CAPTURE))
    return Talk(SMALL, (*phases, RunSweep(sweep="cache_lens", values=(256, 1024)), Verify()))


def test_every_graph_of_every_strategy_is_right_and_has_a_speed(batches: Talk) -> None:
    rows = batches.of(SweepRow)
    assert len(rows) == 5 * len(SIZES) and not batches.of(Error)
    for row in rows:
        assert row.status == "done", row
        assert row.verdict in ("identical", "within_eager_noise"), row
        assert row.tok_s is not None and row.tok_s > 0
    notes = batches.of(SweepEnd)[0].notes
    for name in ("shared-pool", "shared-pool-ascending", "shared-cache", "paged"):
        assert f"{name}: each of its 3 graphs was right again after all were captured" in notes


def test_caches_are_their_closed_form_and_counters_to_the_byte(batches: Talk) -> None:
    model = batches.model
    token = 2 * model.kv_heads * model.head_dim * 2 * model.layers
    for name in ("own", "shared-pool", "shared-pool-ascending"):
        for row in batches.rows(name):
            assert row.kv_closed_form_bytes == row.value * 256 * token
            assert row.kv_bytes == row.kv_closed_form_bytes + 8 * model.layers
    largest, *rest = batches.rows("shared-cache")
    assert largest.kv_bytes == 4 * 256 * token + 8 * model.layers
    assert [row.kv_bytes for row in rest] == [0, 0]
    largest, *rest = batches.rows("paged")
    assert largest.kv_bytes == (4 * 16 + 1) * 16 * token + 8 * model.layers + 4 * 16 * 8
    assert [row.kv_bytes for row in rest] == [0, 0]


def test_what_is_shared_is_held_once(batches: Talk) -> None:
    held = {name: sum(row.pool_bytes or 0 for row in batches.rows(name)) for name in ("own", "shared-pool")}
    assert 0 < held["shared-pool"] < held["own"]
    totals = {name: batches.rows(name)[-1].total_bytes for name in ("own", "shared-cache")}
    assert totals["own"] is not None and totals["shared-cache"] is not None
    assert totals["shared-cache"] < totals["own"]
    for name in ("own", "paged"):
        first, *rest = batches.rows(name)
        assert first.workspace_bytes and all(row.workspace_bytes == 0 for row in rest)


def test_totals_are_sums_of_the_rows(batches: Talk) -> None:
    for name in ("own", "shared-pool", "paged"):
        totals = [row.total_bytes or 0 for row in batches.rows(name)]
        assert totals == sorted(totals)
        for row in batches.rows(name):
            assert row.peak_bytes is not None and row.allocated_bytes is not None
            assert row.peak_bytes >= row.allocated_bytes - (row.workspace_bytes or 0)


@pytest.mark.parametrize("name", ["batches", "lengths"])
def test_a_sweep_leaves_nothing_but_the_workspace_of_its_stream(request: pytest.FixtureRequest, name: str) -> None:
    talk: Talk = request.getfixturevalue(name)
    begin = next(i for i, event in enumerate(talk.events) if isinstance(event, SweepBegin))
    end = next(i for i, event in enumerate(talk.events) if isinstance(event, SweepEnd))
    before = [event for event in talk.events[:begin] if isinstance(event, Memory) and not event.live][-1]
    after = next(event for event in talk.events[end:] if isinstance(event, Memory))
    workspace = after.buckets["cublas_workspace"] - before.buckets["cublas_workspace"]
    for bucket in ("weights", "kv_static", "kv_dynamic", "graph_io"):
        assert after.buckets[bucket] == before.buckets[bucket], bucket
    assert after.counters.requested is not None and before.counters.requested is not None
    assert after.counters.requested - before.counters.requested <= workspace + MIB
    assert sum(after.buckets.values()) == after.total_bytes


def test_a_token_more_allocates_its_kv_and_the_line_is_through_the_totals(lengths: Talk) -> None:
    model = lengths.model
    token = 2 * model.kv_heads * model.head_dim * 2 * model.layers
    short, long = lengths.of(SweepRow)
    for row in (short, long):
        assert row.status == "done" and row.verdict != "mismatch", row
        assert row.kv_bytes == row.value * token + 8 * model.layers
        assert row.workspace_bytes and row.allocated_bytes is not None
        assert 0 <= row.allocated_bytes - row.kv_bytes - row.workspace_bytes < 4 * MIB
    assert short.allocated_bytes is not None and long.allocated_bytes is not None
    span = long.value - short.value
    assert long.allocated_bytes - short.allocated_bytes == pytest.approx(span * token, abs=MIB)
    end = lengths.of(SweepEnd)[0]
    assert short.total_bytes is not None and long.total_bytes is not None
    assert end.slope_bytes_per_token == pytest.approx((long.total_bytes - short.total_bytes) / span)
    assert end.intercept_bytes is not None and end.intercept_bytes > 0


def test_what_of_the_slope_is_not_kv_is_whole_segments_of_the_pool_and_said(lengths: Talk) -> None:
    """Allocator segments are 2 MiB or 20 MiB and more: a step's temporaries of 1 MiB and more take one of these."""
    held = []
    for row in lengths.of(SweepRow):
        assert row.total_bytes is not None and row.allocated_bytes is not None and row.pool_bytes is not None
        held.append(row.total_bytes - row.allocated_bytes - (row.driver_bytes or 0))
        assert row.pool_bytes % (2 * MIB) == 0 and 0 <= held[-1] <= row.pool_bytes
    told = [note for note in lengths.of(SweepEnd)[0].notes if note.startswith("held")]
    assert bool(told) == (held[0] != held[-1])


def test_the_runs_own_graph_is_right_after_a_sweeps_graphs_were_dropped(lengths: Talk) -> None:
    first, again = lengths.of(Verification)
    assert first.verdict != "mismatch" and again.verdict != "mismatch"
    assert not lengths.of(Error)
