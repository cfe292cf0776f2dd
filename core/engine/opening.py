"""The opening of a run: which device, which model, which versions; all of it before the device is touched."""

import functools
import importlib.metadata
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import torch
import transformers

from ..events import SCHEMA, DeviceInfo, Hello, Telemetry
from ..live import cpu_name
from ..settings import RunSettings
from .decode import POLICY
from .devices import CpuDevice, CudaDevice, Device
from .diagnose import cuda_problem
from .failures import EngineError
from .memory import Processes
from .models import ModelPlan, resolve
from .nvml import Nvml, shared_nvml
from .telemetry import reading

ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG")


class Opening(NamedTuple):
    """What a session starts from."""

    hello: Hello
    device: Device
    plan: ModelPlan
    read_processes: Callable[[], Processes]
    telemetry: Callable[[], Telemetry]


def open_run(settings: RunSettings) -> Opening:
    """Choose device and model. Makes no CUDA context, so that the context phase can measure it.

    Raises `EngineError` where there is no usable device or no such model, `SettingsError` for impossible settings.
    """
    settings = settings.validated()
    device: Device
    telemetry: Callable[[], Telemetry]
    if settings.device == "cpu":
        device = CpuDevice()
        facts = DeviceInfo(kind="cpu", name=cpu_name())
        read_processes = _no_processes
        telemetry = Telemetry
    else:
        problem = cuda_problem(settings.device)
        if problem is not None:
            raise EngineError(problem.kind, problem.headline, problem.hint)
        index = int(settings.device.partition(":")[2] or 0)
        device = CudaDevice(index)
        nvml = shared_nvml()
        facts = _cuda_facts(nvml, index)
        read_processes = _Processes(nvml, index)
        telemetry = functools.partial(reading, index, nvml)
    plan = resolve(settings, facts)
    hello = Hello(
        schema=SCHEMA,
        started_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        versions=versions(facts),
        device=facts,
        model=plan.info,
        settings=settings,
        policies={
            "synchronisation": POLICY,
            "streams": _streams(settings, device),
            "sampling": "greedy, inside the step; the next token is written to the static input inside the step",
        },
        allocator_config=", ".join(f"{name}={os.environ[name]}" for name in ALLOCATOR_VARIABLES if name in os.environ)
        or None,
    )
    return Opening(hello, device, plan, read_processes, telemetry)


def _streams(settings: RunSettings, device: Device) -> str:
    if device.kind == "cpu":
        return "none on a CPU"
    if settings.guide_streams:
        return "the guide's: warmup on the default stream, capture on another"
    return "one non-default stream from prefill on"


def versions(facts: DeviceInfo) -> dict[str, str]:
    """Of everything that a figure depends on."""
    found = {
        "cgtop": importlib.metadata.version("cgtop"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
    }
    if facts.kind == "cuda":
        if torch.version.cuda is not None:
            found["cuda"] = torch.version.cuda
        if facts.driver_version is not None:
            found["driver"] = facts.driver_version
    return found


def _cuda_facts(nvml: Nvml, index: int) -> DeviceInfo:
    """By NVML, completed by what the driver says without a context."""
    facts = nvml.device_info(index)
    if facts is not None and facts.capability is not None:
        return facts
    properties = torch.cuda.get_device_properties(index)
    known = facts or DeviceInfo(kind="cuda", name=properties.name, index=index, driver_version=nvml.driver_version())
    return msgspec.structs.replace(known, name=properties.name, capability=f"{properties.major}.{properties.minor}")


class _Processes:
    """Reads who uses the card; announces the context's own UUID once there is one."""

    def __init__(self, nvml: Nvml, index: int) -> None:
        self._nvml = nvml
        self._index = index

    def __call__(self) -> Processes:
        if not self._nvml.has_context(self._index):
            properties = torch.cuda.get_device_properties(self._index)
            uuid = getattr(properties, "uuid", None)
            self._nvml.announce(self._index, uuid=None if uuid is None else f"GPU-{uuid}")
        match = self._nvml.match(self._index)
        if match.card is None:
            return Processes(reason=match.reason)
        reading = match.card.process_bytes()
        return Processes(own_bytes=reading.own_bytes, others_bytes=reading.others_bytes, reason=reading.reason)


def _no_processes() -> Processes:
    return Processes(reason="a CPU has no NVML")
