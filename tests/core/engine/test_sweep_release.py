"""What a strategy's graphs and caches took is gone when the next reading is made, not at some later collection."""

import weakref

import pytest

from cgtop.core.commands import RunSweep
from cgtop.core.engine import sweep_rows
from cgtop.core.engine.sweep_rig import Rig
from tests.core.engine.driving import with_
from tests.core.engine.sweeping import Sweeping


def test_nothing_of_a_strategy_outlives_its_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_rows, "SPEED_STEPS", 4)
    original = Rig.drop
    left: list[int] = []

    def drop(self: Rig) -> None:
        watched = [weakref.ref(served.decode) for served in self.served]
        original(self)
        if watched:
            left.append(sum(ref() is not None for ref in watched))

    monkeypatch.setattr(Rig, "drop", drop)
    Sweeping(with_(verify_steps=0)).sweep(RunSweep(sweep="batches", values=(1, 2), strategies=("own", "shared-pool")))
    assert left == [0, 0]
