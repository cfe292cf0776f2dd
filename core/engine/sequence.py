"""The phases in their order: which comes next, and running it between its two readings of the counters."""

from collections.abc import Callable

from ..events import Event, Log, PhaseEnd, PhaseId
from ..phases import PHASE_BY_ID, PHASE_IDS
from ..settings import RunSettings
from .decoding import Decoding
from .devices import Device
from .measured import Meter
from .workflow import Workflow


class PhaseSequence:
    """Where a run is in its phases. For the GPU thread."""

    def __init__(
        self,
        settings: RunSettings,
        device: Device,
        workflow: Workflow,
        decoding: Decoding,
        meter: Meter,
        emit: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._device = device
        self._workflow = workflow
        self._decoding = decoding
        self._meter = meter
        self._emit = emit
        self._index = 0

    @property
    def next_phase(self) -> PhaseId | None:
        """The phase that would run; null after the last."""
        return PHASE_IDS[self._index] if self._index < len(PHASE_IDS) else None

    def is_before(self, phase: PhaseId) -> bool:
        """Whether this phase has not been run yet."""
        return self._index <= PHASE_IDS.index(phase)

    def go_back_to(self, phase: PhaseId) -> None:
        """Run this phase again, and those behind it."""
        self._index = PHASE_IDS.index(phase)

    def run_next(self, *, headless: bool) -> None:
        """Run the next phase, or tell why this device has none such. Raises what the phase raises.

        The replay phase only begins here: decoding ends it. `headless`: nobody watches, so it goes on in no other mode.
        """
        phase = self.next_phase
        assert phase is not None
        refusal = self._device.capture_refusal if PHASE_BY_ID[phase].needs_cuda else None
        if refusal is not None:
            left_out = self._left_out() if phase == "capture" else ""
            self._emit(PhaseEnd(phase=phase, status="unavailable", reason=refusal + left_out))
        else:
            self._run(phase, headless=headless)
        self._index += 1

    def _run(self, phase: PhaseId, *, headless: bool) -> None:
        if phase == "release":
            self._decoding.close()
        span = self._meter.begin(phase)
        if phase == "replay":
            self._decoding.go_on_in = None if headless or self._settings.mode == "graph" else self._settings.mode
            self._decoding.start_replay_phase(span)
            return
        self._meter.done(span, self._workflow.run(phase))
        if phase == "load":
            self._decoding.open()
        if phase == "capture" and self._settings.memory_snapshot:
            self._write_snapshot(self._settings.memory_snapshot)

    def _left_out(self) -> str:
        """What was asked for and goes with the capture, as the rest of a sentence."""
        asked = (
            (self._settings.memory_snapshot is not None, "no memory snapshot is written"),
            (self._settings.inject_fault != "none", "there is no replay to corrupt"),
        )
        return "".join(f"; {what}" for wanted, what in asked if wanted)

    def _write_snapshot(self, path: str) -> None:
        try:
            written = self._device.write_snapshot(path)
        except OSError as problem:
            self._emit(Log(source="engine", text=f"the memory snapshot was not written: {problem}"))
            return
        text = f"memory snapshot written to {path}" if written else "a CPU has no memory snapshot to write"
        self._emit(Log(source="engine", text=text))
