"""Decoding under command: which mode runs, pauses, the replays that the replay phase is measured over, live samples.

Nothing here catches what a step raises: the session tells it. For the GPU thread.
"""

import math
from collections.abc import Callable
from typing import TypeVar

from ..commands import AnyCommand
from ..events import Event
from ..plurals import counted
from ..settings import Mode, RunSettings
from .decode import DecodeLoop
from .devices import Device, now
from .failures import EngineError
from .holdings import addresses, caches
from .inbox import CommandQueue
from .measured import Meter, Span
from .models import Detokenizer
from .workflow import Outcome, Workflow

LIVE_MEMORY_S = 0.5
"""Seconds between two live samples of memory and caches while decoding."""

T = TypeVar("T")


class Decoding:
    """The decode loop of one session. `active`: steps are being made; `paused`: they were, and can go on."""

    def __init__(
        self, settings: RunSettings, device: Device, workflow: Workflow, meter: Meter, emit: Callable[[Event], None]
    ) -> None:
        self._settings = settings
        self._device = device
        self._workflow = workflow
        self._meter = meter
        self._emit = emit
        self._loop: DecodeLoop | None = None
        self._replay: Span | None = None
        self._last_live = 0.0
        self._paused_at = self._paused_s = 0.0
        self.active = False
        self.paused = False
        self.go_on_in: Mode | None = None
        """The mode to change to once the replay phase has been measured; None: stay."""

    @property
    def mode(self) -> Mode | None:
        """The mode that decodes or is paused."""
        return self._loop.mode if self._loop is not None and (self.active or self.paused) else None

    @property
    def mode_to_be(self) -> Mode | None:
        """The mode that it decodes in, or changes to after the replay phase."""
        return self.go_on_in or self.mode if self.in_replay_phase else self.mode

    @property
    def in_replay_phase(self) -> bool:
        """Whether the replay phase has begun and is not yet measured."""
        return self._replay is not None

    def open(self) -> None:
        """A model has been loaded."""
        loaded = self._workflow.loaded
        tokenizer = None if loaded is None else loaded.tokenizer
        detokenize = None if tokenizer is None else Detokenizer(tokenizer).push
        self._loop = DecodeLoop(self._device, self._emit, self._settings.batch_size, detokenize)

    def close(self) -> None:
        """Let go of everything, before release."""
        self.drop()
        self._loop = None

    def drop(self) -> None:
        """After an error: no step is made or waited for any more."""
        self._replay = None
        self.active = self.paused = False
        if self._loop is not None:
            self._loop.forget()

    def set_valid(self, valid: bool) -> None:
        """Whether a replay's results are right, and so its speed."""
        _there(self._loop).valid = valid

    def can(self, mode: Mode) -> bool:
        """Whether this mode could decode now."""
        try:
            self._workflow.arm(mode)
        except EngineError:
            return False
        return self._loop is not None

    def start(self, mode: Mode, *, afresh: bool = False) -> None:
        """Decode in this mode from the next token on. Raises `EngineError` where that cannot be yet."""
        arm = self._workflow.arm(mode)
        loop = self._loop
        if loop is None:
            raise EngineError("settings", "No model is loaded", "run load first", recoverable=True)
        self._count_pause()
        if self._replay is not None and mode != "graph":
            self._end_replay_phase()
        if afresh or loop.mode != mode or not (self.active or self.paused):
            with self._device.on(self._workflow.stream):
                loop.enter(arm)
        elif self.paused:
            loop.resume()
        self.active, self.paused = True, False

    def start_replay_phase(self, span: Span) -> None:
        """Decode by replay; the phase ends by itself after `settings.tokens` replays."""
        self._replay, self._paused_s = span, 0.0
        self.start("graph", afresh=True)

    def until_command(self, commands: CommandQueue) -> AnyCommand | None:
        """Decode until a command waits, which is looked for between two steps, or the mode changed by itself: None."""
        loop = _there(self._loop)
        mode = loop.mode
        with self._device.on(self._workflow.stream):
            while (command := commands.get_nowait()) is None and loop.mode == mode:
                self._step(loop)
        return command

    def stretch(self, steps: int, seconds: float = math.inf) -> None:
        """Decode until this mode has come to `steps` steps, or for some seconds."""
        loop = _there(self._loop)
        end = now() + seconds
        with self._device.on(self._workflow.stream):
            while loop.launched < steps and now() < end:
                self._step(loop)
            loop.drain()

    def pause(self) -> bool:
        """Stop between two steps, to go on later; False if nothing decodes."""
        if not self.active:
            return False
        _there(self._loop).drain()
        self.active, self.paused, self._paused_at = False, True, now()
        self._emit(caches(self._workflow))
        return True

    def resume(self) -> bool:
        """Go on; False if nothing is paused."""
        if not self.paused:
            return False
        self._count_pause()
        _there(self._loop).resume()
        self.active, self.paused = True, False
        return True

    def stop(self) -> None:
        """Stop for good; ends the replay phase with the replays that there were."""
        if not (self.active or self.paused):
            return
        self._count_pause()
        if self._replay is not None:
            self._end_replay_phase()
        _there(self._loop).drain()
        self.active = self.paused = False
        self._emit(caches(self._workflow))
        if self._workflow.guard is not None:
            self._emit(addresses(self._workflow.guard))  # with all replays compared, however long decoding went on

    def _count_pause(self) -> None:
        """A pause that ends now is no time of the replay phase."""
        if self.paused:
            self._paused_s += now() - self._paused_at
            self._paused_at = now()

    def _step(self, loop: DecodeLoop) -> None:
        loop.step()
        if self._replay is not None and loop.launched >= self._settings.tokens:
            self._end_replay_phase()
            if self.go_on_in is not None:
                self.start(self.go_on_in)
        if now() - self._last_live >= LIVE_MEMORY_S:
            self._last_live = now()
            self._tell_live()

    def _end_replay_phase(self) -> None:
        """The replays that the phase is measured over have been made: decoding goes on, the phase is done."""
        span, loop = _there(self._replay), _there(self._loop)
        if not loop.launched:  # of no replay there is nothing to measure
            with self._device.on(self._workflow.stream):
                loop.resume()
                loop.step()
        loop.drain()
        took = now() - span.began - self._paused_s
        self._emit(addresses(_there(self._workflow.guard)))
        self._meter.done(span, Outcome(notes=(f"measured over {counted(loop.launched, 'replay')}",)), seconds=took)
        self._replay = None  # only now: a phase whose end cannot be measured has not ended
        loop.resume()

    def _tell_live(self) -> None:
        sample = caches(self._workflow)
        self._emit(sample)
        memory = self._meter.live(sample.dynamic_bytes)
        if memory is not None:
            self._emit(memory)


def _there(value: T | None) -> T:
    """What the state of the session guarantees to be there."""
    if value is None:
        raise RuntimeError("decoding has lost track of what it does")
    return value
