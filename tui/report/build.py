"""Puts a report together: who measured what on what, then the sections, then what went wrong."""

import msgspec

from ...core.events import Hello
from ...core.phases import PHASE_BY_ID
from ...core.state import RunState
from ..format import NA, size
from .bench import bench_sections
from .check import check_sections
from .decode import graph_section, speed_sections, verification_section
from .memory import bucket_table, delta_table, guide_table, phase_table
from .model import Report, Section, safe_report
from .sweeps import sweep_sections


class Origin(msgspec.Struct, frozen=True):
    """Where the events come from. `recorded`: read from a file; nothing is claimed of the machine that shows them."""

    recorded: bool = False


def report(state: RunState, origin: Origin = Origin()) -> Report:  # noqa: B008 - frozen
    """The report of a run, finished or not. Pure: what no event said is "n/a"."""
    sections = (
        run_section(state),
        phase_table(state),
        *speed_sections(state),
        verification_section(state),
        graph_section(state),
        bucket_table(state),
        delta_table(state),
        guide_table(state),
        *sweep_sections(state),
        *bench_sections(state),
        *check_sections(state),
        *trouble_sections(state),
    )
    return safe_report(title="cgtop", mark=mark(state.hello, origin), recorded=origin.recorded, sections=sections)


def bench_report(state: RunState, origin: Origin) -> Report:
    """The report of a comparison of decode modes. Pure."""
    sections = (run_section(state), *bench_sections(state), *trouble_sections(state))
    return safe_report(title="cgtop bench", mark=mark(state.hello, origin), recorded=origin.recorded, sections=sections)


def sweep_report(state: RunState, origin: Origin) -> Report:
    """The report of sweeps over cache lengths and batch sizes. Pure."""
    sections = (run_section(state), *sweep_sections(state), *trouble_sections(state))
    return safe_report(title="cgtop sweep", mark=mark(state.hello, origin), recorded=origin.recorded, sections=sections)


def check_report(state: RunState, origin: Origin) -> Report:
    """The report of the checks. Pure."""
    sections = (*check_sections(state), run_section(state), *trouble_sections(state))
    return safe_report(title="cgtop check", mark=mark(state.hello, origin), recorded=origin.recorded, sections=sections)


def mark(hello: Hello | None, origin: Origin) -> str:
    """As in "LIVE · NVIDIA H200 · tiny float32, …", or "RECORDED 2026-11-30 on NVIDIA H200, not live · …"."""
    if hello is None:
        return f"{'RECORDED, not live' if origin.recorded else 'LIVE'} · no run was started"
    parts = ["LIVE", hello.device.name]
    if origin.recorded:
        date = f"{hello.started_at[:10]} " if hello.started_at else ""
        parts = [f"RECORDED {date}on {hello.device.name}, not live"]
    if hello.model is not None:
        weights = "random weights" if hello.model.source == "random" else "checkpoint"
        parts.append(f"{hello.model.name} {hello.model.dtype}, {weights}")
    if origin.recorded and not hello.started_at:
        parts.append("date not recorded")
    return " · ".join(parts)


def run_section(state: RunState) -> Section:
    """Who measured what on what: device, model, settings, versions, policies."""
    hello = state.hello
    if hello is None:
        return Section(title="Run", lines=("no event of a run has come",))
    device, model, asked = hello.device, hello.model, hello.settings
    lines = [f"measured: {hello.started_at or NA}"]
    facts = [device.name]
    if device.capability:
        facts.append(f"sm_{device.capability.replace('.', '')}")
    if device.total_bytes is not None:
        facts.append(f"{size(device.total_bytes)} by NVML")
    if device.driver_version:
        facts.append(f"driver {device.driver_version}")
    lines.append("device: " + ", ".join(facts))
    if model is not None:
        lines.append(
            f"model: {model.name}, {model.parameters:,} parameters ({model.parameter_bytes:,} B, {model.dtype}), "
            f"attention {model.attention}, {model.layers} layers, {model.kv_heads} KV heads × {model.head_dim}"
        )
        lines.append(f"StaticCache by closed form: {model.static_cache_bytes:,} B = {size(model.static_cache_bytes)}")
    if model is not None:  # a program of somebody else's has none of these settings
        prompt = "prompt text" if asked.prompt is not None else f"prompt {asked.prompt_len} tokens"
        lines.append(
            f"settings: batch {asked.batch_size}, {prompt}, cache {asked.max_cache_len} tokens, "
            f"warmup {asked.warmup}, seed {asked.seed}{', streams as in the guide' if asked.guide_streams else ''}"
        )
    lines.append("versions: " + ", ".join(f"{name} {version}" for name, version in hello.versions.items()))
    lines += [f"{name}: {policy}" for name, policy in hello.policies.items()]
    if hello.allocator_config:
        lines.append(f"allocator settings: {hello.allocator_config}")
    return Section(title="Run", lines=tuple(lines))


def trouble_sections(state: RunState) -> tuple[Section, ...]:
    """Errors, and why the run is over where that is not its normal end."""
    lines: list[str] = []
    for error in state.errors:
        where = f"{PHASE_BY_ID[error.phase].short}: " if error.phase is not None else ""
        lines.append(f"{where}{error.headline}")
        sizes = (("free", error.free_bytes), ("reserved", error.reserved_bytes), ("needed", error.needed_bytes))
        figures = [f"{name} {size(known)}" for name, known in sizes if known is not None]
        if figures:
            lines.append("  " + ", ".join(figures))
        if error.hint:
            lines.append(f"  {error.hint}")
    if state.end is not None and state.end.exit_code != 0:
        lines.append(f"ended: {state.end.reason}")
    if state.status is not None and state.status.tainted_bytes:
        lines.append(f"leaked by a failed capture: {size(state.status.tainted_bytes)}, until the process ends")
    return (Section(title="What went wrong", lines=tuple(lines), tone="bad"),) if lines else ()
