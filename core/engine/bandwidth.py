"""What the memory system really moves: device-to-device copies, and host-to-device copies over the link.

Copies of the device count what they read and what they write. Everything is timed by CUDA events on one stream; a
device without them gives None, never 0.
"""

from collections.abc import Callable, Iterable
from statistics import median
from typing import NamedTuple

import torch

from ..events import Telemetry
from ..memory_map import GIB, MIB
from .devices import Device, now

COPY_BYTES = 1 * GIB
LEAST_COPY_BYTES = 256 * MIB
"""Smaller ones may stay in a level 2 cache and tell nothing of the memory behind it."""
WARM_COPIES = 200
"""Some 0.1 s on a fast card: enough for its clocks to rise."""
TIMED_COPIES = 20
HOST_BYTES = 64 * MIB
HOST_COPIES = 16
"""Enqueued together: the link is busy while NVML is asked about it."""


def copy_bandwidth(device: Device, stream: torch.cuda.Stream | None) -> float | None:
    """Bytes a second, read plus written, of large copies inside the device's memory: the median of `TIMED_COPIES`.

    None where there is no CUDA device or not the memory for two buffers. Gives the buffers back to the driver.
    """
    memory = device.free_and_total()
    if device.kind != "cuda" or memory is None:
        return None
    size = min(COPY_BYTES, memory[0] // 4 // MIB * MIB)
    if size < LEAST_COPY_BYTES:
        return None
    try:
        seconds = _timed_copies(device, stream, size)
    except torch.OutOfMemoryError:
        return None
    finally:
        device.empty_cache()
    return 2 * size / seconds


def _timed_copies(device: Device, stream: torch.cuda.Stream | None, size: int) -> float:
    with device.on(stream):
        source = torch.zeros(size, dtype=torch.uint8, device=device.torch_device)
        target = torch.empty_like(source)
        for _ in range(WARM_COPIES):
            target.copy_(source)
        timers = [_Timer() for _ in range(TIMED_COPIES)]
        for timer in timers:
            with timer:
                target.copy_(source)
    device.synchronize()
    return median(timer.seconds() for timer in timers)


class LinkReading(NamedTuple):
    """The PCIe link while data came over it; a figure that NVML does not give is None."""

    bytes_s: float
    """Host to device, from pinned memory."""
    gen: int | None = None
    width: int | None = None
    gen_max: int | None = None
    width_max: int | None = None
    reason: str = ""


def link_under_load(
    device: Device, stream: torch.cuda.Stream | None, telemetry: Callable[[], Telemetry], seconds: float = 0.4
) -> LinkReading | None:
    """Copy from the host for about `seconds` and ask NVML meanwhile; the best that was seen. None without CUDA.

    An idle link saves power by a lower generation, so it is only worth asking about under load.
    """
    if device.kind != "cuda":
        return None
    host = device.host_buffer((HOST_BYTES,), torch.uint8)
    with device.on(stream):
        target = torch.empty(HOST_BYTES, dtype=torch.uint8, device=device.torch_device)
    readings: list[Telemetry] = []
    rates: list[float] = []
    end = now() + seconds
    while not readings or now() < end:
        timer = _Timer()
        with device.on(stream), timer:
            for _ in range(HOST_COPIES):
                target.copy_(host, non_blocking=True)
        readings.append(telemetry())
        device.synchronize()
        rates.append(HOST_COPIES * HOST_BYTES / timer.seconds())
    del target
    device.empty_cache()
    return LinkReading(
        bytes_s=median(rates),
        gen=_best(reading.pcie_gen for reading in readings),
        width=_best(reading.pcie_width for reading in readings),
        gen_max=_best(reading.pcie_gen_max for reading in readings),
        width_max=_best(reading.pcie_width_max for reading in readings),
        reason=readings[-1].reasons.get("pcie_gen", "") or next(iter(readings[-1].reasons.values()), ""),
    )


def _best(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


class _Timer:
    """Times what is enqueued on the current stream inside a `with`; read it after a synchronise."""

    def __init__(self) -> None:
        self._begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def __enter__(self) -> None:
        self._begin.record()

    def __exit__(self, *_: object) -> None:
        self._end.record()

    def seconds(self) -> float:
        return float(self._begin.elapsed_time(self._end)) / 1000
