"""NVML at 1-2 Hz as `Telemetry` events, on a thread of its own that makes no CUDA call."""

import threading
from collections.abc import Callable
from typing import TypeVar

from ..events import Event, Telemetry
from .nvml import Match, Nvml, shared_nvml
from .nvml_card import Card
from .nvml_library import Reading

T = TypeVar("T")
HZ_MIN, HZ_MAX = 0.1, 2.0


def telemetry_loop(
    device: str,
    emit: Callable[[Event], None],
    stop: threading.Event,
    *,
    hz: float = 1.0,
    nvml: Nvml | None = None,
) -> None:
    """Emit a `Telemetry` event `hz` times a second until `stop` is set. Never raises, never makes a CUDA context.

    `device` as in `RunSettings`. Without NVML, or on the CPU, one event with the reason, and the loop ends. While the
    card is not known for certain there is one event with the reason; the loop goes on as soon as a context is announced
    (`Nvml.announce`). The time of the events is left to `emit`.
    """
    try:
        _loop(device, emit, stop, 1 / min(max(hz, HZ_MIN), HZ_MAX), nvml)
    except Exception:  # A sink that is gone takes nothing more; the run must not suffer from its instruments.
        return


def reading(index: int, nvml: Nvml) -> Telemetry:
    """One reading of the card of CUDA device `index`, now; without a certain match only the reason. Never raises."""
    match = nvml.match(index)
    if match.card is None:
        return _unmatched(match)
    return _safe_sample(match.card, match.by, nvml.has_context(index))


def device_index(device: str) -> int | None:
    """CUDA's index in a setting for a device ("auto" and "cuda" are 0); None for the CPU."""
    if device in ("auto", "cuda"):
        return 0
    number = device.removeprefix("cuda:")
    return int(number) if device.startswith("cuda:") and number.isdecimal() else None


def sample(card: Card, matched_by: str | None, *, has_context: bool) -> Telemetry:
    """Everything that NVML says of a card now; `reasons` names each field that is missing."""
    reasons: dict[str, str] = {}

    def take(name: str, reading: Reading[T]) -> T | None:
        if reading.value is None:
            reasons[name] = reading.reason
        return reading.value

    memory_reading = card.memory()
    memory = memory_reading.value
    for name in ("used_bytes", "free_bytes", "total_bytes") if memory is None else ():
        reasons[name] = memory_reading.reason
    if memory is None or memory.reserved_bytes is None:
        reasons["reserved_bytes"] = memory_reading.reason or "only the v2 interface tells it, and it is not there"
    gpu, controller = card.utilization()
    processes = card.process_bytes(has_context=has_context)
    if processes.reason:
        reasons["processes"] = processes.reason
    pcie = card.pcie()
    return Telemetry(
        used_bytes=memory.used_bytes if memory else None,
        free_bytes=memory.free_bytes if memory else None,
        total_bytes=memory.total_bytes if memory else None,
        reserved_bytes=memory.reserved_bytes if memory else None,
        memory_api=memory.api if memory else None,
        gpu_percent=take("gpu_percent", gpu),
        memory_percent=take("memory_percent", controller),
        sm_mhz=take("sm_mhz", card.sm_mhz()),
        memory_mhz=take("memory_mhz", card.memory_mhz()),
        power_w=take("power_w", card.power_w()),
        power_limit_w=take("power_limit_w", card.power_limit_w()),
        temperature_c=take("temperature_c", card.temperature_c()),
        throttle=take("throttle", card.throttle()),
        pcie_gen=take("pcie_gen", pcie["pcie_gen"]),
        pcie_width=take("pcie_width", pcie["pcie_width"]),
        pcie_gen_max=take("pcie_gen_max", pcie["pcie_gen_max"]),
        pcie_width_max=take("pcie_width_max", pcie["pcie_width_max"]),
        processes=processes.processes,
        pid_hidden=processes.pid_hidden,
        matched_by=matched_by,
        reasons=reasons,
    )


def _loop(device: str, emit: Callable[[Event], None], stop: threading.Event, period: float, nvml: Nvml | None) -> None:
    index = device_index(device)
    if index is None:
        emit(Telemetry(reasons={"nvml": "the run is on the CPU"}))
        return
    nvml = nvml if nvml is not None else shared_nvml()
    if nvml.reason:
        emit(Telemetry(reasons={"nvml": nvml.reason}))
        return
    unmatched: Telemetry | None = None
    while not stop.is_set():
        match = nvml.match(index)
        if match.card is not None:
            emit(_safe_sample(match.card, match.by, nvml.has_context(index)))
            unmatched = None
        elif (event := _unmatched(match)) != unmatched:
            emit(event)
            unmatched = event
        stop.wait(period)


def _safe_sample(card: Card, by: str | None, has_context: bool) -> Telemetry:
    try:
        return sample(card, by, has_context=has_context)
    except Exception as error:
        return Telemetry(matched_by=by, reasons={"nvml": f"reading failed: {type(error).__name__}: {error}"})


def _unmatched(match: Match) -> Telemetry:
    return Telemetry(reasons={"card": f"unmatched: {match.reason}"})
