"""After something went wrong: no wrong token is shown as right, and what still works goes on."""

from collections.abc import Callable

import pytest
import torch

from cgtop.core.commands import BreakInput, MendInput, Pause, RunPhase, Verify
from cgtop.core.engine import verify
from cgtop.core.engine.ledger import Ledger
from cgtop.core.engine.memory import Owner, Processes
from cgtop.core.engine.steps import StaticDecode
from cgtop.core.engine.verdicts import Run
from cgtop.core.engine.verify import verify_replay
from cgtop.core.events import Decode, Error, PhaseEnd, Status, Tokens, Verification
from tests.core.engine.driving import Driven, last, with_
from tests.core.engine.test_caches import Filled, filled  # noqa: F401 - a fixture

OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def captured(**changes: object) -> Driven:
    settings = with_(verify_steps=0, max_cache_len=60)
    driven = Driven(with_(settings, **changes), pretend=True)
    driven.run(*[RunPhase() for _ in range(7)])
    return driven


def failing_in_layer(driven: Driven, cache: object, layer: int, error: Exception) -> Callable[[], None]:
    """Make the next update of one layer raise; returns what undoes it."""
    target = cache.layers[layer]  # type: ignore[attr-defined]
    original = target.update

    def update(*args: object, **kwargs: object) -> object:
        target.update = original
        raise error

    target.update = update
    return lambda: setattr(target, "update", original)


def tokens(driven: Driven, mode: str) -> list[int]:
    return [token for event in driven.of(Tokens) if event.mode == mode for token in event.ids]


# --------------------------------------------------------------------------------------------------- verification


def test_a_replay_that_writes_no_kv_is_a_mismatch_although_eager_wrote_it_before(filled: Filled) -> None:  # noqa: F811
    static: StaticDecode = filled.static

    def forgetful() -> torch.Tensor:
        before = [(tensor, tensor.clone()) for tensor in static.kv.keys_and_values()]
        logits = static.step()
        for tensor, kept in before:
            tensor.copy_(kept)
        return logits

    with torch.no_grad():
        assert verify_replay(static, static.step, steps=64).verdict == "identical"
        assert verify_replay(static, forgetful, steps=64).verdict == "mismatch"


def test_a_later_eager_run_that_is_not_finite_excuses_nothing(
    filled: Filled,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, runs = verify.run_steps, 0

    def poisoned(*args: object, **kwargs: object) -> Run:
        nonlocal runs
        runs += 1
        run = original(*args, **kwargs)  # type: ignore[arg-type]
        if runs == 3:  # the replay, far away
            return Run([logits + 1000 for logits in run.logits], run.fed)
        return Run([logits * float("nan") for logits in run.logits], run.fed) if runs > 3 else run

    monkeypatch.setattr(verify, "run_steps", poisoned)
    with torch.no_grad():
        found = verify_replay(filled.static, filled.static.step, steps=64)
    assert found.verdict == "mismatch" and not found.finite


def test_a_verification_that_fails_leaves_the_state_and_no_valid_speed() -> None:
    driven = captured(verify_steps=64)
    static = driven.session.workflow.static
    assert static is not None and last(driven.of(Verification)).verdict == "identical"
    failing_in_layer(driven, static.kv.cache, 2, OUT_OF_MEMORY)
    driven.session.handle(Verify())
    assert last(driven.of(Error)).kind == "out_of_memory"
    assert len(set(static.kv.lengths())) == 1 and static.kv.lengths()[0] == static.cursor.position
    driven.session.decoding.start("graph")
    driven.session.decoding.stretch(3)
    assert not last(driven.of(Decode)).valid
    driven.session.handle(Verify())
    driven.session.decoding.start("graph")
    driven.session.decoding.stretch(3)
    assert last(driven.of(Decode)).valid


def test_a_rebound_input_is_not_verified() -> None:
    driven = captured(verify_steps=64)
    driven.session.handle(BreakInput())
    count = len(driven.of(Verification))
    driven.session.handle(Verify())
    assert "mend it first" in last(driven.of(Status)).why and len(driven.of(Verification)) == count
    driven.session.handle(MendInput())
    driven.session.handle(Verify())
    assert last(driven.of(Verification)).verdict == "identical"


# --------------------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("mode", ["eager", "dynamic"])
def test_a_step_that_fails_in_the_middle_is_followed_by_right_tokens(mode: str) -> None:
    clean = captured()
    clean.session.decoding.start(mode)  # type: ignore[arg-type]
    clean.session.decoding.stretch(10)
    driven = captured()
    driven.session.decoding.start(mode)  # type: ignore[arg-type]
    driven.session.decoding.stretch(4)
    workflow = driven.session.workflow
    assert workflow.static is not None and workflow.dynamic is not None
    cache = workflow.static.kv.cache if mode == "eager" else workflow.dynamic.cache
    failing_in_layer(driven, cache, 3, OUT_OF_MEMORY)
    driven.session._stretch(8)
    assert last(driven.of(Error)).kind == "out_of_memory"
    assert len(set(workflow.static.kv.lengths())) == 1
    assert len({layer.keys.shape[-2] for layer in workflow.dynamic.cache.layers}) == 1  # type: ignore[union-attr]
    before = len(tokens(driven, mode))
    driven.session.decoding.start(mode)  # type: ignore[arg-type]
    driven.session.decoding.stretch(10)
    assert tokens(driven, mode)[before : before + 10] == tokens(clean, mode)[:10]


def test_an_error_of_the_device_that_shows_in_a_pause_is_a_lost_device(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = captured()
    driven.session.decoding.start("eager")

    def pause() -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(driven.session.decoding, "pause", pause)
    driven.session.decoding.active = False
    driven.run(Pause())
    assert last(driven.of(Error)).kind == "device_lost"
    assert last(driven.of(Status)).state == "failed"


def test_what_failed_once_and_was_made_good_stands_in_the_way_of_nothing() -> None:
    driven = Driven(with_(verify_steps=0), pretend=True)
    driven.run(*[RunPhase() for _ in range(6)])
    assert driven.pretend is not None
    driven.pretend.fail = OUT_OF_MEMORY
    driven.run(RunPhase())
    driven.pretend.fail = None
    driven.run(RunPhase())
    assert driven.session._run_up_to("replay")
    assert last(driven.of(PhaseEnd)).phase == "replay"


# ------------------------------------------------------------------------------------------------------- accounting


def test_a_tensor_where_a_block_without_one_was_is_counted_as_the_tensor() -> None:
    driven = captured()
    ledger = Ledger(driven.session._device, Processes)
    tensor = torch.zeros(1, dtype=torch.int64)
    address = tensor.untyped_storage().data_ptr()
    ledger.own_block(address, 8, Owner("graph_io", "the generator's seed", "seed"))
    ledger.own("kv_static", "counters", lambda: [("length 0", tensor)])
    from cgtop.core.engine.devices import RawBlock, RawSegment

    segment = RawSegment(address, 512, (0, 0), 0, (RawBlock(address, 512, 8, True),))
    assert ledger._owners((segment,))[address].bucket == "kv_static"
