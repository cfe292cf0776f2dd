"""A worker's session that also writes when each decode step came back, for benchmarks of what disturbs it.

The times are seconds of the system's monotonic clock, which all processes share, as doubles in the file that
`CGTOP_BENCH_STEPS` names.
"""

import os
import struct
import time
from array import array
from pathlib import Path

from cgtop.core.engine import session as engine
from cgtop.core.engine.decode import Speedometer
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.settings import RunSettings

VARIABLE = "CGTOP_BENCH_STEPS"


def session(settings: RunSettings, commands: CommandQueue, emit: engine.Emit) -> int:
    """The engine's own session, with a note for each step."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    original = Speedometer.count

    def count(self: Speedometer) -> float:
        os.write(file, struct.pack("d", time.monotonic()))
        return original(self)

    Speedometer.count = count  # type: ignore[method-assign]
    return engine.run_session(settings, commands, emit)


def read(path: Path) -> "array[float]":
    """The times so far."""
    times: array[float] = array("d")
    data = path.read_bytes()
    times.frombytes(data[: len(data) // times.itemsize * times.itemsize])
    return times
