"""The checks: each verdict on real figures and on perturbed ones; what is unknown never passes; every line is told."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import msgspec
import pytest

import cgtop.core.recordings
from cgtop.core.checklist import CHECK_NAMES, CHECKLIST, CheckKind, missing, not_made, passed
from cgtop.core.commands import RunCheck
from cgtop.core.engine import check_machine, check_run, checks
from cgtop.core.engine import compare as comparing
from cgtop.core.engine.bandwidth import LinkReading
from cgtop.core.engine.check_run import ReplayReading
from cgtop.core.engine.checks import NO_GPU
from cgtop.core.engine.diagnose import CudaFacts
from cgtop.core.engine.nvml import open_nvml
from cgtop.core.engine.nvml_library import Reading
from cgtop.core.events import (
    Addresses,
    ArmResult,
    Check,
    Comparison,
    Counters,
    Item,
    PhaseEnd,
    PhaseId,
    Process,
    Telemetry,
    Verification,
)
from cgtop.core.recording import open_recording
from cgtop.core.settings import RunSettings
from tests.core.engine.driving import Driven, with_
from tests.core.engine.laboratory import captured, lab_of, readings
from tests.fakes.nvml import FakeCard, FakeNvml

H200 = Path(cgtop.core.recordings.__file__).parent / "h200-qwen3-4b.jsonl.gz"
WEIGHTS, CACHE = 8_044_936_192 + 512, 150_994_944 + 36 * 8 + 8
VERIFICATION = Verification(
    verdict="within_eager_noise",
    steps=64,
    batch_size=1,
    identical_steps=40,
    eager_runs=4,
    eager_identical_steps=39,
    dynamic_difference=0.01,
    dynamic_tolerance=0.13,
    dynamic_ok=True,
    seconds=1.0,
)
STILL = ReplayReading(
    replays=512,
    before=Counters(requested=5, allocated=8, reserved=9, driver=7),
    after=Counters(requested=5, allocated=8, reserved=9, driver=7),
    allocations=0,
    device_allocations=0,
    fixed=109,
    moved=(),
)
COMPARED = Comparison(
    arms=(
        ArmResult(
            mode="eager", rounds=6, tokens=96, tok_s=20, tok_s_low=19, tok_s_high=21, step_ms_p50=50, step_ms_p99=60
        ),
        ArmResult(
            mode="graph", rounds=6, tokens=96, tok_s=24, tok_s_low=23, tok_s_high=25, step_ms_p50=41, step_ms_p99=42
        ),
    ),
    rounds=6,
    ratio=1.2,
    ratio_low=1.1,
    ratio_high=1.3,
    sm_mhz=1980,
    throttled=(),
    steady=True,
)


@cache
def h200() -> Mapping[PhaseId, PhaseEnd]:
    return {event.phase: event for event in open_recording(H200).events if isinstance(event, PhaseEnd)}


def with_end(phase: PhaseId, **changes: object) -> Mapping[PhaseId, PhaseEnd]:
    return {**h200(), phase: msgspec.structs.replace(h200()[phase], **changes)}


# -------------------------------------------------------------------------------------------------------- of the run


@pytest.mark.parametrize(("phase", "expected"), [("load", WEIGHTS), ("static_cache", CACHE)])
def test_bytes_are_compared_with_the_closed_form_to_the_byte(phase: PhaseId, expected: int) -> None:
    assert check_run.requested("weights", phase, h200(), expected, "").status == "PASS"
    off = check_run.requested("weights", phase, h200(), expected + 1, "")
    assert off.status == "FAIL" and "−1 B" in off.why
    for ends in ({}, with_end(phase, status="failed", reason="out of memory"), with_end(phase, after=Counters())):
        assert check_run.requested("weights", phase, ends, expected, "").status == "n/a"
    assert check_run.requested("weights", phase, h200(), None, "").status == "n/a"


@pytest.mark.parametrize("phase", ["warmup", "capture"])
def test_one_unexplained_byte_in_any_counter_fails(phase: PhaseId) -> None:
    assert check_run.explained("explained", phase, h200()).status == "PASS"
    for counter in ("requested", "allocated", "reserved"):
        items = (*h200()[phase].explained[counter], Item(name="unexplained", bytes=-1))
        ends = with_end(phase, explained={**h200()[phase].explained, counter: items})
        found = check_run.explained("explained", phase, ends)
        assert found.status == "FAIL" and found.measured.startswith("1 B unexplained")
        lacking = {name: value for name, value in h200()[phase].explained.items() if name != counter}
        assert check_run.explained("explained", phase, with_end(phase, explained=lacking)).status == "n/a"


def test_no_verdict_on_the_graph_is_no_pass_and_a_mismatch_fails() -> None:
    assert check_run.verdict(VERIFICATION).status == "PASS"
    assert check_run.verdict(msgspec.structs.replace(VERIFICATION, verdict="mismatch")).status == "FAIL"
    assert check_run.verdict(None).status == "n/a"
    assert check_run.static_is_dynamic(VERIFICATION).status == "PASS"
    assert check_run.static_is_dynamic(msgspec.structs.replace(VERIFICATION, dynamic_ok=False)).status == "FAIL"
    assert check_run.static_is_dynamic(msgspec.structs.replace(VERIFICATION, dynamic_difference=None)).status == "n/a"


def test_a_replay_that_allocates_or_moves_anything_fails_and_an_uncounted_one_does_not_pass() -> None:
    def after(**counters: int | None) -> ReplayReading:
        return msgspec.structs.replace(STILL, after=msgspec.structs.replace(STILL.after, **counters))

    assert check_run.replay_allocations(STILL).status == "PASS"
    for changes in ({"allocations": 1}, {"device_allocations": 1}):
        assert check_run.replay_allocations(msgspec.structs.replace(STILL, **changes)).status == "FAIL"
    for field in ("allocations", "device_allocations"):
        assert check_run.replay_allocations(msgspec.structs.replace(STILL, **{field: None})).status == "n/a"
    for counter in ("requested", "allocated", "reserved"):
        assert check_run.replay_allocations(after(**{counter: 10})).status == "FAIL"
        assert check_run.replay_allocations(after(**{counter: None})).status == "n/a"
    assert check_run.replay_allocations(msgspec.structs.replace(STILL, replays=0)).status == "n/a"
    found = [check_run.replay_driver(reading).status for reading in (STILL, after(driver=8), after(driver=None))]
    assert found == ["PASS", "FAIL", "n/a"]
    found = [
        check_run.addresses(msgspec.structs.replace(STILL, moved=moved)).status for moved in ((), ("keys 1",), None)
    ]
    assert found == ["PASS", "FAIL", "n/a"]


def test_the_slope_is_the_closed_form_or_fails() -> None:
    assert [check_run.slope((128, 256), found, 100).status for found in (100, 101, None)] == ["PASS", "FAIL", "n/a"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "PASS"),
        ({"ratio_low": 0.9}, "WARN"),
        ({"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}, "FAIL"),
        ({"ratio_low": None, "ratio_high": None}, "PASS"),
        ({"ratio": 0.9, "ratio_low": None, "ratio_high": None}, "FAIL"),
        ({"ratio": None}, "n/a"),
        ({"verdict": "mismatch"}, "n/a"),
    ],
)
def test_faster_by_any_certain_factor_passes_far_below_the_guides(changes: dict[str, object], status: str) -> None:
    assert check_run.speed(msgspec.structs.replace(COMPARED, **changes)).status == status
    assert check_run.speed(None).status == "n/a"


# ---------------------------------------------------------------------------------------------------- of the machine


def test_throttling_or_an_unsteady_clock_warns_and_an_unknown_one_does_not_pass() -> None:
    def found(**changes: object) -> str:
        return check_machine.throttle(msgspec.structs.replace(COMPARED, **changes)).status

    assert found() == "PASS"
    assert found(throttled=("power cap",)) == found(steady=False) == "WARN"
    assert found(throttled=None) == check_machine.throttle(None).status == "n/a"


def test_a_slow_copy_warns() -> None:
    shares = [(3.4e12, 4.8e12), (3.3e12, 4.8e12), (None, 4.8e12), (3e12, None)]
    assert [check_machine.copy_share(*share).status for share in shares] == ["PASS", "WARN", "n/a", "n/a"]


def test_a_link_below_its_best_under_load_warns() -> None:
    full = LinkReading(50e9, 5, 16, 5, 16)
    narrow, slow, unknown = full._replace(width=8), full._replace(gen=1), full._replace(gen=None)
    found = [check_machine.link(reading).status for reading in (full, narrow, slow, unknown, None)]
    assert found == ["PASS", "WARN", "WARN", "n/a", "n/a"]


@pytest.mark.parametrize(("errors", "status"), [((0, 0), "PASS"), ((0, 3), "WARN"), ((1, 1), "FAIL")])
def test_memory_errors_are_read_by_nvml(errors: tuple[int, int], status: str) -> None:
    card = open_nvml(FakeNvml(FakeCard("GPU-1", ecc=errors)), {}).cards[0]
    assert check_machine.ecc(*card.ecc_uncorrected()).status == status


def test_without_ecc_there_is_no_verdict_but_a_reason() -> None:
    card = open_nvml(FakeNvml(FakeCard("GPU-1"), fail={"nvmlDeviceGetTotalEccErrors": 3}), {}).cards[0]
    found = check_machine.ecc(*card.ecc_uncorrected())
    assert (found.status, found.why) == ("n/a", "not supported on this GPU")
    assert check_machine.ecc(Reading(0), Reading(reason="no permission")).status == "n/a"


@pytest.mark.parametrize(
    ("driver", "runtime", "status"),
    [
        ((13, 0), "13.0", "PASS"),
        ((13, 0), "12.8", "PASS"),
        ((12, 4), "12.8", "WARN"),
        ((12, 4), "13.0", "FAIL"),
        (None, "13.0", "n/a"),
        ((13, 0), None, "n/a"),
    ],
)
def test_the_driver_must_know_the_runtime(driver: tuple[int, int] | None, runtime: str | None, status: str) -> None:
    facts = CudaFacts(driver="580.1", driver_cuda=driver, torch_cuda=runtime, versions={"torch": "2.11"})
    assert check_machine.versions(facts).status == status


def test_the_architecture_is_known_for_certain_or_not_judged() -> None:
    facts = CudaFacts(capabilities=((9, 0),), architectures=("sm_80", "sm_90"))
    found = [check_machine.architecture(facts, supported).status for supported in (True, False, None)]
    assert found == ["PASS", "FAIL", "n/a"]


ALONE = Telemetry(processes=(Process(pid=1, bytes=100, own=True),))
OTHERS = Telemetry(processes=(Process(pid=1, bytes=100, own=True), Process(pid=2, bytes=1 << 30)))
HIDDEN = Telemetry(processes=(Process(pid=7, bytes=100),), pid_hidden=True)
HIDDEN_AMONG_OTHERS = Telemetry(processes=(Process(pid=7), Process(pid=8)), pid_hidden=True)


@pytest.mark.parametrize(
    ("telemetry", "status", "strictly"),
    [
        (ALONE, "PASS", "PASS"),
        (OTHERS, "WARN", "FAIL"),
        (HIDDEN, "n/a", "n/a"),
        (HIDDEN_AMONG_OTHERS, "WARN", "FAIL"),
        (Telemetry(reasons={"processes": "no permission"}), "n/a", "n/a"),
    ],
)
def test_others_on_the_gpu_warn_and_fail_strictly(telemetry: Telemetry, status: str, strictly: str) -> None:
    assert check_machine.other_processes(telemetry, strict=False).status == status
    assert check_machine.other_processes(telemetry, strict=True).status == strictly
    if telemetry is OTHERS:
        found = check_machine.other_processes(telemetry, strict=False).measured
        assert "pid 2" in found and "1,024 MiB" in found


# ------------------------------------------------------------------------------------------------------- as a whole


def all_pass() -> list[Check]:
    return [Check(name=kind.name, status="PASS") for kind in CHECKLIST]


def with_status(name: str, status: str) -> list[Check]:
    return [msgspec.structs.replace(check, status=status) if check.name == name else check for check in all_pass()]


@pytest.mark.parametrize("kind", CHECKLIST, ids=lambda kind: kind.name)
def test_a_failure_fails_and_an_essential_check_must_be_made(kind: CheckKind) -> None:
    assert passed(all_pass()) and passed(with_status(kind.name, "WARN"))
    assert not passed(with_status(kind.name, "FAIL"))
    essential = next(one.essential for one in CHECKLIST if one.name == kind.name)
    assert passed(with_status(kind.name, "n/a")) is not essential
    assert missing(with_status(kind.name, "n/a")) == ((kind.name,) if essential else ())
    without = [check for check in all_pass() if check.name != kind.name]
    assert passed(without) is not essential
    assert not_made(kind.name, "x").status == "n/a"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "COMPARISON", comparing.Plan(("eager", "graph"), tokens=2, rounds=1, warm_s=0.05))
    monkeypatch.setattr(checks, "REPLAYS", 40)
    monkeypatch.setattr(comparing, "READING_EVERY_S", 0.01)


def statuses(driven: Driven) -> dict[str, str]:
    return {check.name: check.status for check in driven.of(Check)}


def check_of(driven: Driven, telemetry: Callable[[], Telemetry], *, strict: bool = False) -> dict[str, str]:
    checks.run_check(RunCheck(strict=strict), lab_of(driven, telemetry))
    return statuses(driven)


def test_a_cpu_makes_no_check_and_does_not_pass() -> None:
    driven = Driven()
    driven.run(RunCheck())
    found = driven.of(Check)
    assert tuple(check.name for check in found) == CHECK_NAMES
    assert {check.status for check in found} == {"n/a"} and {check.why for check in found} == {NO_GPU}
    assert not passed(found) and not driven.of(PhaseEnd)


@pytest.mark.usefixtures("quick")
def test_every_check_is_told_once_and_those_without_a_counter_do_not_pass() -> None:
    driven = captured(with_())
    found = check_of(driven, readings([OTHERS]), strict=True)
    assert sorted(found) == sorted(CHECK_NAMES) and len(driven.of(Check)) == len(CHECK_NAMES)
    for name in ("kernel launch", "graph = eager", "StaticCache = DynamicCache", "addresses fixed"):
        assert found[name] == "PASS"
    counted = ("weights", "StaticCache", "warmup explained", "capture explained", "replay allocations", "cache slope")
    unknown = (*counted, "replay driver bytes", "copy bandwidth", "PCIe link", "ECC", "throttle", "versions")
    assert {found[name] for name in unknown} == {"n/a"}
    assert found["other processes"] == "FAIL"
    assert not passed(driven.of(Check))


@pytest.mark.usefixtures("quick")
def test_the_addresses_are_told_anew_with_the_comparisons_of_the_checks_replays() -> None:
    driven = captured(with_())
    before = driven.of(Addresses)[-1].checked
    check_of(driven, Telemetry)
    assert driven.of(Addresses)[-1].checked > before


@pytest.mark.usefixtures("quick")
def test_a_wrong_replay_fails_and_its_speed_is_not_told() -> None:
    driven = captured(with_(inject_fault="corrupt_replay"))
    found = check_of(driven, Telemetry)
    assert found["graph = eager"] == "FAIL"
    assert (found["graph faster than eager"], driven.of(Comparison)) == ("n/a", [])


@pytest.mark.usefixtures("quick")
def test_a_tensor_that_moved_fails_the_addresses_and_nothing_else_is_claimed_of_replays() -> None:
    driven = captured(with_(verify_steps=0))
    static = driven.session.workflow.static
    assert static is not None
    static.kv.layers[1].keys = static.kv.layers[1].keys.clone()
    with pytest.raises(Exception, match="Stale graph"):
        check_of(driven, Telemetry)
    found = statuses(driven)
    assert (found["addresses fixed"], found["replay allocations"], found["graph faster than eager"]) == (
        "FAIL",
        "n/a",
        "n/a",
    )


@pytest.mark.usefixtures("quick")
def test_a_failed_phase_leaves_the_checks_after_it_unmade_but_told() -> None:
    driven = Driven(RunSettings(model="tiny", device="cpu", prompt_len=7, max_cache_len=40), pretend=True)
    assert driven.pretend is not None
    driven.pretend.fail = RuntimeError("operation not permitted when stream is capturing")
    found = check_of(driven, Telemetry)
    assert sorted(found) == sorted(CHECK_NAMES)
    assert found["kernel launch"] == "PASS" and found["graph = eager"] == "n/a"
    assert not passed(driven.of(Check))


@pytest.mark.usefixtures("quick")
def test_a_cancelled_check_tells_the_rest_as_not_made() -> None:
    driven = captured(with_(verify_steps=0))
    checks.run_check(RunCheck(), lab_of(driven, cancelled=lambda: True))
    assert {check.why for check in driven.of(Check)} == {"cancelled"}
    assert sorted(statuses(driven)) == sorted(CHECK_NAMES)
