"""What a session does about an exception: tell it with the device's figures, tidy up, and bring the caches back."""

import gc

import msgspec

from ..events import Error, Log, PhaseId
from ..settings import RunSettings
from .devices import Device
from .failures import error_from, exit_code
from .workflow import Emit, Workflow


class Recovery:
    """Errors of one session. For the GPU thread."""

    def __init__(self, settings: RunSettings, device: Device, workflow: Workflow, emit: Emit) -> None:
        self._settings = settings
        self._device = device
        self._workflow = workflow
        self._emit = emit
        self.count = 0
        """Errors so far."""
        self.exit_code = 0
        """Of the first one."""
        self.dead = False
        """Whether the device is lost to this process."""

    def read(self, exception: Exception, phase: PhaseId | None) -> Error:
        """The error, with the device's figures as far as they can still be read."""
        error = error_from(exception, phase, settings=self._settings)
        if error.kind == "device_lost" or phase == "context":
            return error
        try:
            free, reserved = self._device.free_and_total(), self._device.counters().reserved
        except Exception as second:
            self._emit(Log(source="engine", text=f"counters are lost as well: {second}"))
            return error
        free_bytes = None if free is None else free[0]
        return error_from(exception, phase, free=free_bytes, reserved=reserved, settings=self._settings)

    def take(self, error: Error, exception: Exception) -> None:
        """Tell an error, and let go of what the failed phase had allocated, as far as the device lives."""
        self._emit(error)
        self.count += 1
        self.exit_code = self.exit_code or exit_code(error.kind)
        self.dead = self.dead or not error.recoverable
        exception.__traceback__ = None
        gc.collect()
        if error.recoverable:
            self._bring_back()

    def _bring_back(self) -> None:
        """The caches go back to where every layer agrees; a device that cannot do that is lost."""
        try:
            self._device.empty_cache()
            self._workflow.recover()
        except Exception as second:
            error = error_from(second, None, settings=self._settings)
            self._emit(msgspec.structs.replace(error, recoverable=False))
            self.dead = True
