"""What `cgtop doctor` found, as a report: what works here, the checks with what to do, versions and cards."""

from ...core.doctor_report import Check, DoctorDevice, DoctorReport, what_works
from ..format import NA, bandwidth, size
from .model import Column, Report, Row, Section, Table, Tone, row, safe_report

TONES: dict[str, Tone] = {"PASS": "good", "WARN": "normal", "FAIL": "bad", "n/a": "quiet"}


def doctor_sections(found: DoctorReport) -> Report:
    """The report of a machine. Pure."""
    todo = tuple(f"{check.name}: {check.todo}" for check in found.checks if check.todo)
    sections = [
        Section(title="What works here", lines=what_works(found)),
        Section(title="Checks", table=_checks(found), notes=todo),
        Section(title="Versions", lines=tuple(f"{name} {is_}" for name, is_ in _versions(found))),
    ]
    if found.devices:
        sections.append(Section(title="Cards, by NVML", lines=tuple(_card(device) for device in found.devices)))
    if found.architectures:
        sections.append(
            Section(title="Architectures that this torch has code for", lines=(" ".join(found.architectures),))
        )
    if found.environment:
        lines = tuple(f"{name}={value}" for name, value in found.environment.items())
        sections.append(Section(title="Environment", lines=lines))
    return safe_report(title="cgtop doctor", mark="this machine, now", sections=sections)


def _checks(found: DoctorReport) -> Table:
    columns = (Column("check"), Column("result"), Column("found", rank=1), Column("what it means here", rank=2))
    return Table(columns, tuple(_check_row(check) for check in found.checks))


def _check_row(check: Check) -> Row:
    return row(check.name, check.status, check.value, check.why, tone=TONES[check.status])


def _versions(found: DoctorReport) -> tuple[tuple[str, str], ...]:
    return tuple((name, version or NA) for name, version in found.versions.items())


def _card(device: DoctorDevice) -> str:
    reason = f" ({device.memory_reason})" if device.memory_reason else ""
    per_s = device.memory_bandwidth_bytes_s
    facts = (
        device.name or "a card without a name",
        f"sm_{device.capability.replace('.', '')}" if device.capability else "architecture n/a",
        f"total {size(device.total_bytes)}, free {size(device.free_bytes)}{reason}",
        f"{bandwidth(None if per_s is None else per_s / 1e9)} theoretical",
    )
    return ", ".join(facts)
