"""Verdicts of `cgtop check` on the machine, one small function each: figures in, a `Check` out. Pure.

A figure that is None was not given by the platform: its check is "n/a", with the reason, and never a pass.
"""

from ..checklist import CheckStatus, not_made
from ..events import Check, Comparison, Telemetry
from ..memory_map import MIB
from .bandwidth import LinkReading
from .diagnose import CudaFacts
from .nvml_library import Reading
from .requirements import release

COPY_SHARE = 0.7
"""Of the theoretical bandwidth: a copy that reaches less is worth a look at clocks, ECC and who else is there."""
NO_READING = "NVML does not tell it here"


def kernel_launch(found: int, expected: int) -> Check:
    """A sum that the device computed."""
    return Check(
        name="kernel launch",
        status="PASS" if found == expected else "FAIL",
        measured=f"sum {found:,}",
        expected=f"{expected:,}",
        why="a kernel was launched and its result read back",
    )


def architecture(facts: CudaFacts, supported: bool | None) -> Check:
    """Whether the installed torch has code for this GPU."""
    known = [capability for capability in facts.capabilities if capability is not None]
    if supported is None or not known:
        return not_made("architecture", "the card or the architectures of this torch are not known")
    major, minor = known[0]
    return Check(
        name="architecture",
        status="PASS" if supported else "FAIL",
        measured=f"sm_{major}{minor}",
        expected=" ".join(facts.architectures),
        why="torch has code for this GPU" if supported else "torch has no code for this GPU: install another build",
    )


def versions(facts: CudaFacts) -> Check:
    """The driver's CUDA against the one that torch was built with; an older major cannot work, an older minor may."""
    runtime, driver = release(facts.torch_cuda or ""), facts.driver_cuda
    if runtime is None or driver is None or facts.driver is None:
        return not_made("versions", facts.nvml_reason or "the driver or the CUDA of this torch is not known")
    status: CheckStatus = "PASS"
    why = "the driver knows all of this runtime"
    if driver[0] < runtime[0]:
        status = "FAIL"
        why = "a driver of an older CUDA major: update it"
    elif driver < runtime[:2]:
        status = "WARN"
        why = "an older minor: it works, but code that is compiled at run time may not"
    return Check(
        name="versions",
        status=status,
        measured=f"driver {facts.driver}, up to CUDA {driver[0]}.{driver[1]}",
        expected=f"CUDA {facts.torch_cuda} or newer, as torch {facts.versions.get('torch')} has it",
        why=why,
    )


def copy_share(bytes_s: float | None, datasheet: float | None) -> Check:
    """Measured copy bandwidth against the theoretical one."""
    name = "copy bandwidth"
    if bytes_s is None:
        return not_made(name, "not measured: no CUDA device, or no room for the buffers")
    measured = f"{bytes_s / 1e9:,.0f} GB/s, read plus written"
    if not datasheet:
        return Check(name=name, status="n/a", measured=measured, why="the theoretical bandwidth is not known here")
    share = bytes_s / datasheet
    return Check(
        name=name,
        status="PASS" if share >= COPY_SHARE else "WARN",
        measured=f"{measured} = {100 * share:.0f} %",
        expected=f"{100 * COPY_SHARE:.0f} % of {datasheet / 1e9:,.0f} GB/s or more",
        why="the theoretical figure is memory clock × bus width × 2",
    )


def link(reading: LinkReading | None) -> Check:
    """The PCIe link while data comes over it."""
    name = "PCIe link"
    if reading is None:
        return not_made(name, "there is no CUDA device")
    rate = f"{reading.bytes_s / 1e9:,.1f} GB/s from pinned memory"
    now, most = (reading.gen, reading.width), (reading.gen_max, reading.width_max)
    if None in now or None in most:
        return Check(name=name, status="n/a", measured=rate, why=reading.reason or NO_READING)
    full = now == most
    return Check(
        name=name,
        status="PASS" if full else "WARN",
        measured=f"gen {now[0]} ×{now[1]}, {rate}",
        expected=f"gen {most[0]} ×{most[1]}",
        why="read while copying" if full else "slower than card and slot can: see its seat, riser and the BIOS",
    )


def ecc(volatile: Reading[int], aggregate: Reading[int]) -> Check:
    """Memory errors that ECC could not correct."""
    if volatile.value is None or aggregate.value is None:
        return not_made("ECC", volatile.reason or aggregate.reason or NO_READING)
    status: CheckStatus = "PASS"
    why = "no error was beyond correction"
    if volatile.value:
        status = "FAIL"
        why = "results of this boot may be wrong: reset the card, and replace it if they return"
    elif aggregate.value:
        status = "WARN"
        why = "none since the driver was loaded, but some over the card's life"
    return Check(
        name="ECC",
        status=status,
        measured=f"{volatile.value:,} uncorrected since the driver was loaded, {aggregate.value:,} in all",
        expected="0",
        why=why,
    )


def other_processes(telemetry: Telemetry, *, strict: bool) -> Check:
    """Who else is on the card: a measurement beside others is one of both. `strict` makes it a failure."""
    name = "other processes"
    if telemetry.processes is None:
        return not_made(name, _reason(telemetry, "processes"))
    others = [process for process in telemetry.processes if not process.own]
    count = len(others) - 1 if telemetry.pid_hidden else len(others)
    if telemetry.pid_hidden and count < 1:
        return not_made(name, "this process's pid is hidden (as in containers): whose the figures are is not known")
    known = [process.bytes for process in others if process.bytes is not None]
    sizes = (
        f", {sum(known) / MIB:,.0f} MiB" if others and len(known) == len(others) and not telemetry.pid_hidden else ""
    )
    listed = "" if telemetry.pid_hidden or not others else f" (pid {', '.join(str(one.pid) for one in others[:5])})"
    alone = "only this process is on the card"
    return Check(
        name=name,
        status="PASS" if count == 0 else "FAIL" if strict else "WARN",
        measured=f"{count}{sizes}{listed}",
        expected="0",
        why=alone if count == 0 else "they share memory, bandwidth and clocks with what is measured here",
    )


def throttle(comparison: Comparison | None) -> Check:
    """Whether anything held the clocks down while the modes were compared, and whether the clock was steady."""
    name = "throttle"
    if comparison is None:
        return not_made(name, "nothing was measured under load")
    if comparison.throttled is None:
        return not_made(name, NO_READING)
    clock = "clock not known" if comparison.sm_mhz is None else f"{comparison.sm_mhz:,} MHz"
    steady = {True: ", steady", False: ", not steady", None: ""}[comparison.steady]
    good = not comparison.throttled and comparison.steady is not False
    return Check(
        name=name,
        status="PASS" if good else "WARN",
        measured=f"{', '.join(comparison.throttled) or 'no reason'}; {clock}{steady}",
        expected="no reason, a steady clock",
        why="read around each round of the comparison" if good else "the speeds are of a card that was held down",
    )


def _reason(telemetry: Telemetry, field: str) -> str:
    return telemetry.reasons.get(field) or next(iter(telemetry.reasons.values()), NO_READING)
