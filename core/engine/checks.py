"""`cgtop check`: is this machine fit for what cgtop measures? One verdict a line, each with its figures and why.

The figures are gathered here, on the GPU thread, and judged in `check_machine` and `check_run`. Every check of the list
is told: one that was not reached is "n/a" with the reason.
"""

from collections.abc import Callable, Mapping

import torch

from .. import sizing
from ..checklist import CHECK_NAMES, not_made
from ..commands import RunCheck
from ..events import Check, Comparison, PhaseEnd, PhaseId
from . import check_machine, check_run
from .architectures import supported
from .bandwidth import copy_bandwidth, link_under_load
from .caches import StaticKV
from .check_run import ReplayReading
from .compare import Plan, compare, require_captured_input
from .decode import DecodeLoop
from .diagnose import CudaFacts, look
from .failures import EngineError
from .holdings import addresses
from .kept import decode_state_kept
from .lab import Lab
from .nvml import shared_nvml
from .nvml_library import Reading

REPLAYS = 512
LEAD_IN = 4
NO_GPU = "the checks are of an NVIDIA GPU, and this run is on the CPU"
SLOPE_LENGTHS = (128, 256)
SUMMED = 1 << 20
COMPARISON = Plan(modes=("eager", "graph"), tokens=12, seconds=8.0, warm_s=2.0)
"""Short: the whole check is to take less than a minute on a large GPU. Eager decodes some 20 tokens a second there."""


def run_check(command: RunCheck, lab: Lab) -> None:
    """Make every check and emit its verdict; phases up to capture are run if they have not been. Decoding stays as it
    was. Raises what its libraries raise, after telling which checks were not reached."""
    require_captured_input(lab)
    told = _Told(lab)
    if lab.facts.kind != "cuda" and lab.device.capture_refusal is not None:
        told.rest(NO_GPU)
        return
    if lab.device.capture_refusal is not None:
        told.rest(lab.device.capture_refusal)
        return
    why = "not reached"
    try:
        why = _check_all(command, lab, told)
    except Exception as exception:
        why = f"not reached: {type(exception).__name__} before it"
        raise
    finally:
        told.rest(why)


class _Told:
    """Emits verdicts, and knows which are missing."""

    def __init__(self, lab: Lab) -> None:
        self._emit = lab.emit
        self._names: set[str] = set()

    def __call__(self, check: Check) -> None:
        self._names.add(check.name)
        self._emit(check)

    def rest(self, why: str) -> None:
        """Every check that was not told yet is n/a."""
        for name in CHECK_NAMES:
            if name not in self._names:
                self(not_made(name, why))


def _check_all(command: RunCheck, lab: Lab, told: _Told) -> str:
    """Returns why the checks that are left were not made."""
    parts: tuple[Callable[[RunCheck, Lab, _Told], bool], ...] = (
        _check_machine,
        _check_phases,
        _check_replays,
        _check_buses,
        _check_speed,
    )
    for part in parts:
        if lab.cancelled():
            return "cancelled"
        if not part(command, lab, told):
            return "a phase before it failed"
    return "not reached"


def _check_machine(command: RunCheck, lab: Lab, told: _Told) -> bool:
    if not lab.run_phases("context"):
        return False
    try:
        found = _device_sum(lab)
    except Exception as exception:
        told(Check(name="kernel launch", status="FAIL", measured=f"{type(exception).__name__}: {exception}"[:200]))
        raise
    told(check_machine.kernel_launch(found, SUMMED * (SUMMED - 1) // 2))
    facts = look(lab.facts.index) if lab.facts.kind == "cuda" else CudaFacts()
    known = [capability for capability in facts.capabilities if capability is not None]
    told(check_machine.architecture(facts, supported(known[0], facts.architectures) if len(set(known)) == 1 else None))
    told(check_machine.versions(facts))
    told(check_machine.ecc(*_ecc(lab)))
    told(check_machine.other_processes(lab.telemetry(), strict=command.strict))
    return True


def _check_phases(command: RunCheck, lab: Lab, told: _Told) -> bool:
    ran = lab.run_phases("capture")
    ends = lab.phase_ends()
    weights, weights_why = _expected_weights(lab)
    told(check_run.requested("weights", "load", ends, weights, weights_why))
    cache_why = "keys and values by the closed form, an int64 a layer and a sequence's input"
    told(check_run.requested("StaticCache", "static_cache", ends, _expected_cache(lab), cache_why))
    told(check_run.explained("warmup explained", "warmup", ends))
    told(check_run.explained("capture explained", "capture", ends))
    if ran and _captured(ends):
        told(check_run.verdict(lab.verification()))
        told(check_run.static_is_dynamic(lab.verification()))
    return ran


def _check_replays(command: RunCheck, lab: Lab, told: _Told) -> bool:
    with decode_state_kept(lab.workflow, lab.device):
        reading = _replays(lab)
    if lab.workflow.guard is not None:
        lab.emit(addresses(lab.workflow.guard))
    told(check_run.replay_allocations(reading))
    told(check_run.replay_driver(reading))
    told(check_run.addresses(reading))
    expected = _cache_bytes(lab, SLOPE_LENGTHS[1]) - _cache_bytes(lab, SLOPE_LENGTHS[0])
    told(check_run.slope(SLOPE_LENGTHS, _cache_slope(lab), expected))
    return True


def _check_buses(command: RunCheck, lab: Lab, told: _Told) -> bool:
    copied = copy_bandwidth(lab.device, lab.workflow.stream)
    told(check_machine.copy_share(copied, lab.facts.memory_bandwidth_bytes_s))
    told(check_machine.link(link_under_load(lab.device, lab.workflow.stream, lab.telemetry)))
    return True


def _check_speed(command: RunCheck, lab: Lab, told: _Told) -> bool:
    verification = lab.verification()
    comparison: Comparison | None = None
    if verification is None or verification.verdict != "mismatch":
        comparison = compare(lab, COMPARISON, None)
    told(check_run.speed(comparison))
    told(check_machine.throttle(comparison))
    return True


# ------------------------------------------------------------------------------------------------------------- figures


def _device_sum(lab: Lab) -> int:
    """0 + 1 + … on the device; its memory goes back to the driver, so that no phase is charged with it."""
    total = int(torch.arange(SUMMED, device=lab.device.torch_device).sum().item())
    lab.device.empty_cache()
    return total


def _expected_weights(lab: Lab) -> tuple[int | None, str]:
    plan, loaded = lab.workflow.plan, lab.workflow.loaded
    if plan.shape is not None:
        size = sizing.parameter_bytes(plan.shape, plan.info.dtype) + sizing.buffer_bytes(plan.shape)
        return size, "parameters and rotary buffers by the closed form of the model's shape"
    if loaded is None:
        return None, ""
    tensors = (*loaded.model.parameters(), *loaded.model.buffers())
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values()), "the storages of all parameters and buffers, each once"


def _expected_cache(lab: Lab) -> int:
    settings, plan = lab.settings, lab.workflow.plan
    input_bytes = settings.batch_size * torch.int64.itemsize
    return _cache_bytes(lab, settings.max_cache_len) + sizing.counter_bytes(plan.kv) + input_bytes


def _cache_bytes(lab: Lab, length: int) -> int:
    plan, batch_size = lab.workflow.plan, lab.settings.batch_size
    return sizing.static_cache_bytes(plan.kv, batch_size=batch_size, max_cache_len=length, dtype=plan.info.dtype)


def _captured(ends: Mapping[PhaseId, PhaseEnd]) -> bool:
    end = ends.get("capture")
    return end is not None and end.status == "done"


def _replays(lab: Lab) -> ReplayReading:
    """Replay from the prompt's end on, with full attributions before and after."""
    device, guard = lab.device, lab.workflow.guard
    loop = DecodeLoop(device, lambda event: None, lab.settings.batch_size)
    try:
        arm = lab.workflow.arm("graph")
        with device.on(lab.workflow.stream):
            arm.cursor.rewind()
            loop.enter(arm)
            for _ in range(LEAD_IN):
                loop.step()
            loop.drain()
            before, first = lab.ledger.sample(), device.counters()
            for _ in range(REPLAYS):
                loop.step()
            loop.drain()
            last, after = device.counters(), lab.ledger.sample()
    except EngineError as reason:
        moved = tuple(guard.moved()) if guard is not None else None
        return ReplayReading(problem=reason.headline, moved=moved, fixed=len(guard.addresses()) if guard else 0)
    return ReplayReading(
        replays=REPLAYS,
        before=before.counters,
        after=after.counters,
        allocations=_difference(first.allocations, last.allocations),
        device_allocations=_difference(first.device_allocations, last.device_allocations),
        fixed=len(guard.addresses()) if guard is not None else 0,
        moved=tuple(guard.moved()) if guard is not None else None,
    )


def _cache_slope(lab: Lab) -> int | None:
    """Requested bytes that the longer of two short StaticCaches costs more."""
    loaded, device = lab.workflow.loaded, lab.device
    if loaded is None:
        return None
    marks = [device.counters().requested]
    caches = []
    for length in SLOPE_LENGTHS:
        with device.on(lab.workflow.stream):
            caches.append(
                StaticKV(
                    loaded.model.config,
                    batch_size=lab.settings.batch_size,
                    max_cache_len=length,
                    dtype=loaded.model.dtype,
                    device=device.torch_device,
                )
            )
        marks.append(device.counters().requested)
    known = [mark for mark in marks if mark is not None]
    del caches
    device.synchronize()
    device.empty_cache()
    return (known[2] - known[1]) - (known[1] - known[0]) if len(known) == len(marks) else None


def _ecc(lab: Lab) -> tuple[Reading[int], Reading[int]]:
    match = shared_nvml().match(lab.facts.index) if lab.facts.kind == "cuda" else None
    if match is None or match.card is None:
        reason = "there is no CUDA device" if match is None else match.reason
        return Reading(reason=reason), Reading(reason=reason)
    return match.card.ecc_uncorrected()


def _difference(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else last - first
