"""A stand-in for the module `pynvml`: cards made up by the test, errors raised by name, calls counted.

Constants and exceptions are the real module's; a function that is not defined here is missing, as in an older one.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

from cgtop.core.memory_map import GIB, MIB

NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 3, 4, 13, 15, 999
ERRORS = (NOT_SUPPORTED, NO_PERMISSION, UNKNOWN, GPU_IS_LOST, FUNCTION_NOT_FOUND)
CARD_CALLS = (
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
)
SYSTEM_CALLS = ("nvmlDeviceGetCount", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")


@dataclass(eq=False)
class FakeCard:
    uuid: str
    pci: tuple[int, int, int] = (0, 0x17, 0)
    name: str = "NVIDIA Sample GPU"
    capability: tuple[int, int] = (9, 0)
    total: int = 140 * GIB
    used: int = 3 * GIB
    reserved: int = 600 * MIB
    compute: list[tuple[int, int | None]] = field(default_factory=list)
    """(pid, bytes)"""
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    throttle: int = 0
    ecc: tuple[int, int] = (0, 0)
    """Uncorrected errors: since the driver was loaded, over the card's life."""
    max_memory_mhz: int = 3201
    bus_width: int = 6144
    mig: list["FakeCard"] = field(default_factory=list)


class FakeNvml:
    """`fail` maps a function's name (or (name, version) of memory info) to the NVML error code that it raises."""

    def __init__(self, *cards: FakeCard, fail: dict[Any, int] | None = None, cuda: int = 13000) -> None:
        self.cards = cards
        self.fail = dict(fail or {})
        self.cuda = cuda
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvmlMemory") or not name.startswith("nvml"):
            return getattr(pynvml, name)
        implementation = _FUNCTIONS.get(name)
        if implementation is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            code = self.fail.get(name) or self.fail.get((name, len(arguments)))
            if code is not None:
                raise pynvml.NVMLError(code)
            return implementation(self, *arguments)

        return call


def _memory(nvml: FakeNvml, card: FakeCard, version: int | None = None) -> SimpleNamespace:
    free = card.total - card.used - card.reserved
    used = card.used if version else card.used + card.reserved
    return SimpleNamespace(total=card.total, free=free, used=used, reserved=card.reserved)


def _processes(entries: list[tuple[int, int | None]]) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=size, gpuInstanceId=0xFFFFFFFF) for pid, size in entries]


def _instance(nvml: FakeNvml, card: FakeCard, index: int) -> FakeCard:
    if index >= len(card.mig):
        raise pynvml.NVMLError(6)
    return card.mig[index]


_FUNCTIONS: dict[str, Any] = {
    "nvmlInit": lambda nvml: None,
    "nvmlDeviceGetCount": lambda nvml: len(nvml.cards),
    "nvmlSystemGetDriverVersion": lambda nvml: "580.159.04",
    "nvmlSystemGetCudaDriverVersion_v2": lambda nvml: nvml.cuda,
    "nvmlSystemGetCudaDriverVersion": lambda nvml: nvml.cuda,
    "nvmlDeviceGetHandleByIndex": lambda nvml, index: nvml.cards[index],
    "nvmlDeviceGetName": lambda nvml, card: card.name,
    "nvmlDeviceGetUUID": lambda nvml, card: card.uuid,
    "nvmlDeviceGetPciInfo": lambda nvml, card: SimpleNamespace(domain=card.pci[0], bus=card.pci[1], device=card.pci[2]),
    "nvmlDeviceGetMigMode": lambda nvml, card: [int(bool(card.mig)), 0],
    "nvmlDeviceGetMaxMigDeviceCount": lambda nvml, card: 7,
    "nvmlDeviceGetMigDeviceHandleByIndex": _instance,
    "nvmlDeviceGetCudaComputeCapability": lambda nvml, card: card.capability,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetComputeRunningProcesses_v3": lambda nvml, card: _processes(card.compute),
    "nvmlDeviceGetComputeRunningProcesses_v2": lambda nvml, card: _processes(card.compute),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": lambda nvml, card: _processes(card.graphics),
    "nvmlDeviceGetGraphicsRunningProcesses_v2": lambda nvml, card: _processes(card.graphics),
    "nvmlDeviceGetUtilizationRates": lambda nvml, card: SimpleNamespace(gpu=97, memory=31),
    "nvmlDeviceGetClockInfo": lambda nvml, card, kind: {1: 1980, 2: card.max_memory_mhz}[kind],
    "nvmlDeviceGetMaxClockInfo": lambda nvml, card, kind: {1: 1980, 2: card.max_memory_mhz}[kind],
    "nvmlDeviceGetMemoryBusWidth": lambda nvml, card: card.bus_width,
    "nvmlDeviceGetPowerUsage": lambda nvml, card: 350_500,
    "nvmlDeviceGetEnforcedPowerLimit": lambda nvml, card: 700_000,
    "nvmlDeviceGetPowerManagementLimit": lambda nvml, card: 650_000,
    "nvmlDeviceGetTemperatureV": lambda nvml, card, sensor: 40,
    "nvmlDeviceGetTemperature": lambda nvml, card, sensor: 41,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda nvml, card: card.throttle,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda nvml, card: card.throttle,
    "nvmlDeviceGetTotalEccErrors": lambda nvml, card, kind, counter: card.ecc[counter] if kind == 1 else 0,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda nvml, card: 5,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda nvml, card: 16,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda nvml, card: 5,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda nvml, card: 16,
}
