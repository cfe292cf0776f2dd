"""Comparisons and checks on a real GPU, on the smallest preset: what must hold on any, not how fast this one is."""

import functools

from cgtop.core.checklist import CHECK_NAMES
from cgtop.core.client import EngineClient
from cgtop.core.commands import Command, RunBench, RunCheck
from cgtop.core.events import Check, Comparison, Event, PhaseEnd
from cgtop.tui.commands.headless import Outcome, run_command
from tests.gpu.conftest import SMALL


class Carried:
    """A command carried out by a worker, with all its events."""

    def __init__(self, command: Command) -> None:
        self.events: list[Event] = []
        self.outcome: Outcome = run_command(EngineClient(SMALL), command, [self.events.append])

    @property
    def comparison(self) -> Comparison:
        found = self.outcome.state.comparison
        assert found is not None, self.outcome.state.errors
        return found

    def check(self, name: str) -> Check:
        return next(check for check in self.outcome.state.checks if check.name == name)


@functools.cache
def compared() -> Carried:
    return Carried(RunBench(modes=("eager", "dynamic", "graph"), tokens=24, rounds=6))


@functools.cache
def checked() -> Carried:
    return Carried(RunCheck())


def test_all_modes_are_compared_with_an_interval() -> None:
    run = compared()
    found = run.comparison
    assert run.outcome.exit_code == 0 and found.final and found.rounds == 6
    assert [arm.mode for arm in found.arms] == ["eager", "dynamic", "graph"]
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    assert found.ratio_low <= found.ratio <= found.ratio_high
    assert (found.prefill_ms or 0) > 0 and found.prompt_len == SMALL.prompt_len
    assert found.verdict in ("identical", "within_eager_noise")
    assert len([event for event in run.events if isinstance(event, Comparison)]) == 7


def test_a_replay_allocates_nothing_and_is_one_launch_while_eager_does_many_of_both() -> None:
    arms = {arm.mode: arm for arm in compared().comparison.arms}
    assert (arms["graph"].allocations_per_token, arms["graph"].launches_per_token) == (0.0, 1.0)
    assert (arms["eager"].allocations_per_token or 0) > 100
    launches = arms["eager"].launches_per_token
    assert launches is None or launches > 100
    assert arms["dynamic"].launches_per_token is None


def test_no_mode_reads_more_than_the_memory_can_give() -> None:
    found = compared().comparison
    assert found.copy_bytes_s is not None
    if found.datasheet_bytes_s is not None:
        assert 0.4 < found.copy_bytes_s / found.datasheet_bytes_s < 1.0
    for arm in found.arms:
        assert arm.share_of_copy is not None and 0 < arm.share_of_copy < 1.2


def test_every_check_is_told_once_and_none_fails() -> None:
    run = checked()
    told = [event.name for event in run.events if isinstance(event, Check)]
    assert sorted(told) == sorted(CHECK_NAMES)
    assert [check for check in run.outcome.state.checks if check.status == "FAIL"] == []
    assert run.outcome.exit_code == 0


def test_what_rests_on_counters_is_checked_to_the_byte() -> None:
    run = checked()
    exact = ("kernel launch", "weights", "StaticCache", "warmup explained", "capture explained", "cache slope")
    for name in (*exact, "graph = eager", "StaticCache = DynamicCache", "replay allocations", "addresses fixed"):
        assert run.check(name).status == "PASS", run.check(name)
    assert "0 allocations, 0 device allocations in 512 replays" in run.check("replay allocations").measured


def test_the_kernel_launched_first_is_charged_to_no_phase() -> None:
    ends = {event.phase: event for event in checked().events if isinstance(event, PhaseEnd)}
    assert ends["load"].before.allocated == 0
    before, after = ends["load"].before.reserved, ends["context"].after.reserved
    assert before is not None and after is not None and before <= after
