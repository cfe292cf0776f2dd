"""What an experiment works with: the run as it stands, the device, and a word for when to stop.

Experiments (demonstrations, sweeps, comparisons, checks) run on the GPU thread between two commands, with no step in
flight. Each is a function of its command and a `Lab`; it emits its rows as they are measured, looks at `cancelled`
between them, and leaves the decode state as it found it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..events import DeviceInfo, Event, PhaseId, Telemetry
from ..settings import RunSettings
from .devices import Device
from .ledger import Ledger
from .workflow import Workflow


@dataclass(frozen=True)
class Lab:
    """The run that an experiment is made in."""

    settings: RunSettings
    facts: DeviceInfo
    device: Device
    ledger: Ledger
    workflow: Workflow
    emit: Callable[[Event], None]
    cancelled: Callable[[], bool]
    """Whether it was told to stop; asked between two rows or rounds."""
    run_phases: Callable[[PhaseId], bool]
    """Run every phase that is left up to and including this one; False if one failed."""
    telemetry: Callable[[], Telemetry]
    """One reading of NVML now, every field optional."""
