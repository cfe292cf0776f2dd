"""The GPU thread's commands: in order, looked at without being taken, and a cancelled experiment's `Cancel` with it."""

from cgtop.core.commands import Cancel, Pause, Quit, Resume, RunSweep
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.events import SweepBegin, SweepRow
from tests.core.engine.driving import with_
from tests.core.engine.sweeping import Sweeping


def test_looking_takes_nothing_and_keeps_the_order() -> None:
    commands = CommandQueue()
    for command in (Pause(), Cancel(), Resume()):
        commands.put(command)
    assert commands.holds(Cancel) and commands.holds(Quit, Resume) and not commands.holds(Quit)
    commands.put(Quit())
    assert [commands.get(), commands.get_nowait(), commands.get(), commands.get_nowait()] == [
        Pause(),
        Cancel(),
        Resume(),
        Quit(),
    ]
    assert commands.empty() and commands.get_nowait() is None


def test_discarding_takes_one_kind_wherever_it_is() -> None:
    commands = CommandQueue()
    for command in (Cancel(), Pause(), Cancel()):
        commands.put(command)
    assert not commands.empty()
    commands.discard(Cancel)
    assert commands.get() == Pause() and commands.empty()


def test_a_quit_that_waits_ends_every_sweep_before_it() -> None:
    sweeping = Sweeping(with_(verify_steps=0))
    sweep = RunSweep(sweep="batches", values=(1,), strategies=("own",))
    sweeping.run(sweep, sweep)  # and `Quit` behind them
    assert len(sweeping.of(SweepBegin)) == 2 and sweeping.of(SweepRow) == []
