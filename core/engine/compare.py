"""Decode modes against each other: interleaved, at a steady clock, under one policy of synchronisation.

Every round measures each mode once, from the end of the prompt on, in ABBA order; the ratio is taken round by round, so
what drifts slowly cancels. Eager and graph share the StaticCache, the input and the sampling. Prefill is timed apart.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from transformers import DynamicCache

from ..commands import RunBench
from ..events import ArmResult, Comparison, Event
from ..settings import MODES, Mode
from ..statistics import Interval, median_interval, paired_ratios, quantile
from .bandwidth import copy_bandwidth
from .decode import Arm, DecodeLoop
from .devices import now
from .failures import EngineError
from .holdings import addresses
from .kept import decode_state_kept
from .lab import Lab
from .models import forward_kwargs, prompt_ids
from .watch import Watch

HALF_WIDTH = 0.01
"""Rounds end when the ratio is known to within this share."""
BENCH_S = 45.0
WARM_S = 8.0
ROUNDS_MAX = 200
LEAD_IN = 4
"""Steps before each stretch that is timed: the first after a change of mode find everything cold."""
STEADY_READINGS = 4
READING_EVERY_S = 0.2
PREFILLS = 5


class Plan(NamedTuple):
    """What is compared, and when it is enough. `rounds` None: until the ratio is known well enough."""

    modes: tuple[Mode, ...]
    tokens: int
    rounds: int | None = None
    seconds: float = BENCH_S
    """A further round is begun only if it can end within this, unless `rounds` asks for it."""
    warm_s: float = WARM_S


class Stretch(NamedTuple):
    """One mode in one round."""

    tok_s: float
    step_s: tuple[float, ...]
    allocations: int | None


def run_bench(command: RunBench, lab: Lab) -> None:
    """Compare the modes asked for; emits a `Comparison` after each round and at the end.

    After a MISMATCH verdict on the graph nothing is measured: the speed of wrong results is none. Raises `EngineError`
    where a mode cannot decode here.
    """
    modes = tuple(mode for mode in MODES if mode in command.modes)
    if not modes or command.tokens < 1 or (command.rounds is not None and command.rounds < 1):
        raise EngineError("settings", "A bench needs a mode, a token and a round", recoverable=True)
    if "graph" in modes and lab.device.capture_refusal is not None:
        raise EngineError("settings", lab.device.capture_refusal, "compare eager and dynamic", recoverable=True)
    if not lab.run_phases("capture" if "graph" in modes else "warmup"):
        raise EngineError("settings", "A phase that the comparison needs has failed", "restart (R)", recoverable=True)
    require_captured_input(lab)
    verification = lab.verification()
    if "graph" in modes and verification is not None and verification.verdict == "mismatch":
        lab.emit(Comparison(arms=(), rounds=0, final=True, verdict="mismatch"))
        return
    copy_bytes_s = copy_bandwidth(lab.device, lab.workflow.stream)
    compare(lab, Plan(modes, command.tokens, command.rounds), copy_bytes_s)


def require_captured_input(lab: Lab) -> None:
    """Refuse while a demonstration has the input rebound: nothing that is measured then means anything."""
    if lab.workflow.rebound is not None:
        raise EngineError("settings", "The input is rebound", "mend it first (b)", recoverable=True)


def compare(lab: Lab, plan: Plan, copy_bytes_s: float | None) -> Comparison:
    """Measure by the plan; emits after each round and at the end, and returns the last. Leaves decoding as it was.

    Replays compare the addresses as any others do, which is told after the last round.
    """
    with decode_state_kept(lab.workflow, lab.device):
        result = _Bench(lab, plan, copy_bytes_s).run()
    if "graph" in plan.modes and lab.workflow.guard is not None:
        lab.emit(addresses(lab.workflow.guard))
    return result


class _Bench:
    """One comparison as it runs."""

    def __init__(self, lab: Lab, plan: Plan, copy_bytes_s: float | None) -> None:
        self._lab = lab
        self._plan = plan
        self._arms = [lab.workflow.arm(mode) for mode in plan.modes]
        self._loop = DecodeLoop(lab.device, _unheard, lab.settings.batch_size)
        self._watch = Watch(lab.telemetry)
        self._stretches: dict[Mode, list[Stretch]] = {mode: [] for mode in plan.modes}
        self._rounds = 0
        self._stopped = False
        """Whether it ended before it was known well enough."""
        self._warmed: bool | None = None
        self._prefill_ms = 0.0
        self._prompt_len = self._arms[0].cursor.prompt_len
        self._copy_bytes_s = copy_bytes_s

    def run(self) -> Comparison:
        device = self._lab.device
        with device.on(self._lab.workflow.stream):
            self._warmed = self._reach_a_steady_clock()
            self._prefill_ms = prefill_ms(self._lab)
            self._watch.restart()
            self._watch.take()
            begun = now()
            try:
                while not self._enough(now() - begun):
                    self._round()
                    self._watch.take()
                    self._lab.emit(self._result(final=False))
            except Exception:
                self._tell_broken_off()
                raise
        result = self._result(final=True)
        self._lab.emit(result)
        return result

    def _tell_broken_off(self) -> None:
        """After an error: the rounds that were complete are all that comes."""
        if not self._rounds:
            return
        for stretches in self._stretches.values():
            del stretches[self._rounds :]
        self._stopped = True
        self._lab.emit(self._result(final=True))

    def _reach_a_steady_clock(self) -> bool | None:
        """Decode until the clock stays where it is, or for `warm_s`; an idle GPU needs a while. None: not known."""
        arm, end = self._arms[-1], now() + self._plan.warm_s
        self._enter(arm)
        while True:
            next_reading = now() + READING_EVERY_S
            while now() < next_reading:
                self._loop.step()
            reading = self._watch.take()
            enough = len(self._watch.readings) >= STEADY_READINGS
            steady = self._watch.steady(STEADY_READINGS) if enough else False
            if steady or now() >= end or (enough and reading.sm_mhz is None):
                self._loop.drain()
                return steady

    def _round(self) -> None:
        order = self._arms if self._rounds % 2 == 0 else self._arms[::-1]
        for arm in order:
            self._stretches[arm.mode].append(self._stretch(arm))
        self._rounds += 1

    def _stretch(self, arm: Arm) -> Stretch:
        device, loop = self._lab.device, self._loop
        self._enter(arm)
        for _ in range(LEAD_IN):
            loop.step()
        loop.enter(arm)
        before = device.counters().allocations
        loop.resume()
        for _ in range(self._plan.tokens):
            loop.step()
        loop.drain()
        after = device.counters().allocations
        speed = loop.speed
        steps_s = speed.steps_s_mean or 0.0
        allocations = None if before is None or after is None else after - before
        return Stretch(steps_s * self._lab.settings.batch_size, speed.step_times_s, allocations)

    def _enter(self, arm: Arm) -> None:
        self._loop.drain()
        arm.cursor.rewind()
        self._loop.enter(arm)

    def _enough(self, elapsed: float) -> bool:
        if self._rounds == 0:
            return False
        if self._rounds >= min(self._plan.rounds or ROUNDS_MAX, ROUNDS_MAX):
            return True
        if self._lab.cancelled():
            self._stopped = True
            return True
        if self._plan.rounds is not None:
            return False
        if elapsed * (self._rounds + 1) / self._rounds > self._plan.seconds:
            return True
        if self._rounds % 2 == 1:
            return False
        ratio = self._ratio()
        known = [ratio] if ratio is not None else [self._speed(mode) for mode in self._plan.modes]
        return all(found.is_95 and found.half_width <= HALF_WIDTH for found in known)

    # ------------------------------------------------------------------------------------------------------ results

    def _speed(self, mode: Mode) -> Interval:
        return median_interval([stretch.tok_s for stretch in self._stretches[mode]])

    def _ratio(self) -> Interval | None:
        """Graph over eager, round by round; None unless both are compared."""
        graph, eager = self._stretches.get("graph"), self._stretches.get("eager")
        if not graph or not eager:
            return None
        return median_interval(paired_ratios([one.tok_s for one in graph], [one.tok_s for one in eager]))

    def _result(self, *, final: bool) -> Comparison:
        ratio, watch, verification = self._ratio(), self._watch, self._lab.verification()
        steady = watch.steady()
        return Comparison(
            arms=tuple(self._arm_result(arm) for arm in self._arms),
            rounds=self._rounds,
            rounds_wanted=self._plan.rounds,
            final=final,
            stopped=final and self._stopped,
            ratio=ratio.median if ratio is not None else None,
            ratio_low=ratio.low if ratio is not None and ratio.is_95 else None,
            ratio_high=ratio.high if ratio is not None and ratio.is_95 else None,
            prefill_ms=self._prefill_ms,
            prompt_len=self._prompt_len,
            copy_bytes_s=self._copy_bytes_s,
            datasheet_bytes_s=self._lab.facts.memory_bandwidth_bytes_s,
            sm_mhz=watch.sm_mhz(),
            memory_mhz=watch.memory_mhz(),
            power_w=watch.power_w(),
            throttled=watch.throttled(),
            steady=steady if steady is None or self._warmed is None else steady and self._warmed,
            verdict=verification.verdict if verification is not None else None,
        )

    def _arm_result(self, arm: Arm) -> ArmResult:
        stretches, speed = self._stretches[arm.mode], self._speed(arm.mode)
        step_ms = [1000 * seconds for stretch in stretches for seconds in stretch.step_s]
        tokens = self._plan.tokens * len(stretches)
        middle = min(self._prompt_len + LEAD_IN + self._plan.tokens // 2, arm.cursor.capacity)
        bytes_s = arm.read_bytes(middle) * speed.median / self._lab.settings.batch_size
        return ArmResult(
            mode=arm.mode,
            rounds=len(stretches),
            tokens=tokens,
            tok_s=speed.median,
            tok_s_low=speed.low,
            tok_s_high=speed.high,
            step_ms_p50=quantile(step_ms, 0.5),
            step_ms_p99=quantile(step_ms, 0.99),
            allocations_per_token=_per_token(stretches, tokens),
            launches_per_token=self._launches(arm.mode),
            gb_s=bytes_s / 1e9,
            share_of_copy=_share(bytes_s, self._copy_bytes_s),
            share_of_datasheet=_share(bytes_s, self._lab.facts.memory_bandwidth_bytes_s),
        )

    def _launches(self, mode: Mode) -> float | None:
        """A replay is one launch. An eager step launches the kernels that capture recorded of that same step, so the
        graph's kernel nodes count them; without a graph, and for a DynamicCache with its other kernels, not known."""
        if mode == "graph":
            return 1.0
        captured = self._lab.workflow.captured
        nodes = captured.nodes_by_kind() if mode == "eager" and captured is not None else None
        return float(nodes["kernel"]) if nodes is not None and "kernel" in nodes else None


def prefill_ms(lab: Lab, repetitions: int = PREFILLS) -> float:
    """Milliseconds of the prompt through the model into a DynamicCache of its own, synchronised: the median."""
    loaded, device = lab.workflow.loaded, lab.device
    if loaded is None:
        raise EngineError("settings", "No model is loaded", "run load first", recoverable=True)
    ids = prompt_ids(loaded, lab.settings, device.torch_device)
    taken = []
    with device.on(lab.workflow.stream):
        for _ in range(repetitions + 1):
            device.synchronize()
            begun = now()
            cache = DynamicCache(config=loaded.model.config)
            kwargs = forward_kwargs(loaded.model, cache)
            loaded.model(input_ids=ids, use_cache=True, logits_to_keep=1, **kwargs).logits[:, -1].argmax(dim=-1)
            device.synchronize()
            taken.append(1000 * (now() - begun))
    return median(taken[1:])


def _per_token(stretches: Sequence[Stretch], tokens: int) -> float | None:
    counts = [stretch.allocations for stretch in stretches]
    known = [count for count in counts if count is not None]
    return sum(known) / tokens if len(known) == len(counts) else None


def _share(bytes_s: float, of: float | None) -> float | None:
    return bytes_s / of if of else None


def _unheard(event: Event) -> None:
    """Events of single steps are not told: the comparison is."""
