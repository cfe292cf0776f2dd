"""One card as NVML sees it. Every reading is a value or the reason why there is none; nothing here raises."""

import os
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from ..events import Process
from .nvml_library import NOT_SUPPORTED, Library, Reading, as_int, as_text, field, unreadable
from .visible_devices import CardId

MemoryApi = Literal["v2", "v1"]


class MemoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """The card's memory in bytes by NVML, which counts other things than CUDA: never mix the two in one sum.

    v1 counts what the driver reserves as used; v2 gives it on its own.
    """

    total_bytes: int
    free_bytes: int
    used_bytes: int
    reserved_bytes: int | None = None
    api: MemoryApi


class ProcessReading(msgspec.Struct, frozen=True, kw_only=True):
    """The processes on a card. A figure is None where it cannot be known, and `reason` says why."""

    processes: tuple[Process, ...] | None = None
    own_bytes: int | None = None
    others_bytes: int | None = None
    pid_hidden: bool = False
    """This process has a context on the card and NVML does not list its pid."""
    reason: str = ""
    api: str = ""
    """Version of the process interface: "v3" or "v2"."""


class Card:
    """A whole GPU or a MIG instance. Safe to use from several threads."""

    def __init__(
        self, library: Library, handle: object, identity: CardId, parent: "Card | None" = None, broken: str = ""
    ) -> None:
        self.identity = identity
        self.parent = parent
        """The GPU that a MIG instance is a part of."""
        self._broken = broken
        """Why there is no handle: then no call is made."""
        self._library = library
        self._handle = handle
        self._memory_api: MemoryApi | None = None
        self._process_api: str | None = None

    @property
    def uuid(self) -> str | None:
        """As NVML spells it: "GPU-…" or "MIG-…"."""
        return self.identity.uuid

    def name(self) -> Reading[str]:
        """The product's name."""
        return as_text(self._call("nvmlDeviceGetName"))

    def capability(self) -> Reading[tuple[int, int]]:
        """Compute capability, as (9, 0)."""
        reading = self._call("nvmlDeviceGetCudaComputeCapability")
        value = reading.value
        if isinstance(value, tuple | list) and len(value) == 2:
            return Reading((int(value[0]), int(value[1])))
        return self.parent.capability() if self.parent is not None else unreadable(reading)

    def memory(self) -> Reading[MemoryReading]:
        """By v2, or by v1 if v2 is not there; the first that answers is used for the whole run."""
        if self._memory_api != "v1":
            version = self._library.constant("nvmlMemory_v2")
            reading = self._call("nvmlDeviceGetMemoryInfo", version)
            if version is not None and (self._memory_api == "v2" or not reading.missing):
                return self._memory_from(reading, "v2")
        return self._memory_from(self._call("nvmlDeviceGetMemoryInfo"), "v1")

    def integrated(self) -> bool | None:
        """True if the GPU has no memory of its own, inferred from NVML not supporting the question; None: not known."""
        if self._memory_api is not None or self.parent is not None:
            return None
        return True if self._call("nvmlDeviceGetMemoryInfo").code == NOT_SUPPORTED else None

    def process_bytes(self, *, has_context: bool = True) -> ProcessReading:
        """Bytes of each process with a compute or graphics context on this card.

        `has_context`: whether this process has one. Without, a pid that is not listed is no hidden pid, it uses 0 B. A
        pid in both lists is one process, counted once.
        """
        compute = self._processes("Compute")
        if compute.value is None:
            return ProcessReading(reason=f"processes: {compute.reason}")
        graphics = self._processes("Graphics")
        merged: dict[int, dict[int, int | None]] = {}
        for pid, instance, size in (*compute.value, *(graphics.value or ())):
            sizes = merged.setdefault(pid, {})
            sizes[instance] = max(sizes.get(instance) or 0, size) if size is not None else sizes.get(instance)
        own_pid = os.getpid()
        processes = tuple(
            Process(pid=pid, bytes=_sum(sizes.values()), own=pid == own_pid) for pid, sizes in sorted(merged.items())
        )
        return _process_reading(processes, has_context, self._process_api or "")

    def bandwidth(self) -> Reading[float]:
        """Theoretical memory bandwidth in bytes/s: highest memory clock × bus width × 2 (double data rate)."""
        clock = as_int(self._call("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY))
        width = as_int(self._call("nvmlDeviceGetMemoryBusWidth"))
        if not clock.value or not width.value:
            return Reading(reason=clock.reason or width.reason or "NVML gives 0")
        return Reading(2 * clock.value * 1e6 * width.value / 8)

    def utilization(self) -> tuple[Reading[int], Reading[int]]:
        """(GPU, memory controller) in percent of the last sample period."""
        reading = self._call("nvmlDeviceGetUtilizationRates")
        return field(reading, "gpu"), field(reading, "memory")

    def sm_mhz(self) -> Reading[int]:
        """Clock of the multiprocessors now."""
        return as_int(self._call("nvmlDeviceGetClockInfo", _CLOCK_SM))

    def memory_mhz(self) -> Reading[int]:
        """Memory clock now."""
        return as_int(self._call("nvmlDeviceGetClockInfo", _CLOCK_MEMORY))

    def power_w(self) -> Reading[float]:
        """Power drawn, in W."""
        return _thousandth(as_int(self._call("nvmlDeviceGetPowerUsage")))

    def power_limit_w(self) -> Reading[float]:
        """The limit in force, in W."""
        enforced = as_int(self._call("nvmlDeviceGetEnforcedPowerLimit"))
        if enforced.value is None:
            managed = as_int(self._call("nvmlDeviceGetPowerManagementLimit"))
            return _thousandth(managed if managed.value is not None else enforced)
        return _thousandth(enforced)

    def temperature_c(self) -> Reading[int]:
        """Temperature of the GPU in °C."""
        reading = self._call("nvmlDeviceGetTemperatureV", _SENSOR_GPU)
        return as_int(self._call("nvmlDeviceGetTemperature", _SENSOR_GPU) if reading.missing else reading)

    def throttle(self) -> Reading[tuple[str, ...]]:
        """What holds the clocks down now, by name; empty: nothing. An idle GPU's low clock is no throttling."""
        reading = self._call("nvmlDeviceGetCurrentClocksEventReasons")
        if reading.missing:  # Its name before driver 535.
            reading = self._call("nvmlDeviceGetCurrentClocksThrottleReasons")
        bits = as_int(reading)
        return Reading(reason=bits.reason) if bits.value is None else Reading(throttle_names(bits.value))

    def ecc_uncorrected(self) -> tuple[Reading[int], Reading[int]]:
        """Memory errors beyond ECC's correction: (since the driver was loaded, over the card's life)."""
        name = "nvmlDeviceGetTotalEccErrors"
        volatile = as_int(self._call(name, _UNCORRECTED, _SINCE_DRIVER_LOAD))
        return volatile, as_int(self._call(name, _UNCORRECTED, _OVER_LIFE))

    def pcie(self) -> dict[str, Reading[int]]:
        """Generation and width of the link, now and at most."""
        return {field: as_int(self._call(name)) for field, name in _PCIE.items()}

    def _call(self, name: str, *arguments: object) -> Reading[object]:
        if self._broken:
            return Reading(reason=self._broken)
        return self._library.call(name, self._handle, *arguments)

    def _memory_from(self, reading: Reading[object], api: MemoryApi) -> Reading[MemoryReading]:
        total, free, used = (field(reading, name) for name in ("total", "free", "used"))
        if total.value is None or free.value is None or used.value is None:
            return Reading(reason=total.reason, code=total.code)
        if total.value == 0:
            return Reading(reason="NVML gives a total of 0")
        self._memory_api = api
        reserved = field(reading, "reserved").value if api == "v2" else None
        return Reading(
            MemoryReading(
                total_bytes=total.value,
                free_bytes=free.value,
                used_bytes=used.value,
                reserved_bytes=reserved,
                api=api,
            )
        )

    def _processes(self, kind: str) -> Reading[tuple[tuple[int, int, int | None], ...]]:
        """(pid, GPU instance, bytes) of each entry."""
        name = f"nvmlDeviceGet{kind}RunningProcesses_"
        api = self._process_api or "v3"
        reading = self._call(name + api)
        if reading.missing and self._process_api is None:
            api = "v2"
            reading = self._call(name + api)
        if not isinstance(reading.value, list | tuple):
            return unreadable(reading)
        self._process_api = api
        return Reading(tuple(_process_entry(entry) for entry in reading.value))


def throttle_names(bits: int) -> tuple[str, ...]:
    """Names of the bits of `nvmlClocksEventReasons`, an unknown bit as its number; the bit for idle is left out."""
    bits &= ~_IDLE
    names = [name for bit, name in _THROTTLE.items() if bits & bit]
    unknown = bits & ~sum(_THROTTLE)
    return (*names, hex(unknown)) if unknown else tuple(names)


_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2
_SENSOR_GPU: Final = 0
_UNCORRECTED: Final = 1
_SINCE_DRIVER_LOAD: Final = 0
_OVER_LIFE: Final = 1
_IDLE: Final = 0x1
_THROTTLE: Final = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
_PCIE: Final = {
    "pcie_gen": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie_gen_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_width_max": "nvmlDeviceGetMaxPcieLinkWidth",
}


def _process_reading(processes: tuple[Process, ...], has_context: bool, api: str) -> ProcessReading:
    own = next((process for process in processes if process.own), None)
    if own is None and has_context:
        return ProcessReading(
            processes=processes,
            pid_hidden=True,
            reason="NVML does not list this process's pid (as in containers with pids of their own)",
            api=api,
        )
    others = _sum(process.bytes for process in processes if not process.own)
    own_bytes = 0 if own is None else own.bytes
    reason = "" if own_bytes is not None and others is not None else "NVML gives no memory figure for some processes"
    return ProcessReading(processes=processes, own_bytes=own_bytes, others_bytes=others, reason=reason, api=api)


def _process_entry(entry: object) -> tuple[int, int, int | None]:
    size = getattr(entry, "usedGpuMemory", None)
    instance = getattr(entry, "gpuInstanceId", None)
    return int(getattr(entry, "pid", 0)), -1 if instance is None else int(instance), None if size is None else int(size)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _thousandth(reading: Reading[int]) -> Reading[float]:
    return Reading(reason=reading.reason) if reading.value is None else Reading(reading.value / 1000)
