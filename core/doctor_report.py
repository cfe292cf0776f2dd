"""What `cgtop doctor` found, as data: written by `core.engine.doctor` in a process that may import torch, read by one
that does not.
"""

from typing import Literal

import msgspec

CheckStatus = Literal["PASS", "WARN", "FAIL", "n/a"]
CheckName = Literal[
    "packages",
    "cuda",
    "architecture",
    "nvml",
    "card",
    "own pid",
    "cuda.bindings",
    "pynvml package",
    "environment",
]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `todo` is empty where nothing needs to be done."""

    name: CheckName
    status: CheckStatus
    value: str = ""
    """What was found."""
    why: str = ""
    """What it means here."""
    todo: str = ""


class DoctorDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A card as NVML sees it, MIG instances included; bytes by NVML. None is unknown."""

    name: str | None = None
    uuid: str | None = None
    capability: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    memory_reason: str = ""
    """Why the sizes are unknown."""
    memory_bandwidth_bytes_s: float | None = None
    """Theoretical."""


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """Versions (None: not installed), cards, what the torch build has code for, and the checks in the order to read."""

    versions: dict[str, str | None] = {}
    devices: tuple[DoctorDevice, ...] = ()
    architectures: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    """Variables that change what is measured, as found."""
    checks: tuple[Check, ...] = ()

    def check(self, name: CheckName) -> Check | None:
        """The check of this name."""
        return next((check for check in self.checks if check.name == name), None)


def what_works(report: DoctorReport) -> tuple[str, ...]:
    """Three lines: live on a GPU, live on the CPU, recordings; each yes or no, and why."""
    packages = _in_the_way(report, ("packages",))
    gpu = packages or _in_the_way(report, ("cuda", "architecture"))
    return (
        f"live on a GPU: no: {gpu}" if gpu else f"live on a GPU: yes{_on(report)}",
        f"live on the CPU: no: {packages}" if packages else "live on the CPU: yes, without capture and replay",
        "recordings: yes",
    )


def gpu_works(report: DoctorReport) -> bool:
    """Whether a live run on a GPU can start."""
    return not _in_the_way(report, ("packages", "cuda", "architecture"))


def decode_report(data: bytes) -> DoctorReport:
    """The report of one line of JSON. Raises `ValueError` for anything else."""
    return _decoder.decode(data)


_decoder = msgspec.json.Decoder(DoctorReport)


def _in_the_way(report: DoctorReport, names: tuple[CheckName, ...]) -> str:
    """Why the first of these checks that failed, or could not be made, failed; empty if none did."""
    for name in names:
        check = report.check(name)
        if check is None:
            return f"{name} was not checked"
        if check.status == "FAIL":
            return check.why or check.value or name
    return ""


def _on(report: DoctorReport) -> str:
    names = [device.name or "a GPU without a name" for device in report.devices]
    return (
        f", {len(names)} × {names[0]}" if len(set(names)) == 1 and len(names) > 1 else "".join(f", {n}" for n in names)
    )
