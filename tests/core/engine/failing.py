"""Sessions brought up to a state, and calls that are made to fail in it."""

from collections.abc import Callable

import pytest
import torch

from cgtop.core.commands import RunPhase
from tests.core.engine import laboratory
from tests.core.engine.driving import Driven, with_

OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
LOST = RuntimeError("CUDA error: an illegal memory access was encountered")


def captured(**changes: object) -> Driven:
    """A run that pretends to have captured, unverified, with room in its cache."""
    return laboratory.captured(with_(with_(verify_steps=0, max_cache_len=80), **changes))


def replayed(**changes: object) -> Driven:
    """A run whose replay phase is over, and that decodes no more."""
    driven = captured(**changes)
    driven.session.handle(RunPhase())
    driven.session.decoding.stretch(driven.session.settings.tokens + 1)
    driven.session.decoding.stop()
    return driven


def fails(monkeypatch: pytest.MonkeyPatch, where: object, name: str, error: Exception, at: int = 1) -> None:
    """Make the call number `at` of a function raise, and no other."""
    original, calls = getattr(where, name), 0

    def failing(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(where, name, failing)


def raiser(error: Exception) -> Callable[..., object]:
    """A function that raises this, whatever it is called with."""

    def raises(*args: object, **kwargs: object) -> object:
        raise error

    return raises
