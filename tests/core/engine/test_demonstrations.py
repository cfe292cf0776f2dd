"""The demonstrations on a real tiny model, with a capture that is pretended but whose addresses are real."""

from collections.abc import Sequence

import pytest
import torch

from cgtop.core.commands import BreakInput, Cancel, MendInput, RunPhase, SetMode, TryDynamicCapture
from cgtop.core.engine import demonstrations, holdings
from cgtop.core.engine.lab import Lab
from cgtop.core.engine.steps import StaticDecode
from cgtop.core.events import Addresses, Caches, Demonstration, DynamicCapture, Error, Status, Tokens
from tests.core.engine.driving import Driven, last, with_

CAPTURED = [RunPhase() for _ in range(7)]


def captured() -> Driven:
    driven = Driven(with_(verify_steps=0, max_cache_len=80), pretend=True)
    driven.run(*CAPTURED)
    return driven


def test_a_rebound_input_is_not_read_by_the_graph_and_a_mended_one_is() -> None:
    driven = captured()
    driven.session.handle(BreakInput())
    broken = last(driven.of(Demonstration))
    assert broken.stage == "broken" and broken.present_address != broken.captured_address
    assert broken.replay_ids != broken.expected_ids and not broken.follows
    assert broken.difference is not None and broken.tolerance is not None
    assert broken.difference > 10 * broken.tolerance, "another token is no rounding"
    assert "input_ids moved" in broken.refused
    assert last(driven.of(Addresses)).moved == 1
    driven.session.handle(MendInput())
    mended = last(driven.of(Demonstration))
    assert mended.stage == "mended" and mended.present_address == mended.captured_address == broken.captured_address
    assert mended.replay_ids == mended.expected_ids == broken.expected_ids
    assert mended.follows and mended.difference == 0
    assert last(driven.of(Addresses)).moved == 0


def test_an_id_that_flips_between_nearly_equal_logits_is_no_stale_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager steps on a GPU do not repeat themselves to the bit: once a mended graph was called stale for such an id."""
    driven = captured()
    driven.session.handle(BreakInput())
    eager, replays = demonstrations._eager, demonstrations._replays

    def tied(logits: Sequence[torch.Tensor], towards: float) -> list[torch.Tensor]:
        """With the second best logit next to the best: above it, or below."""
        for step in logits:
            first, second = step[0].topk(2).indices
            step[0, second] = torch.nextafter(step[0, first], torch.tensor(towards))
        return list(logits)

    def tied_eager(lab: Lab, static: StaticDecode) -> demonstrations.Fed:
        found = eager(lab, static)
        return found._replace(logits=tied(found.logits, torch.inf))

    monkeypatch.setattr(demonstrations, "_eager", tied_eager)
    monkeypatch.setattr(demonstrations, "_replays", lambda *given: tied(replays(*given), -torch.inf))
    driven.session.handle(MendInput())
    mended = last(driven.of(Demonstration))
    assert mended.replay_ids != mended.expected_ids
    assert mended.follows


def test_a_graph_with_a_rebound_input_is_refused_until_it_is_mended() -> None:
    driven = captured()
    driven.session.handle(BreakInput())
    driven.session.decoding.start("graph")
    driven.session._stretch(1)
    error = last(driven.of(Error))
    assert error.kind == "stale_graph" and error.recoverable
    driven.session.handle(MendInput())
    driven.session.decoding.start("graph")
    driven.session._stretch(3)
    assert len(driven.of(Error)) == 1


def test_the_demonstration_leaves_the_decode_state_as_it_found_it() -> None:
    def tokens(demonstrate: bool) -> list[int]:
        driven = captured()
        driven.session.decoding.start("graph")
        driven.session.decoding.stretch(5)
        driven.session.decoding.stop()
        if demonstrate:
            driven.session.handle(BreakInput())
            driven.session.handle(MendInput())
        driven.session.decoding.start("graph")
        driven.session.decoding.stretch(10)
        return [token for event in driven.of(Tokens) for token in event.ids]

    assert tokens(True) == tokens(False)


def test_what_cannot_be_demonstrated_now_says_why() -> None:
    driven = captured()
    driven.session.handle(MendInput())
    assert "rebind it first" in last(driven.of(Status)).why
    driven.session.handle(BreakInput())
    driven.session.handle(BreakInput())
    assert "rebound already" in last(driven.of(Status)).why
    driven.session.handle(Cancel())
    assert "no sweep" in last(driven.of(Status)).why
    early = Driven(with_(verify_steps=0), pretend=True)
    early.run(RunPhase(), RunPhase(), BreakInput(), TryDynamicCapture())
    whys = [status.why for status in early.of(Status) if status.refused]
    assert ["run capture first" in whys[0], "run prefill first" in whys[1]] == [True, True]


def test_a_demonstration_without_room_in_the_cache_is_refused() -> None:
    driven = Driven(with_(verify_steps=0, max_cache_len=10), pretend=True)
    driven.run(*CAPTURED)
    driven.session.handle(BreakInput())
    assert "room for 3 tokens" in last(driven.of(Status)).why


def test_at_the_end_of_a_lap_a_demonstration_begins_the_next() -> None:
    driven = Driven(with_(verify_steps=0, prompt_len=7, max_cache_len=40), pretend=True)
    driven.run(*CAPTURED)
    static = driven.session.workflow.static
    assert static is not None
    driven.session.decoding.start("graph")
    driven.session.decoding.stretch(30)
    assert static.cursor.position == 37
    driven.session.handle(BreakInput())
    assert (static.cursor.position, static.cursor.laps) == (7, 1)
    driven.session.handle(MendInput())
    assert last(driven.of(Demonstration)).follows and not driven.of(Error)
    driven.session.decoding.start("graph")
    driven.session.decoding.stretch(1)
    assert static.cursor.position == 8


def test_a_capture_on_a_dynamic_cache_is_attempted_and_its_outcome_told() -> None:
    driven = captured()
    driven.session.handle(TryDynamicCapture())
    outcome = last(driven.of(DynamicCapture))
    assert outcome.captured and outcome.replays == len(outcome.replay_ids) == len(outcome.eager_ids) == 8
    assert len(set(outcome.eager_ids)) > 1


def test_a_failed_capture_on_a_dynamic_cache_is_an_outcome_not_an_error() -> None:
    driven = captured()
    assert driven.pretend is not None
    driven.pretend.fail = RuntimeError("operation not permitted when stream is capturing")
    driven.session.handle(TryDynamicCapture())
    outcome = last(driven.of(DynamicCapture))
    assert not outcome.captured and "not permitted" in outcome.error and not outcome.usable
    assert driven.of(Error) == []


def test_on_a_cpu_a_dynamic_capture_says_what_it_needs() -> None:
    driven = Driven(with_(verify_steps=0))
    driven.run(RunPhase(), RunPhase(), RunPhase(), TryDynamicCapture())
    assert "CUDA" in last(driven.of(Status)).why


def test_a_dynamic_cache_moves_as_it_grows_and_a_static_one_does_not() -> None:
    driven = captured()
    for mode in ("dynamic", "eager"):
        driven.session.handle(SetMode(mode=mode))
        driven.session.decoding.stretch(12)
    caches = holdings.caches(driven.session.workflow)
    assert caches.dynamic_steps >= 12 and 0 < caches.dynamic_moves <= caches.dynamic_steps
    assert caches.static_moves == 0
    told = driven.of(Caches)
    assert told == [] or told[0].static_bytes == caches.static_bytes
    assert caches.dynamic_bytes is not None and caches.static_bytes is not None
