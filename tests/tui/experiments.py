"""Made-up streams of a bench and of checks, and an engine that plays them."""

import msgspec
import pytest

from cgtop.core.checklist import CHECKLIST
from cgtop.core.events import ArmResult, Check, Comparison, End, Event, Status
from cgtop.core.settings import RunSettings
from cgtop.tui.commands import phases
from tests.sample import hello
from tests.tui.fake_engine import FakeEngine

EAGER = ArmResult(
    mode="eager",
    rounds=8,
    tokens=512,
    tok_s=20.5,
    tok_s_low=19.5,
    tok_s_high=21.5,
    step_ms_p50=48.5,
    step_ms_p99=60.25,
    allocations_per_token=2338.0,
    launches_per_token=2441.0,
    gb_s=168.0,
    share_of_copy=0.04,
    share_of_datasheet=0.035,
)
GRAPH = msgspec.structs.replace(EAGER, mode="graph", tok_s=115.0, allocations_per_token=0.0, launches_per_token=1.0)
COMPARED = Comparison(
    arms=(EAGER, GRAPH),
    rounds=8,
    final=True,
    ratio=5.61,
    ratio_low=5.58,
    ratio_high=5.64,
    prefill_ms=31.5,
    prompt_len=32,
    copy_bytes_s=4.25e12,
    datasheet_bytes_s=4.8e12,
    sm_mhz=1980,
    memory_mhz=3201,
    power_w=263.0,
    throttled=(),
    steady=True,
    verdict="identical",
)


def checks(**changed: str) -> list[Check]:
    """All checks passed, but for those named (spaces as underscores) with another status."""
    return [
        Check(
            name=kind.name,
            status=changed.get(kind.name.replace(" ", "_"), "PASS"),  # type: ignore[arg-type]
            measured="a figure",
            expected="another",
            why="a reason",
        )
        for kind in CHECKLIST
    ]


def carried_out(*events: Event) -> list[Event]:
    """A worker that carries one command out, with these events."""
    begun = [hello(), Status(state="idle"), Status(state="running")]
    return [*begun, *events, Status(state="idle"), End(reason="quit")]


def engine_of(monkeypatch: pytest.MonkeyPatch, events: list[Event]) -> tuple[FakeEngine, list[RunSettings]]:
    """Put an engine that plays these events under the command line."""
    engine, asked = FakeEngine(events), list[RunSettings]()

    def start(settings: RunSettings) -> FakeEngine:
        asked.append(settings)
        return engine

    monkeypatch.setattr(phases, "start_engine", start)
    return engine, asked
