"""Verdicts of `cgtop check` on the run, one small function each: figures in, a `Check` out. Pure.

A figure that is None was not given by the platform: its check is "n/a", with the reason, and never a pass.
"""

from collections.abc import Mapping, Sequence

import msgspec

from ..checklist import not_made
from ..events import Check, Comparison, CounterName, Counters, Item, PhaseEnd, PhaseId, Verification
from ..plurals import counted
from .explain import UNEXPLAINED

EXPLAINED_COUNTERS: tuple[CounterName, ...] = ("requested", "allocated", "reserved")


class ReplayReading(msgspec.Struct, frozen=True, kw_only=True):
    """What a stretch of replays did to the counters and the addresses."""

    replays: int = 0
    before: Counters = Counters()
    after: Counters = Counters()
    allocations: int | None = None
    """Blocks handed out meanwhile."""
    device_allocations: int | None = None
    fixed: int = 0
    """Tensors whose addresses the graph depends on."""
    moved: tuple[str, ...] | None = None
    """Names of those that are somewhere else now; None: there is no graph to ask about."""
    problem: str = ""
    """Why there were no replays."""

    def delta(self, counter: CounterName) -> int | None:
        """The change of a counter in bytes; None where it is not counted."""
        return _difference(self.before, self.after, counter)


def requested(name: str, phase: PhaseId, ends: Mapping[PhaseId, PhaseEnd], expected: int | None, what: str) -> Check:
    """What a phase asked the allocator for, against a closed form, to the byte."""
    end = ends.get(phase)
    if end is None or end.status != "done":
        return not_made(name, _why_not_run(phase, end))
    delta = _delta(end, "requested")
    if delta is None or end.after.allocated is None:
        return not_made(name, "the allocator does not count requested bytes here")
    if expected is None:
        return not_made(name, "there is no closed form for this model")
    return Check(
        name=name,
        status="PASS" if delta == expected else "FAIL",
        measured=f"{delta:,} B",
        expected=f"{expected:,} B",
        why=what if delta == expected else f"{_signed(delta - expected)}; {what}",
    )


def explained(name: str, phase: PhaseId, ends: Mapping[PhaseId, PhaseEnd]) -> Check:
    """Whether every byte of a phase's Δ has a cause, in each counter of the allocator."""
    end = ends.get(phase)
    if end is None or end.status != "done":
        return not_made(name, _why_not_run(phase, end))
    deltas = {counter: _delta(end, counter) for counter in EXPLAINED_COUNTERS}
    absent = [counter for counter, delta in deltas.items() if delta is None or counter not in end.explained]
    if absent:
        return not_made(name, f"the allocator does not count {', '.join(absent)} bytes here")
    rest = {counter: _unexplained(end.explained[counter]) for counter in EXPLAINED_COUNTERS}
    made_of = ", ".join(f"{item.name} {_signed(item.bytes)}" for item in end.explained["requested"])
    unexplained = sum(abs(size) for size in rest.values())
    told = ", ".join(f"{counter} {_signed(deltas[counter] or 0)}" for counter in EXPLAINED_COUNTERS)
    return Check(
        name=name,
        status="PASS" if unexplained == 0 else "FAIL",
        measured=f"{unexplained:,} B unexplained of {told}",
        expected="0 B unexplained",
        why=made_of or "no tensor was added",
    )


def verdict(verification: Verification | None) -> Check:
    """The replay against eager steps on the same StaticCache."""
    name = "graph = eager"
    if verification is None:
        return not_made(name, "the graph was not verified")
    replay = f"{verification.identical_steps} of {verification.steps} steps bit-equal"
    eager = f"eager against itself {verification.eager_identical_steps} of {verification.steps}"
    whys = {
        "identical": "every logit of every step has the bits of an eager run",
        "within_eager_noise": "eager does not repeat itself to the bit either; the replay is no farther from it",
        "mismatch": f"the replay computes something else, from step {verification.first_mismatch_step} on",
    }
    if verification.is_divided:
        whys["mismatch"] += f", in {verification.replays_off} of {counted(verification.replay_runs, 'replayed run')}"
    return Check(
        name=name,
        status="FAIL" if verification.verdict == "mismatch" else "PASS",
        measured=f"{replay}; {eager}",
        expected="bit-equal, or no farther than eager from itself",
        why=whys[verification.verdict] if verification.finite else "some logits are not finite",
    )


def static_is_dynamic(verification: Verification | None) -> Check:
    """The first step on the StaticCache against the same on a DynamicCache: other kernels, so with a tolerance."""
    name = "StaticCache = DynamicCache"
    if verification is None or verification.dynamic_difference is None or verification.dynamic_tolerance is None:
        return not_made(name, "the first step was not compared")
    return Check(
        name=name,
        status="PASS" if verification.dynamic_ok else "FAIL",
        measured=f"relative difference {verification.dynamic_difference:.2g}",
        expected=f"{verification.dynamic_tolerance:.2g} or less",
        why="first step from the copied prompt; the tolerance allows for the roundings of the dtype",
    )


def replay_allocations(reading: ReplayReading) -> Check:
    """What the allocator did while a graph was replayed."""
    name = "replay allocations"
    counts = (reading.allocations, reading.device_allocations)
    deltas = tuple(reading.delta(counter) for counter in EXPLAINED_COUNTERS)
    if not reading.replays:
        return not_made(name, reading.problem or "nothing was replayed")
    if None in counts or None in deltas:
        return not_made(name, "the allocator does not count its work here")
    changes = zip(EXPLAINED_COUNTERS, deltas, strict=True)
    moved = ", ".join(f"{counter} {_signed(delta)}" for counter, delta in changes if delta is not None)
    return Check(
        name=name,
        status="PASS" if not any(counts) and not any(deltas) else "FAIL",
        measured=f"{counts[0]:,} allocations, {counts[1]:,} device allocations in {reading.replays:,} replays; {moved}",
        expected="0 of everything",
        why="a replay runs recorded kernels on recorded addresses",
    )


def replay_driver(reading: ReplayReading) -> Check:
    """What the driver's memory did while a graph was replayed."""
    name = "replay driver bytes"
    delta = reading.delta("driver")
    if not reading.replays or delta is None:
        return not_made(name, reading.problem or "NVML does not tell this process's memory")
    return Check(
        name=name,
        status="PASS" if delta == 0 else "FAIL",
        measured=f"{_signed(delta)} in {reading.replays:,} replays",
        expected="0 B",
        why="this process by NVML minus what the allocator has reserved",
    )


def addresses(reading: ReplayReading) -> Check:
    """Whether everything that the graph reads and writes is still where it was at capture."""
    name = "addresses fixed"
    if reading.moved is None:
        return not_made(name, reading.problem or "there is no graph")
    return Check(
        name=name,
        status="FAIL" if reading.moved else "PASS",
        measured=f"{len(reading.moved)} of {reading.fixed} moved{': ' if reading.moved else ''}"
        + ", ".join(reading.moved[:3]),
        expected="0 moved",
        why="input, keys, values, lengths and logits, compared before each replay and at the end",
    )


def slope(lengths: tuple[int, int], found: int | None, expected: int) -> Check:
    """What a longer StaticCache costs more, measured on two short ones."""
    if found is None:
        return not_made("cache slope", "the allocator does not count requested bytes here")
    tokens = lengths[1] - lengths[0]
    return Check(
        name="cache slope",
        status="PASS" if found == expected else "FAIL",
        measured=f"{found:,} B for {tokens} tokens more = {found / tokens:,.0f} B a token",
        expected=f"{expected:,} B",
        why=f"two StaticCaches, of {lengths[0]} and {lengths[1]} tokens; the closed form is linear in the length",
    )


def speed(comparison: Comparison | None) -> Check:
    """Whether a replay is faster than an eager step. By how much is this machine's own: no figure is a pass mark."""
    name = "graph faster than eager"
    if comparison is None or comparison.ratio is None:
        return not_made(name, "the modes were not compared")
    if comparison.verdict == "mismatch":
        return not_made(name, "MISMATCH: the speed of wrong results is none")
    arms = {arm.mode: arm.tok_s for arm in comparison.arms}
    low, high = comparison.ratio_low, comparison.ratio_high
    certain = low is not None and high is not None
    few = f"{counted(comparison.rounds, 'round')}, no interval"
    interval = f" (95 % {low:.2f} to {high:.2f})" if certain else f" ({few})"
    faster = comparison.ratio > 1 if low is None else low > 1
    slower = comparison.ratio < 1 if high is None else high < 1
    return Check(
        name=name,
        status="PASS" if faster else "FAIL" if slower else "WARN",
        measured=f"×{comparison.ratio:.2f}{interval}: {arms['eager']:.1f} eager, {arms['graph']:.1f} tok/s graph",
        expected="more than ×1",
        why="the guide's ×2.8 is its own machine's: how much depends on how slow the host launches kernels",
    )


def _why_not_run(phase: PhaseId, end: PhaseEnd | None) -> str:
    return end.reason if end is not None and end.reason else f"the phase {phase} was not run"


def _delta(end: PhaseEnd, counter: CounterName) -> int | None:
    return _difference(end.before, end.after, counter)


def _difference(before: Counters, after: Counters, counter: CounterName) -> int | None:
    first: int | None = getattr(before, counter)
    last: int | None = getattr(after, counter)
    return None if first is None or last is None else last - first


def _signed(size: int) -> str:
    """A difference in bytes: "+1,264 B", "−8 B", "0 B"."""
    return f"{'+' if size > 0 else '−' if size < 0 else ''}{abs(size):,} B"


def _unexplained(items: Sequence[Item]) -> int:
    return sum(item.bytes for item in items if item.name == UNEXPLAINED)
