"""A session: one run on one device, driven by commands, told as events. This is what the GPU thread runs.

Phases run one at a time; between them, and between two decode steps, the session looks at its commands. A phase that
fails in a way the device survives can be tried again; everything measured so far has been told already.
"""

import math
from collections.abc import Callable
from typing import Literal

import msgspec
import torch

from ..commands import AnyCommand, Cancel, Pause, Quit, Resume, RunAll, RunPhase, SetMode, Verify
from ..events import Event, PhaseEnd, PhaseId, RunStateName, Status, Verification
from ..phases import PHASE_BY_ID
from ..settings import Mode, RunSettings
from .decoding import Decoding
from .experiments import Experimenter
from .failures import EngineError, error_from, exit_code
from .inbox import CommandQueue
from .lab import Lab
from .ledger import Ledger
from .measured import Meter
from .opening import Opening, open_run
from .proof import verify_run
from .recovery import Recovery
from .sequence import PhaseSequence
from .workflow import Workflow

SPEED_STEPS = 64
SPEED_S = 3.0
"""What a run of all phases spends on the speed of each eager mode: so many steps or seconds, whichever is less."""

Emit = Callable[[Event], None]


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
        self._opening = opening
        self._device = opening.device
        self._commands = commands
        self._sink = emit
        self._ends: dict[PhaseId, PhaseEnd] = {}
        self._ledger = Ledger(opening.device, opening.read_processes)
        self._meter = Meter(opening.device, self._ledger, self._emit)
        self.workflow = Workflow(self.settings, opening.plan, opening.device, self._ledger, self._emit)
        self.decoding = Decoding(self.settings, opening.device, self.workflow, self._meter, self._emit)
        self._phases = PhaseSequence(
            self.settings, opening.device, self.workflow, self.decoding, self._meter, self._emit
        )
        self._recovery = Recovery(self.settings, opening.device, self.workflow, self._emit)
        self._verification: Verification | None = None
        self._run_to: Literal["replay", "release"] | None = None
        self._over = False
        self._experimenter = Experimenter(self._lab(), commands, self._tell_status)

    @property
    def next_phase(self) -> PhaseId | None:
        """The phase that `RunPhase` would run."""
        return self._phases.next_phase

    def serve(self) -> int:
        """Handle commands until `Quit` or the end of a run of all phases; returns the exit code."""
        self._tell_status()
        while True:
            command = self._wait()
            if isinstance(command, Quit):
                return 0
            headless = command is None and self._run_to == "release"
            try:
                if command is not None:
                    self.handle(command)
                elif self._run_to is not None:
                    self._run_on()
            except Exception as exception:  # such as an error of the device that shows only now
                self._decoding_failed(exception)
            if self._over or (headless and self._run_to is None):
                return self._exit_code()

    def _wait(self) -> AnyCommand | None:
        """The next command; decodes while none waits, and returns none where phases are to be run meanwhile."""
        if self._run_to is not None:
            return self._commands.get_nowait()
        if not self.decoding.active:
            return self._commands.get()
        mode = self.decoding.mode
        try:
            command = self.decoding.until_command(self._commands)
        except Exception as exception:
            self._decoding_failed(exception)
            return None
        if self.decoding.mode != mode:
            self._tell_status()
        return command

    def handle(self, command: AnyCommand) -> None:
        """Carry out one command."""
        self._run_to = None
        if self._recovery.dead:
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
                self._tell_status() if self.decoding.pause() else self._refuse(command, "nothing is decoding")
            case Resume():
                self._tell_status() if self.decoding.resume() else self._refuse(command, "nothing is paused")
            case Verify():
                self._verify_command(command)
            case Cancel():
                self._refuse(command, "no sweep, bench or check is running")
            case Quit():
                self._over = True
            case _:
                self._experiment(command)

    def _emit(self, event: Event) -> None:
        if isinstance(event, PhaseEnd):
            self._ends[event.phase] = event
        self._sink(event)

    def _exit_code(self) -> int:
        if self._recovery.exit_code:
            return self._recovery.exit_code
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
            if not headless and not self.decoding.active:
                self._decode_on()
            return
        if self.next_phase == "release":
            self._take_speeds()
            if self._run_to is None:  # one of them failed
                return
        if self._recovery.dead or not self._run_next():
            self._run_to = None
        elif self.decoding.in_replay_phase and headless:
            self._stretch(self.settings.tokens)
        elif self.decoding.active:
            self._run_to = None
            self._tell_status()

    def _decode_on(self) -> None:
        """Where no replay can be: go on in the best mode there is."""
        modes: tuple[Mode, ...] = (self.settings.mode, "graph", "eager")
        mode = next((mode for mode in modes if self.decoding.can(mode)), None)
        if mode is not None:
            self.decoding.start(mode)
        self._tell_status()

    def _take_speeds(self) -> None:
        """A stretch of each eager mode, so that a run of all phases tells every speed."""
        modes: tuple[Mode, ...] = ("eager", "dynamic")
        before = self._recovery.count
        for mode in modes:
            if self._recovery.count == before and self.decoding.can(mode):
                self.decoding.start(mode)
                self._stretch(SPEED_STEPS, SPEED_S)
        self.decoding.stop()

    def _stretch(self, steps: int, seconds: float = math.inf) -> None:
        try:
            self.decoding.stretch(steps, seconds)
        except Exception as exception:
            self._decoding_failed(exception)

    def _run_next(self) -> bool:
        """Run the next phase, and verify what it captured; False if it failed."""
        phase = self.next_phase
        self.decoding.stop()
        self._tell_status("running", phase)
        try:
            self._phases.run_next(headless=self._run_to == "release")
        except Exception as exception:
            self._failed(exception, phase)
            return False
        if phase == "capture" and self.workflow.captured is not None and self.settings.verify_steps:
            self._verify()
        self._tell_status()
        return not self._recovery.dead

    def _run_up_to(self, phase: PhaseId) -> bool:
        """For an experiment: every phase that is left up to this one; False if one failed."""
        while self._phases.is_before(phase):
            if self._recovery.dead or not self._run_next():
                return False
            if self.decoding.in_replay_phase:
                before = self._recovery.count
                self._stretch(self.settings.tokens)
                if self._recovery.count != before:
                    return False
        self.decoding.stop()
        return not self._recovery.dead

    def _set_mode(self, command: SetMode) -> None:
        if command.mode == "graph" and self.next_phase == "replay" and self._device.capture_refusal is None:
            self._run_next()
            self.decoding.go_on_in = None
            return
        try:
            self.decoding.start(command.mode)
        except EngineError as reason:
            self._refuse_for(command, reason)
        else:
            self.decoding.go_on_in = None  # whatever was to come after the replay phase: this was asked for since
            self._tell_status()

    def _verify_command(self, command: Verify) -> None:
        if self.workflow.captured is None:
            self._refuse(command, self._device.capture_refusal or "capture a graph first")
            return
        if self.workflow.rebound is not None:
            self._refuse(command, "the input is rebound: mend it first (b)")
            return
        if not self.settings.verify_steps:
            self._refuse(command, "this run was started without verification (--verify-steps 0): R starts anew")
            return
        self.decoding.stop()
        self._tell_status("running", "capture")
        self._verify()
        self._tell_status()

    def _verify(self) -> None:
        self._verification = None
        self.decoding.set_valid(False)  # until it is proven
        try:
            self._verification = verify_run(self.workflow)
        except Exception as exception:
            self._failed(exception, "capture")
            return
        self._emit(self._verification)
        self.decoding.set_valid(self._verification.verdict != "mismatch")

    # --------------------------------------------------------------------------------------------------- experiments

    def _experiment(self, command: AnyCommand) -> None:
        """Decoding rests afterwards; where the experiment is refused it goes on as before."""
        before, paused = self.decoding.mode_to_be, self.decoding.paused
        self.decoding.stop()
        try:
            self._experimenter.carry_out(command)
        except EngineError as reason:
            if reason.kind == "settings" and reason.recoverable:
                if before is not None and self.decoding.can(before) and not self._recovery.dead:
                    self.decoding.start(before)
                    if paused:
                        self.decoding.pause()
                self._refuse_for(command, reason)
                return
            self._failed(reason, None)
        except Exception as exception:
            self._failed(exception, None)
        self._tell_status()

    def _lab(self) -> Lab:
        return Lab(
            settings=self.settings,
            facts=self._opening.hello.device,
            device=self._device,
            ledger=self._ledger,
            workflow=self.workflow,
            emit=self._emit,
            cancelled=lambda: self._commands.holds(Cancel, Quit),
            run_phases=self._run_up_to,
            telemetry=self._opening.telemetry,
            phase_ends=lambda: self._ends,
            verification=lambda: self._verification,
        )

    # ------------------------------------------------------------------------------------------- failures and status

    def _decoding_failed(self, exception: Exception) -> None:
        self._failed(exception, "replay" if self.decoding.mode == "graph" else None)

    def _failed(self, exception: Exception, phase: PhaseId | None) -> None:
        """Tell what happened with the figures of that moment, then let go of what it left, and go on from there."""
        error = self._recovery.read(exception, phase)
        if self.decoding.in_replay_phase:
            self._phases.go_back_to("replay")
        self._run_to = None
        self.decoding.drop()
        self._recovery.take(error, exception)
        self._tell_status("failed", phase)

    def _tell_status(self, state: RunStateName | None = None, phase: PhaseId | None = None) -> None:
        self._emit(self._status(state, phase))

    def _status(self, state: RunStateName | None = None, phase: PhaseId | None = None) -> Status:
        if state is None:
            state = "decoding" if self.decoding.active else "paused" if self.decoding.paused else "idle"
            if self._run_to is not None or self._experimenter.at_work is not None:
                state = "running"
            if self.next_phase is None:
                state = "released"
            if self._recovery.dead:
                state = "failed"
        return Status(
            state=state,
            mode=self.decoding.mode,
            phase=phase,
            next_phase=self.next_phase,
            tainted_bytes=self.workflow.tainted_bytes,
            experiment=self._experimenter.at_work,
        )

    def _refuse_for(self, command: AnyCommand, reason: EngineError) -> None:
        self._refuse(command, f"{reason.headline}; {reason.hint}" if reason.hint else reason.headline)

    def _refuse(self, command: AnyCommand, why: str) -> None:
        name = str(type(command).__struct_config__.tag)
        self._emit(msgspec.structs.replace(self._status(), refused=name, why=why))
