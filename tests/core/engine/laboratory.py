"""A lab on a driven session, with an NVML that a test makes up."""

import dataclasses
from collections.abc import Callable, Iterable

from cgtop.core.commands import RunPhase
from cgtop.core.engine.lab import Lab
from cgtop.core.events import PhaseEnd, Telemetry, Verification
from cgtop.core.settings import RunSettings
from tests.core.engine.driving import Driven

CAPTURED = 7
"""Phases up to capture."""


def captured(settings: RunSettings) -> Driven:
    """A session that pretends to have captured its step."""
    driven = Driven(settings, pretend=True)
    driven.run(*[RunPhase() for _ in range(CAPTURED)])
    return driven


def lab_of(driven: Driven, telemetry: Callable[[], Telemetry] = Telemetry, **changes: object) -> Lab:
    """What the session's experiments work with, but for NVML."""
    return dataclasses.replace(
        driven.session._lab(),
        telemetry=telemetry,
        phase_ends=lambda: {end.phase: end for end in driven.of(PhaseEnd)},
        verification=lambda: next(reversed(driven.of(Verification)), None),
        **changes,  # type: ignore[arg-type]
    )


def readings(made_up: Iterable[Telemetry]) -> Callable[[], Telemetry]:
    """These readings in turn; the last one for ever."""
    left = list(made_up)

    def read() -> Telemetry:
        return left.pop(0) if len(left) > 1 else left[0]

    return read
