"""A session: one run on one device, driven by commands, told as events. This is what the GPU thread runs.

Phases run one at a time; between them, and between two decode steps, the session looks at its commands. A phase that
fails in a way the device survives can be tried again; everything measured so far has been told already.
"""

import gc
import math
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec
import torch

from ..commands import AnyCommand, Cancel, Pause, Quit, Resume, RunAll, RunPhase, SetMode, Verify
from ..events import Counters, Event, Log, PhaseEnd, PhaseId, RunStateName, Status, Verification
from ..phases import PHASE_BY_ID, PHASE_IDS
from ..settings import Mode, RunSettings
from .decode import DecodeLoop
from .devices import now
from .experiments import run_experiment
from .failures import EngineError, error_from, exit_code
from .inbox import CommandQueue
from .lab import Lab
from .ledger import Ledger
from .measured import Meter, Span
from .memory import carried_forward
from .models import Detokenizer
from .opening import Opening, open_run
from .workflow import Outcome, Workflow

LIVE_MEMORY_S = 0.5
"""Seconds between two live memory samples while decoding."""
SPEED_STEPS = 64
SPEED_S = 3.0
"""What a run of all phases spends on the speed of each eager mode: so many steps or seconds, whichever is less."""

Emit = Callable[[Event], None]
T = TypeVar("T")


def run_session(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """Run until told to quit, or to the end of `RunAll(release=True)`; returns the exit code."""
    try:
        opening = open_run(settings)
    except Exception as exception:
        error = error_from(exception, None, settings=settings)
        emit(error)
        return exit_code(error.kind)
    emit(opening.hello)
    with torch.no_grad():  # grad mode is a thread's own
        return Session(opening, commands, emit).serve()


class Session:
    """Commands in, events out. For the GPU thread only."""

    def __init__(self, opening: Opening, commands: CommandQueue, emit: Emit) -> None:
        self.settings = opening.hello.settings
        self._device = opening.device
        self._commands = commands
        self._emit = emit
        self._facts = opening.hello.device
        self._telemetry = opening.telemetry
        self._ledger = Ledger(opening.device, opening.read_processes)
        self._meter = Meter(opening.device, self._ledger, emit)
        self.workflow = Workflow(self.settings, opening.plan, opening.device, self._ledger, emit)
        self._next = 0
        self._loop: DecodeLoop | None = None
        self._decoding = False
        self._paused = False
        self._replay: Span | None = None
        self._last_live_memory = 0.0
        self._verification: Verification | None = None
        self._run_to: Literal["replay", "release"] | None = None
        self._over = False
        self._error_code = 0
        self._dead = False
        self._cancelled = False
        self._experimenting = False
        self._aside: list[AnyCommand] = []

    @property
    def next_phase(self) -> PhaseId | None:
        """The phase that `RunPhase` would run."""
        return PHASE_IDS[self._next] if self._next < len(PHASE_IDS) else None

    def serve(self) -> int:
        """Handle commands until `Quit` or the end of a run of all phases; returns the exit code."""
        self._tell_status()
        while True:
            command = self._wait()
            if isinstance(command, Quit):
                return 0
            if command is not None:
                self._handle(command)
            elif self._run_to is not None:
                self._run_on()
            if self._over:
                return self._exit_code()

    def _wait(self) -> AnyCommand | None:
        """The next command; decodes while none waits, and returns none where phases are to be run meanwhile."""
        if self._aside:
            return self._aside.pop(0)
        if self._run_to is not None:
            return self._commands.get_nowait()
        if not self._decoding:
            return self._commands.get()
        return self._decode_until_command()

    def _handle(self, command: AnyCommand) -> None:
        self._run_to = None
        if self._dead:
            self._refuse(command, "the device is lost to this worker: restart (R)")
            self._over = isinstance(command, RunAll) and command.release
            return
        match command:
            case RunPhase():
                self._run_phase_command(command)
            case RunAll():
                self._run_to = "release" if command.release else "replay"
            case SetMode():
                self._set_mode(command)
            case Pause():
                self._pause(command)
            case Resume():
                self._resume(command)
            case Verify():
                self._verify_command(command)
            case Cancel():
                self._refuse(command, "no sweep, bench or check is running")
            case Quit():
                self._over = True
            case _:
                self._experiment(command)

    def _experiment(self, command: AnyCommand) -> None:
        """Carry out an experiment; commands that come meanwhile wait, but for `Cancel` and `Quit`, which end it."""
        self._stop_decoding()
        self._cancelled = False
        self._experimenting = True
        self._tell_status()
        try:
            run_experiment(command, self._lab())
        except EngineError as reason:
            if reason.kind == "settings" and reason.recoverable:
                self._experimenting = False
                self._refuse(command, f"{reason.headline}; {reason.hint}" if reason.hint else reason.headline)
                return
            self._failed(reason, None)
        except Exception as exception:
            self._failed(exception, None)
        finally:
            self._experimenting = False
        self._tell_status()

    def _lab(self) -> Lab:
        return Lab(
            settings=self.settings,
            facts=self._facts,
            device=self._device,
            ledger=self._ledger,
            workflow=self.workflow,
            emit=self._emit,
            cancelled=self._is_cancelled,
            run_phases=self._run_up_to,
            telemetry=self._telemetry,
        )

    def _is_cancelled(self) -> bool:
        while (command := self._commands.get_nowait()) is not None:
            if isinstance(command, Cancel | Quit):
                self._cancelled = True
            if not isinstance(command, Cancel):
                self._aside.append(command)
        return self._cancelled

    def _run_up_to(self, phase: PhaseId) -> bool:
        while self._next <= PHASE_IDS.index(phase):
            if self._dead or not self._run_next():
                return False
        self._stop_decoding()
        return True

    def _exit_code(self) -> int:
        if self._error_code:
            return self._error_code
        mismatch = self._verification is not None and self._verification.verdict == "mismatch"
        return 1 if mismatch else 0

    # -------------------------------------------------------------------------------------------------------- phases

    def _run_phase_command(self, command: RunPhase) -> None:
        if self.next_phase is None:
            self._refuse(command, "all phases are done: restart (R)")
        elif command.phase is not None and command.phase != self.next_phase:
            self._refuse(command, f"{PHASE_BY_ID[self.next_phase].title} comes first")
        else:
            self._run_next()

    def _run_on(self) -> None:
        """One phase of a run of all phases; commands are looked at before the next."""
        headless = self._run_to == "release"
        if self.next_phase is None or (self.next_phase == "release" and not headless):
            self._run_to = None
            self._over = headless
            if not headless and not self._decoding and not self._replay:
                self._decode_on()
            return
        if self.next_phase == "release":
            self._take_speeds()
        if self._dead or not self._run_next():
            self._run_to = None
            self._over = headless
        elif self._replay is not None and headless:
            self._stretch(self.settings.tokens)
        elif self._decoding:
            self._run_to = None

    def _decode_on(self) -> None:
        """Where no replay can be: go on in the best mode there is."""
        modes: tuple[Mode, ...] = (self.settings.mode, "graph", "eager")
        mode = next((mode for mode in modes if self._can_decode(mode)), None)
        if mode is not None:
            self._start_decoding(mode)

    def _run_next(self) -> bool:
        """Run the next phase; False if it failed."""
        phase = self.next_phase
        assert phase is not None
        self._stop_decoding()
        self._tell_status("running", phase)
        refusal = self._device.capture_refusal if PHASE_BY_ID[phase].needs_cuda else None
        if refusal is not None:
            self._emit(PhaseEnd(phase=phase, status="unavailable", reason=refusal))
            self._next += 1
            self._tell_status()
            return True
        try:
            self._run(phase)
        except Exception as exception:
            self._failed(exception, phase)
            return False
        self._next += 1
        self._tell_status()
        return True

    def _run(self, phase: PhaseId) -> None:
        if phase == "release":
            self._forget_loop()
        span = self._meter.begin(phase)
        if phase == "replay":
            self._replay = span
            self._start_decoding("graph", afresh=True)
            return
        self._meter.done(span, self.workflow.run(phase))
        if phase == "load":
            self._loop = self._new_loop()
        if phase == "capture":
            if self.settings.memory_snapshot:
                self._write_snapshot(self.settings.memory_snapshot)
            if self.settings.verify_steps:
                self._verify()

    def _failed(self, exception: Exception, phase: PhaseId | None) -> None:
        """Tell what happened, and let go of what the failed phase had allocated, as far as the device lives."""
        error = error_from(exception, phase, settings=self.settings)
        if error.kind != "device_lost":
            try:
                free = self._device.free_and_total() if phase != "context" else None
                reading = self._device.counters()
                error = error_from(
                    exception,
                    phase,
                    free=None if free is None else free[0],
                    reserved=reading.reserved,
                    settings=self.settings,
                )
            except Exception as second:
                self._emit(Log(source="engine", text=f"counters are lost as well: {second}"))
        self._replay = self._run_to = None
        self._decoding = self._paused = False
        if self._loop is not None:
            self._loop.forget()
        self._emit(error)
        self._error_code = self._error_code or exit_code(error.kind)
        self._dead = self._dead or not error.recoverable
        exception.__traceback__ = None
        gc.collect()
        if error.recoverable:
            self._device.empty_cache()
        self._tell_status("failed", phase)

    def _write_snapshot(self, path: str) -> None:
        try:
            written = self._device.write_snapshot(path)
        except OSError as problem:
            self._emit(Log(source="engine", text=f"the memory snapshot was not written: {problem}"))
            return
        text = f"memory snapshot written to {path}" if written else "a CPU has no memory snapshot to write"
        self._emit(Log(source="engine", text=text))

    def _verify_command(self, command: Verify) -> None:
        if self.workflow.captured is None:
            self._refuse(command, self._device.capture_refusal or "capture a graph first")
            return
        self._stop_decoding()
        self._verify()
        self._tell_status()

    def _verify(self) -> None:
        try:
            self._verification = self.workflow.verify()
        except Exception as exception:
            self._failed(exception, "capture")
            return
        self._emit(self._verification)
        _there(self._loop).valid = self._verification.verdict != "mismatch"

    # ------------------------------------------------------------------------------------------------------ decoding

    def _new_loop(self) -> DecodeLoop:
        loaded = self.workflow.loaded
        tokenizer = None if loaded is None else loaded.tokenizer
        detokenize = None if tokenizer is None else Detokenizer(tokenizer).push
        return DecodeLoop(self._device, self._emit, self.settings.batch_size, detokenize)

    def _set_mode(self, command: SetMode) -> None:
        if command.mode == "graph" and self.next_phase == "replay":
            self._run_next()
            return
        try:
            self._start_decoding(command.mode)
        except EngineError as reason:
            self._refuse(command, f"{reason.headline}; {reason.hint}" if reason.hint else reason.headline)

    def _can_decode(self, mode: Mode) -> bool:
        try:
            self.workflow.arm(mode)
        except EngineError:
            return False
        return self._loop is not None

    def _start_decoding(self, mode: Mode, *, afresh: bool = False) -> None:
        """Decode in this mode from the next token on. Raises `EngineError` where that cannot be yet."""
        arm = self.workflow.arm(mode)
        loop = self._loop
        if loop is None:
            raise EngineError("settings", "no model is loaded", "run load first", recoverable=True)
        if self._replay is not None and mode != "graph":
            self._end_replay_phase()
        if afresh or loop.mode != mode or not (self._decoding or self._paused):
            with self._device.on(self.workflow.stream):
                loop.enter(arm)
        elif self._paused:
            loop.resume()
        self._decoding, self._paused = True, False
        self._tell_status()

    def _decode_until_command(self) -> AnyCommand | None:
        """Decode until a command waits; looked at between two steps, never inside one."""
        loop = _there(self._loop)
        try:
            with self._device.on(self.workflow.stream):
                while (command := self._commands.get_nowait()) is None:
                    self._step(loop)
        except Exception as exception:
            self._failed(exception, "replay" if loop.mode == "graph" else None)
            return None
        return command

    def _stretch(self, steps: int, seconds: float = math.inf) -> None:
        """Decode until this mode has come to `steps` steps, or for some seconds."""
        loop = _there(self._loop)
        end = now() + seconds
        try:
            with self._device.on(self.workflow.stream):
                while loop.launched < steps and now() < end:
                    self._step(loop)
                loop.drain()
        except Exception as exception:
            self._failed(exception, "replay" if loop.mode == "graph" else None)

    def _step(self, loop: DecodeLoop) -> None:
        loop.step()
        if self._replay is not None and loop.launched >= self.settings.tokens:
            self._end_replay_phase()
            if self._run_to is None and self.settings.mode != "graph":
                self._start_decoding(self.settings.mode)
        if now() - self._last_live_memory >= LIVE_MEMORY_S:
            self._last_live_memory = now()
            self._tell_live_memory()

    def _end_replay_phase(self) -> None:
        """The replays that the phase is measured over have been made: decoding goes on, the phase is done."""
        span, loop = _there(self._replay), _there(self._loop)
        self._replay = None
        loop.drain()
        took = now() - span.began
        self.workflow.tell_addresses()
        self._meter.done(span, Outcome(notes=(f"measured over {loop.launched} replays",)), seconds=took)
        loop.resume()

    def _stop_decoding(self) -> None:
        if not (self._decoding or self._paused) or self._loop is None:
            return
        if self._replay is not None:
            self._end_replay_phase()
        self._loop.drain()
        self._decoding = self._paused = False

    def _pause(self, command: Pause) -> None:
        if not self._decoding or self._loop is None:
            self._refuse(command, "nothing is decoding")
            return
        self._loop.drain()
        self._decoding, self._paused = False, True
        self._tell_status()

    def _resume(self, command: Resume) -> None:
        if not self._paused or self._loop is None:
            self._refuse(command, "nothing is paused")
            return
        self._loop.resume()
        self._decoding, self._paused = True, False
        self._tell_status()

    def _take_speeds(self) -> None:
        """A stretch of each eager mode, so that a run of all phases tells every speed."""
        modes: tuple[Mode, ...] = ("eager", "dynamic")
        for mode in modes:
            if not self._error_code and self._can_decode(mode):
                self._start_decoding(mode)
                self._stretch(SPEED_STEPS, SPEED_S)
        self._stop_decoding()

    def _forget_loop(self) -> None:
        if self._loop is not None:
            self._loop.forget()
        self._loop = None

    # ------------------------------------------------------------------------------------------------------- telling

    def _tell_live_memory(self) -> None:
        last = self._meter.last
        if last is None or last.total_bytes is None:
            return
        reading, free = self._device.counters(), self._device.free_and_total()
        counters = Counters(requested=reading.requested, allocated=reading.allocated, reserved=reading.reserved)
        self._emit(carried_forward(last, counters, None if free is None else free[0], None))

    def _tell_status(self, state: RunStateName | None = None, phase: PhaseId | None = None) -> None:
        self._emit(self._status(state, phase))

    def _status(self, state: RunStateName | None = None, phase: PhaseId | None = None) -> Status:
        if state is None:
            state = "decoding" if self._decoding else "paused" if self._paused else "idle"
            if self._run_to is not None or self._experimenting:
                state = "running"
            if self.next_phase is None:
                state = "released"
            if self._dead:
                state = "failed"
        mode = self._loop.mode if self._loop is not None and (self._decoding or self._paused) else None
        return Status(
            state=state, mode=mode, phase=phase, next_phase=self.next_phase, tainted_bytes=self.workflow.tainted_bytes
        )

    def _refuse(self, command: AnyCommand, why: str) -> None:
        name = str(type(command).__struct_config__.tag)
        self._emit(msgspec.structs.replace(self._status(), refused=name, why=why))


def _there(value: T | None) -> T:
    """What the state of the session guarantees to be there."""
    if value is None:
        raise RuntimeError("the session has lost track of what it does")
    return value
