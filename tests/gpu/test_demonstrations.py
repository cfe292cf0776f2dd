"""What a student is shown really happens on a GPU, and the replay loop never waits where it should not."""

import msgspec

from cgtop.core.commands import BreakInput, MendInput, RunAll, RunPhase, TryDynamicCapture
from cgtop.core.events import Caches, Decode, Demonstration, DynamicCapture, End, Error, PhaseEnd
from tests.gpu.conftest import SMALL, Run

UNVERIFIED = msgspec.structs.replace(SMALL, verify_steps=0)
CAPTURED = tuple(RunPhase() for _ in range(7))


def test_capture_on_a_dynamic_cache_succeeds_and_is_useless_and_a_rebound_input_goes_stale() -> None:
    demonstrations = (TryDynamicCapture(), BreakInput(), MendInput())
    run = Run(UNVERIFIED, (*CAPTURED, *demonstrations, RunAll(release=True)))
    outcome = run.one(DynamicCapture)
    assert outcome.captured and not outcome.usable, outcome
    assert outcome.length_before == outcome.length_after
    broken, mended = run.of(Demonstration)
    assert broken.stage == "broken" and not broken.follows and "input_ids" in broken.refused
    assert mended.stage == "mended" and mended.follows
    for shown in (broken, mended):
        assert shown.difference is not None and shown.tolerance is not None
    assert (broken.difference or 0) > 2 * (broken.tolerance or 0)
    assert run.of(Error) == [] and run.one(End).exit_code == 0
    replay = next(end for end in run.of(PhaseEnd) if end.phase == "replay")
    assert (replay.allocations, replay.device_allocations) == (0, 0)
    caches = run.of(Caches)[-1]
    assert caches.static_moves == 0 and caches.dynamic_moves > 0
    explained = [item.name for end in run.of(PhaseEnd) for item in end.explained["requested"]]
    assert "unexplained" not in explained


def test_the_replay_loop_synchronises_nowhere_but_at_its_markers() -> None:
    run = Run(UNVERIFIED, (RunAll(release=True),), session="tests.gpu.faulty:no_hidden_synchronisation")
    assert run.of(Error) == []
    assert any(decode.mode == "graph" and decode.replays > 100 for decode in run.of(Decode))
