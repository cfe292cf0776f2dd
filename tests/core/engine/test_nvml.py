"""NVML through a fake at its edge: every reading is a value or a reason, and a card is matched for certain or not."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.engine.nvml import Nvml, open_nvml
from cgtop.core.engine.nvml_card import Card, throttle_names
from cgtop.core.engine.visible_devices import parse_pci
from cgtop.core.memory_map import GIB, MIB
from tests.fakes.nvml import (
    CARD_CALLS,
    ERRORS,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SYSTEM_CALLS,
    UNKNOWN,
    FakeCard,
    FakeNvml,
)

A = FakeCard("GPU-af7b0000-1111-2222-3333-444444444444", (0, 0x17, 0))
B = FakeCard("GPU-b1b10000-1111-2222-3333-444444444444", (0, 0x65, 0))
OTHER_PID = 1 << 30


def the_card(fake: FakeNvml) -> Card:
    card = open_nvml(fake, {}).match(0).card
    assert card is not None
    return card


# ------------------------------------------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    ("visible", "index", "uuid", "by"),
    [
        ("GPU-af7b", 0, A.uuid, "uuid"),
        ("gpu-AF7B", 0, None, None),  # Only "GPU-" begins a UUID.
        ("GPU-b1b1,GPU-af7b", 1, A.uuid, "uuid"),
        (" GPU-b1b1 , GPU-af7b ", 1, A.uuid, "uuid"),
        ("GPU-b1b1,GPU-99,GPU-af7b", 2, None, None),
        ("GPU-", 0, None, None),  # Names both.
        ("GPU-af7b,GPU-af7b0000", 0, None, None),  # Twice the same: CUDA then sees none.
        ("GPU-af7b,1", 1, None, None),
        ("MIG-af7b", 0, None, None),
        ("", 0, None, None),
        ("  ", 0, None, None),
        ("-1", 0, None, None),
        ("NoDevFiles", 0, None, None),
    ],
)
def test_uuids_in_cuda_visible_devices(visible: str, index: int, uuid: str | None, by: str | None) -> None:
    match = open_nvml(FakeNvml(A, B), {"CUDA_VISIBLE_DEVICES": visible}).match(index)
    assert (match.card and match.card.uuid, match.by) == (uuid, by)
    assert uuid is not None or (match.visible is False and match.reason)


@pytest.mark.parametrize(
    ("visible", "index", "card"),
    [
        (None, 0, A),
        (None, 1, B),
        (None, 2, None),
        ("1,0", 0, B),
        ("1,0", 1, A),
        (" 1 , 0 ", 0, B),
        ("1gpu,0", 0, B),
        ("0,99", 0, A),
        ("0,99", 1, None),
        ("99,0", 1, None),  # What follows an invalid entry does not exist.
        ("0,-1,1", 1, None),
        ("0,0", 0, None),
    ],
)
def test_numbers_count_along_the_bus_where_cuda_does(visible: str | None, index: int, card: FakeCard | None) -> None:
    environ = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    match = open_nvml(FakeNvml(B, A), environ).match(index)  # NVML's own order is another one here.
    assert (match.card and match.card.uuid) == (card and card.uuid)
    assert match.by == ("pci" if card else None)


@pytest.mark.parametrize("visible", [None, "0", "1,0", "0,99"])
def test_a_number_in_cudas_default_order_matches_no_card_of_several(visible: str | None) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    match = open_nvml(FakeNvml(A, replace(B, used=50 * GIB)), environ).match(0)
    assert match.card is None
    assert match.by is None
    assert match.visible is True
    assert "known once there is a context" in match.reason
    assert match.free_bytes() == 140 * GIB - 50 * GIB - 600 * MIB, "the least that it may be"
    assert match.capability() == (9, 0), "what all agree on is known"


@pytest.mark.parametrize("visible", [None, "0", "0,99", " 0"])
def test_the_only_card_is_matched(visible: str | None) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert open_nvml(FakeNvml(A), environ).match(0).by == "only card"


def test_cards_without_permission_do_not_count_but_lost_ones_leave_the_number_open() -> None:
    fake = FakeNvml(A, B)
    original = fake.__getattr__("nvmlDeviceGetHandleByIndex")

    class OneFails(FakeNvml):
        def __getattribute__(self, name: str) -> object:
            if name == "nvmlDeviceGetHandleByIndex":
                return lambda index: original(index) if index else FakeNvml(fail={name: code}).__getattr__(name)(index)
            return super().__getattribute__(name)

    code = NO_PERMISSION
    match = open_nvml(OneFails(A, B), {}).match(0)
    assert match.card is not None
    assert match.card.uuid == B.uuid
    code = GPU_IS_LOST
    for environ in ({}, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}):
        match = open_nvml(OneFails(A, B), environ).match(1)
        assert match.card is None
        assert match.free_bytes() is None


def test_a_context_settles_which_card_it_is_for_every_thread() -> None:
    nvml = open_nvml(FakeNvml(A, B), {})
    assert nvml.match(0).card is None
    assert not nvml.has_context(0)
    assert nvml.announce(0, uuid="b1b10000-1111-2222-3333-444444444444").by == "uuid"
    found = nvml.match(0).card
    assert found is not None
    assert found.uuid == B.uuid
    assert nvml.has_context(0)
    assert nvml.match(pci="0000:17:00.0").by == "pci"
    assert nvml.announce(1, uuid="GPU-unknown", pci="00000000:65:00.0").by == "pci"
    assert nvml.match(uuid="GPU-unknown").card is None
    assert nvml.match(pci="nonsense").card is None


def test_mig_instances_are_matched_by_their_uuid_and_never_by_number() -> None:
    instance = FakeCard("MIG-0123abcd-1111-2222-3333-444444444444", capability=(9, 0), total=20 * GIB)
    other = FakeCard("MIG-99999999-1111-2222-3333-444444444444")
    gpu = replace(A, mig=[instance, other])
    match = open_nvml(FakeNvml(gpu), {"CUDA_VISIBLE_DEVICES": "MIG-0123abcd"}).match(0)
    assert match.card is not None
    assert (match.by, match.card.uuid) == ("uuid", instance.uuid)
    assert match.free_bytes() == 20 * GIB - 3 * GIB - 600 * MIB
    both = {"CUDA_VISIBLE_DEVICES": f"{instance.uuid},{other.uuid}"}
    assert open_nvml(FakeNvml(gpu), both).match(1).visible is False
    for environ in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "GPU-af7b"}):
        match = open_nvml(FakeNvml(gpu), environ).match(0)
        assert match.card is None
        assert "MIG is on" in match.reason
    found = open_nvml(FakeNvml(gpu), {}).match(uuid="0123abcd-1111-2222-3333-444444444444")
    assert found.card is not None


def test_a_mig_instance_has_the_capability_of_its_gpu() -> None:
    class NoCapability(FakeNvml):
        def __getattr__(self, name: str) -> object:
            whole = super().__getattr__(name)
            if name != "nvmlDeviceGetCudaComputeCapability":
                return whole
            return lambda card: whole(card) if card is gpu else FakeNvml(fail={name: 2}).__getattr__(name)(card)

    gpu = replace(A, mig=[FakeCard("MIG-0123abcd")])
    environ = {"CUDA_VISIBLE_DEVICES": "MIG-0123abcd"}
    assert open_nvml(NoCapability(gpu), environ).match(0).capability() == (9, 0)


@given(
    visible=st.none() | st.text(max_size=20) | st.text("01 ,-GPUMIaf7b", max_size=30),
    index=st.integers(0, 4),
    cards=st.lists(st.sampled_from([A, B, FakeCard("GPU-af7b9999", (1, 2, 0))]), unique=True),
    order=st.sampled_from(["", "FASTEST_FIRST", "PCI_BUS_ID"]),
)
def test_whatever_the_environment_holds_there_is_one_card_or_a_reason(
    visible: str | None, index: int, cards: list[FakeCard], order: str
) -> None:
    environ = {"CUDA_DEVICE_ORDER": order} | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    match = open_nvml(FakeNvml(*cards), environ).match(index)
    if match.card is None:
        assert match.reason
        assert match.by is None
    else:
        assert match.candidates == (match.card,)
        assert match.visible
    assert match.by != "pci" or order == "PCI_BUS_ID"


def test_pci_ids() -> None:
    assert parse_pci("00000000:17:00.0") == (0, 0x17, 0) == parse_pci("17:00.0") == parse_pci("0000:17:00")
    assert parse_pci("0000000F:01:00.0") == (15, 1, 0)
    assert parse_pci("17") is None


# ------------------------------------------------------------------------------------------------------- no NVML


@pytest.mark.parametrize(
    ("code", "words"),
    [(12, "install the NVIDIA driver"), (18, "reboot"), (9, "not loaded"), (UNKNOWN, "unknown error")],
)
def test_no_nvml_is_one_line_that_says_what_to_do(code: int, words: str) -> None:
    nvml = open_nvml(FakeNvml(A, fail={"nvmlInit": code}), {})
    assert words in nvml.reason
    assert "\n" not in nvml.reason
    assert nvml.match(0).reason == nvml.reason
    assert nvml.announce(0, uuid=A.uuid).card is None
    assert nvml.device_info(0) is None
    assert (nvml.driver_version(), nvml.cuda_version()) == (None, None)


def test_here_too_opening_the_real_library_never_raises() -> None:
    assert isinstance(open_nvml().reason, str)


def test_the_pynvml_package_beside_nvidia_ml_py_gives_no_warning() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        open_nvml()
        warnings.warn("The pynvml package is deprecated. Please install nvidia-ml-py instead.", FutureWarning, 2)
    assert not seen


def test_neither_torch_nor_cuda_is_loaded() -> None:
    code = (
        "import sys; from cgtop.core.engine import telemetry, nvml; nvml.shared_nvml().match(0);"
        "sys.exit('torch' in sys.modules or 'cuda' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------------ readings


def every_reading(nvml: Nvml) -> list[object]:
    """All that a run asks of NVML, in its order."""
    match = nvml.match(0)
    values: list[object] = [nvml.device_info(0), nvml.driver_version(), match.free_bytes(), match.capability()]
    for card in match.candidates:
        single = (card.name, card.memory, card.bandwidth, card.sm_mhz, card.memory_mhz, card.power_w)
        readings = [read() for read in (*single, card.power_limit_w, card.temperature_c, card.throttle)]
        for reading in (*readings, *card.utilization(), *card.pcie().values()):
            assert (reading.value is None) == bool(reading.reason)
        values += [*readings, card.process_bytes(), card.integrated()]
    return values


@pytest.mark.parametrize("code", ERRORS)
@pytest.mark.parametrize("name", [*CARD_CALLS, *SYSTEM_CALLS, "nvmlInit"])
def test_any_call_may_fail_alone(name: str, code: int) -> None:
    assert every_reading(open_nvml(FakeNvml(A, fail={name: code}), {}))


@pytest.mark.parametrize("code", ERRORS)
def test_all_calls_may_fail_together(code: int) -> None:
    assert every_reading(open_nvml(FakeNvml(A, fail=dict.fromkeys(CARD_CALLS, code)), {}))


def test_memory_by_v2() -> None:
    memory = the_card(FakeNvml(A)).memory().value
    assert memory is not None
    assert (memory.api, memory.reserved_bytes, memory.used_bytes) == ("v2", 600 * MIB, 3 * GIB)


@pytest.mark.parametrize("code", [FUNCTION_NOT_FOUND, NOT_SUPPORTED, 25])
def test_without_v2_memory_is_v1_and_stays_so_for_the_whole_run(code: int) -> None:
    fake = FakeNvml(A, fail={("nvmlDeviceGetMemoryInfo", 2): code})
    card = the_card(fake)
    first = card.memory().value
    assert first is not None
    assert (first.api, first.reserved_bytes, first.used_bytes) == ("v1", None, 3 * GIB + 600 * MIB)
    fake.fail.clear()
    again = card.memory().value
    assert again is not None
    assert again.api == "v1"


def test_v2_that_fails_for_a_moment_is_not_replaced_by_v1() -> None:
    fake = FakeNvml(A)
    card = the_card(fake)
    assert card.memory().value is not None
    for code in ERRORS:
        fake.fail[("nvmlDeviceGetMemoryInfo", 2)] = code
        assert card.memory().value is None
    fake.fail = {("nvmlDeviceGetMemoryInfo", 2): UNKNOWN}
    fresh = the_card(fake)
    assert fresh.memory().reason == "NVML reports an unknown error"


def test_an_integrated_gpu_has_no_memory_of_its_own_and_that_is_no_zero() -> None:
    nvml = open_nvml(FakeNvml(A, fail={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}), {})
    info = nvml.device_info(0)
    assert info is not None
    assert (info.total_bytes, info.free_bytes, info.integrated) == (None, None, True)
    assert nvml.match(0).free_bytes() is None
    discrete = open_nvml(FakeNvml(A), {}).device_info(0)
    assert discrete is not None
    assert discrete.integrated is None, "a GB10 whose driver answers cannot be told apart by NVML"
    lost = open_nvml(FakeNvml(A, fail={"nvmlDeviceGetMemoryInfo": GPU_IS_LOST}), {}).device_info(0)
    assert lost is not None
    assert lost.integrated is None


def test_device_info_before_a_context() -> None:
    info = open_nvml(FakeNvml(A), {}).device_info(0)
    assert info is not None
    assert (info.name, info.capability, info.uuid, info.driver_version) == (A.name, "9.0", A.uuid, "580.159.04")
    assert (info.total_bytes, info.free_bytes) == (140 * GIB, 140 * GIB - 3 * GIB - 600 * MIB)
    mixed = open_nvml(FakeNvml(A, replace(B, name="NVIDIA Other", capability=(8, 6))), {}).device_info(1)
    assert mixed is not None
    assert (mixed.name, mixed.capability, mixed.uuid) == ("NVIDIA GPU", None, None)
    assert open_nvml(FakeNvml(A), {"CUDA_VISIBLE_DEVICES": ""}).device_info(0) is None


def test_own_and_other_processes_over_both_lists_each_pid_once() -> None:
    own = os.getpid()
    card = FakeCard(A.uuid, compute=[(own, 520 * MIB), (OTHER_PID, 100)], graphics=[(own, 520 * MIB), (7, 30)])
    reading = the_card(FakeNvml(card)).process_bytes()
    assert (reading.own_bytes, reading.others_bytes, reading.pid_hidden) == (520 * MIB, 130, False)
    assert reading.processes is not None
    assert [(process.pid, process.bytes, process.own) for process in reading.processes if process.own] == [
        (own, 520 * MIB, True)
    ]
    assert reading.api == "v3"


def test_a_hidden_own_pid_is_said_and_never_0_bytes() -> None:
    card = the_card(FakeNvml(FakeCard(A.uuid, compute=[(OTHER_PID, 100)])))
    reading = card.process_bytes()
    assert reading.pid_hidden
    assert (reading.own_bytes, reading.others_bytes) == (None, None)
    assert "pid" in reading.reason
    before = card.process_bytes(has_context=False)
    assert (before.own_bytes, before.others_bytes, before.pid_hidden) == (0, 100, False)


def test_a_process_without_a_figure_makes_the_sum_unknown() -> None:
    reading = the_card(FakeNvml(FakeCard(A.uuid, compute=[(os.getpid(), 5), (7, None)]))).process_bytes()
    assert (reading.own_bytes, reading.others_bytes) == (5, None)
    assert reading.reason


def test_processes_by_v2_where_v3_is_missing_and_without_graphics_where_that_fails() -> None:
    fail = {
        "nvmlDeviceGetComputeRunningProcesses_v3": FUNCTION_NOT_FOUND,
        "nvmlDeviceGetGraphicsRunningProcesses_v2": NO_PERMISSION,
    }
    card = FakeCard(A.uuid, compute=[(os.getpid(), 5)])
    reading = the_card(FakeNvml(card, fail=fail)).process_bytes()
    assert (reading.own_bytes, reading.others_bytes, reading.api) == (5, 0, "v2")
    lost = the_card(FakeNvml(card, fail={"nvmlDeviceGetComputeRunningProcesses_v3": GPU_IS_LOST})).process_bytes()
    assert (lost.processes, lost.own_bytes, lost.others_bytes) == (None, None, None)
    assert "lost" in lost.reason


@pytest.mark.parametrize(
    ("mhz", "bits", "expected"),
    [(3201, 6144, 4.917e12), (1593, 5120, 2.039e12), (9751, 384, 0.936e12)],  # H200, A100 80GB, RTX 3090
)
def test_theoretical_bandwidth_from_clock_and_bus_width(mhz: int, bits: int, expected: float) -> None:
    card = FakeCard(A.uuid, max_memory_mhz=mhz, bus_width=bits)
    assert the_card(FakeNvml(card)).bandwidth().value == pytest.approx(expected, rel=1e-3)
    assert the_card(FakeNvml(FakeCard(A.uuid, bus_width=0))).bandwidth().value is None


def test_throttle_bits_have_names_and_idle_is_none() -> None:
    assert throttle_names(0) == throttle_names(1) == ()
    assert throttle_names(0x4 | 0x40 | 0x1) == ("power cap", "thermal (hardware)")
    assert throttle_names(0x8000) == ("0x8000",)


def test_older_names_serve_where_the_newer_are_missing() -> None:
    fail = {
        "nvmlDeviceGetCurrentClocksEventReasons": FUNCTION_NOT_FOUND,
        "nvmlDeviceGetTemperatureV": FUNCTION_NOT_FOUND,
        "nvmlDeviceGetEnforcedPowerLimit": NOT_SUPPORTED,
        "nvmlSystemGetCudaDriverVersion_v2": FUNCTION_NOT_FOUND,
    }
    nvml = open_nvml(FakeNvml(FakeCard(A.uuid, throttle=0x4), fail=fail), {})
    card = nvml.match(0).card
    assert card is not None
    assert card.throttle().value == ("power cap",)
    assert card.temperature_c().value == 41
    assert card.power_limit_w().value == 650.0
    assert card.power_w().value == 350.5
    assert nvml.cuda_version() == (13, 0)
