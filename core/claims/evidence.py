"""What the judges of the guide's statements look at: one run or several, read without caring which holds what."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from ..events import (
    Comparison,
    CounterName,
    Demonstration,
    DynamicCapture,
    ModelInfo,
    PhaseEnd,
    PhaseId,
    SweepKind,
    SweepRow,
)
from ..memory_map import MIB
from ..settings import Mode
from ..state import RATIO_STEPS, RunState
from ..statistics import LEAST_FOR_95
from .cases import on_gpu

T = TypeVar("T")

Verdict = Literal["holds", "does_not_hold", "other_reason", "not_measured"]


class Finding(NamedTuple):
    """A verdict with a sentence that gives its numbers."""

    verdict: Verdict
    sentence: str


class Evidence:
    """The runs, most telling first. `main` is the one whose phases are judged."""

    def __init__(self, runs: Sequence[RunState], names: Sequence[str] = ()) -> None:
        self.runs = tuple(runs)
        self._names = tuple(names) if names else ("",) * len(self.runs)
        self._main = _main(self.runs)
        self._used: list[RunState] = []

    def only(self, covers: Callable[[RunState], bool]) -> "Evidence":
        """Those of the runs, under their names; none of them is used yet."""
        kept = [(run, name) for run, name in zip(self.runs, self._names, strict=True) if covers(run)]
        return Evidence([run for run, _ in kept], [name for _, name in kept])

    @property
    def has_several_names(self) -> bool:
        """Whether a figure must say which run it is of."""
        return len(set(self._names)) > 1

    def use(self, run: RunState) -> RunState:
        """The same run, which figures of the finding are of."""
        self._used.append(run)
        return run

    def names_used(self) -> tuple[str, ...]:
        """Of the runs that were looked at so far, in the order of the runs."""
        used = {id(run) for run in self._used}
        names = [name for run, name in zip(self.runs, self._names, strict=True) if id(run) in used and name]
        return tuple(dict.fromkeys(names))

    @property
    def main(self) -> RunState:
        """The run whose phases came furthest."""
        return self.use(self._main)

    @property
    def model(self) -> ModelInfo | None:
        """Of the main run."""
        return self.main.hello.model if self.main.hello is not None else None

    def end(self, phase: PhaseId) -> PhaseEnd | None:
        """The end of a phase that was done in the main run."""
        return done(self.main, phase)

    def delta(self, phase: PhaseId, counter: CounterName) -> int | None:
        """What a counter changed by in a phase; null where that is unknown."""
        end = self.end(phase)
        return None if end is None else change(end, counter)

    def items(self, phase: PhaseId, counter: CounterName = "requested") -> dict[str, int]:
        """What the change is made of."""
        end = self.end(phase)
        return {} if end is None else items_of(end, counter)

    def runs_with_warmup(self) -> dict[int, RunState]:
        """Warmup steps -> a run that came to a capture with them."""
        found: dict[int, RunState] = {}
        for run in self.runs:
            captured = run.phase("capture").status in ("done", "failed")
            if run.hello is not None and captured and not run.hello.settings.guide_streams:
                found.setdefault(run.hello.settings.warmup, run)
        return found

    def with_guide_streams(self) -> RunState | None:
        """A run with the guide's streams: warmup on the default one, capture on another."""
        return self._first(lambda run: run if run.hello is not None and run.hello.settings.guide_streams else None)

    def rows(self, sweep: SweepKind, strategy: str = "own") -> tuple[SweepRow, ...]:
        """The measured rows of a sweep by one strategy."""

        def of(run: RunState) -> tuple[SweepRow, ...] | None:
            rows = run.sweeps[sweep].rows if sweep in run.sweeps else ()
            return tuple(row for row in rows if row.status == "done" and row.strategy == strategy) or None

        return self._first(of) or ()

    @property
    def comparison(self) -> Comparison | None:
        """Of the decode modes, if one was made to its end: the one of most tokens."""
        run = self._compared()
        return run.comparison if run is not None else None

    @property
    def is_wrong(self) -> bool:
        """Whether the replays whose speed is known gave other logits than eager steps."""
        run = self._compared() or self.main
        verdicts = {found.verdict for found in (run.comparison, run.verification) if found is not None}
        return "mismatch" in verdicts

    @property
    def dynamic_capture(self) -> DynamicCapture | None:
        """The attempt of a capture on a DynamicCache."""
        return self._first(lambda run: run.dynamic_capture)

    @property
    def moved(self) -> int:
        """Fixed tensors of the main run that moved by themselves: not the input that a demonstration has rebound."""
        fixed, shown = self.main.addresses, self.main.demonstration
        if fixed is None:
            return 0
        # The list of addresses may be from before or after the demonstration's event.
        rebound = shown is not None and any(
            tensor.moved and tensor.address == shown.captured_address for tensor in fixed.fixed
        )
        return fixed.moved - rebound

    def demonstration(self, stage: str) -> Demonstration | None:
        """The input rebound, or put right again."""

        def of(run: RunState) -> Demonstration | None:
            shown = (run.demonstration, run.earlier_demonstration)
            return next((found for found in shown if found is not None and found.stage == stage), None)

        return self._first(of)

    def run_with_caches(self) -> RunState | None:
        """A run in which both caches were watched while tokens were added."""
        return self._first(lambda run: run if run.caches and run.caches[-1].dynamic_steps else None)

    def speed(self, mode: Mode) -> float | None:
        """Tokens a second, of the comparison where there is one, else of the mode's longest stretch.

        Null while unknown, of too few steps, or of wrong results.
        """
        if self.comparison is not None:
            arms = {arm.mode: arm.tok_s for arm in self.comparison.arms}
            if mode in arms:
                return arms[mode] if self.comparison.verdict != "mismatch" else None
        last = self.main.decode_by_mode.get(mode)
        if last is None or not last.valid:
            return None
        longest = self.main.longest_by_mode.get(mode, last)
        return longest.tok_s_mean if longest.tokens >= RATIO_STEPS else None

    @property
    def speed_up(self) -> float | None:
        """Graph over eager."""
        if self.comparison is not None and self.comparison.ratio is not None:
            return self.comparison.ratio if self.comparison.verdict != "mismatch" else None
        eager, graph = self.speed("eager"), self.speed("graph")
        return graph / eager if eager and graph else None

    def _compared(self) -> RunState | None:
        made = [run for run in (self._main, *self.runs) if _is_known(run.comparison)]
        return self.use(max(made, key=_tokens_compared)) if made else None

    def _first(self, look: Callable[[RunState], T | None]) -> T | None:
        for run in (self._main, *self.runs):
            found = look(run)
            if found is not None:
                self.use(run)
                return found
        return None


def done(run: RunState, phase: PhaseId) -> PhaseEnd | None:
    """The end of a phase that was done."""
    end = run.phase(phase).end
    return end if end is not None and end.status == "done" else None


def change(end: PhaseEnd, counter: CounterName) -> int | None:
    """After minus before; null where either is unknown."""
    before: int | None = getattr(end.before, counter)
    after: int | None = getattr(end.after, counter)
    return None if before is None or after is None else after - before


def items_of(end: PhaseEnd, counter: CounterName = "requested") -> dict[str, int]:
    """Name -> bytes of what a change is made of."""
    return {item.name: item.bytes for item in end.explained.get(counter, ())}


def part(items: dict[str, int], *words: str) -> int:
    """Bytes of the items whose name holds any of these words."""
    return sum(size for name, size in items.items() if any(word in name for word in words))


def mib(size: float) -> str:
    """ "144.0 MiB", or bytes where that would read 0.0."""
    return f"{size:,.0f} B" if abs(size) < 0.05 * MIB else f"{size / MIB:,.1f} MiB"


def listed(items: dict[str, int]) -> str:
    """ "workspace 32.0 MiB, logits 0.3 MiB", the largest first."""
    ordered = sorted(items.items(), key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {mib(size)}" for name, size in ordered) or "nothing"


def prints_as(size: float, printed_mib: float) -> bool:
    """Whether this many bytes are what the guide prints in whole MiB, give or take one."""
    return abs(size / MIB - printed_mib) <= 1


def not_measured(what: str) -> Finding:
    """No such figure in any of the runs."""
    return Finding("not_measured", f"Not measured: {what}.")


def judged(holds: bool, sentence: str) -> Finding:
    """Holds, or does not."""
    return Finding("holds" if holds else "does_not_hold", sentence)


def _main(runs: Iterable[RunState]) -> RunState:
    """The run whose phases came furthest; with the guide's three warmups, and one stream, before others."""

    def rank(run: RunState) -> tuple[int, bool, bool, bool]:
        finished = sum(row.status == "done" for row in run.phases)
        asked = run.hello.settings if run.hello is not None else None
        if asked is None:
            return (finished, False, False, False)
        return (finished, on_gpu(run), not asked.guide_streams, asked.warmup == 3)

    return max(runs, key=rank, default=RunState())


def _is_known(comparison: Comparison | None) -> bool:
    """Whether it is over, and not stopped before there was an interval to judge by."""
    return comparison is not None and comparison.final and not (comparison.stopped and comparison.rounds < LEAST_FOR_95)


def _tokens_compared(run: RunState) -> int:
    return sum(arm.tokens for arm in run.comparison.arms) if run.comparison is not None else 0
