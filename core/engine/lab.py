"""What an experiment works with: the run as it stands, the device, and a word for when to stop.

Experiments (demonstrations, sweeps, comparisons, checks) run on the GPU thread between two commands, with no step in
flight. Each is a function of its command and a `Lab`; it emits its rows as they are measured, looks at `cancelled`
between them, and leaves the decode state as it found it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..events import DeviceInfo, Event, PhaseEnd, PhaseId, Telemetry, Verification
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
    phase_ends: Callable[[], Mapping[PhaseId, PhaseEnd]] = dict
    """What each phase of this run has told at its end."""
    verification: Callable[[], Verification | None] = lambda: None
    """The last verdict on the graph; None: there is none."""
