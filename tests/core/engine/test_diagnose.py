"""Four different messages for four different reasons, judged from facts and gathered without a context."""

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cgtop.core.engine import diagnose
from cgtop.core.engine.architectures import supported
from cgtop.core.engine.diagnose import CudaFacts, cuda_problem, judge, look, package_problem
from cgtop.core.engine.failures import EXIT_NO_DEVICE, exit_code
from cgtop.core.engine.nvml import open_nvml
from cgtop.core.engine.requirements import LIVE, Requirement, release
from cgtop.core.events import ERROR_KINDS, Error
from tests.fakes.nvml import FakeCard, FakeNvml

GOOD = CudaFacts(
    versions={"torch": "2.11.0+cu130", "transformers": "5.17.0"},
    torch_cuda="13.0",
    architectures=("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"),
    devices=1,
    driver="580.159.04",
    driver_cuda=(13, 0),
    cards=1,
    name="NVIDIA Sample GPU",
    capabilities=((9, 0),),
)
NONE = msgspec.structs.replace(GOOD, devices=0, cards=0, driver=None, driver_cuda=None, capabilities=(), name=None)
A, B = FakeCard("GPU-aaaa", (0, 1, 0)), FakeCard("GPU-bbbb", (0, 2, 0))


def problem(index: int = 0, base: CudaFacts = GOOD, **facts: object) -> Error:
    found = judge(msgspec.structs.replace(base, **facts), index)
    assert found is not None
    assert found.kind in ERROR_KINDS
    assert found.hint
    assert exit_code(found.kind) == EXIT_NO_DEVICE
    return found


def test_a_usable_device_has_no_problem() -> None:
    assert judge(GOOD, 0) is None
    assert judge(msgspec.structs.replace(GOOD, driver_cuda=None, driver=None, cards=None, capabilities=()), 0) is None


def test_the_four_reasons_have_four_messages() -> None:
    found = [
        problem(torch_cuda=None, devices=None),
        problem(driver_cuda=(12, 2), driver="535.1", devices=0),
        problem(base=NONE),
        problem(capabilities=((6, 1),), name="NVIDIA Old GPU"),
    ]
    assert [error.kind for error in found] == ["no_cuda", "driver_too_old", "no_device", "wrong_architecture"]
    assert len({error.headline for error in found}) == 4
    assert "535.1" in found[1].headline
    assert "CUDA 12.2" in found[1].headline
    assert "13.0" in found[1].headline
    assert "NVIDIA Old GPU (sm_61)" in found[3].headline


def test_torch_without_cuda_says_whether_there_is_a_gpu() -> None:
    assert "has an NVIDIA GPU" in problem(torch_cuda=None).headline
    assert "GPU" not in problem(torch_cuda=None, cards=None).headline
    for nowhere in (problem(torch_cuda=None, cards=0), problem(torch_cuda=None, cards=None, nvml_reason="no library")):
        assert "NVML finds no NVIDIA GPU here" in nowhere.headline
        assert nowhere.hint.startswith("Use --device cpu")
    assert "ROCm" in problem(torch_hip="6.4").headline


def test_an_older_driver_of_the_same_cuda_major_will_do_and_a_compatible_libcuda_too() -> None:
    assert judge(msgspec.structs.replace(GOOD, torch_cuda="12.8", driver_cuda=(12, 2)), 0) is None
    assert judge(msgspec.structs.replace(GOOD, driver_cuda=(12, 2)), 0) is None, "CUDA did open the device"


def test_what_torch_says_of_the_driver_counts_without_nvml() -> None:
    said = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update"
    found = problem(base=NONE, cuda_says=said, cards=None)
    assert (found.kind, found.detail) == ("driver_too_old", said)


@pytest.mark.parametrize("visible", ["", "-1", "99", "GPU-nothing"])
def test_hidden_gpus_are_said_to_be_hidden(visible: str) -> None:
    found = problem(devices=0, cards=2, visible_devices=visible)
    assert found.kind == "no_device"
    assert f"CUDA_VISIBLE_DEVICES={visible!r} hides" in found.headline


def test_an_index_out_of_range_names_the_range() -> None:
    assert "CUDA sees one, cuda:0" in problem(3).headline
    found = problem(5, devices=2, cards=8, visible_devices="6,7")
    assert "CUDA sees 2 (cuda:0 to cuda:1)" in found.headline
    assert "'6,7'" in found.hint


def test_a_gpu_that_only_nvml_sees_is_told_from_none() -> None:
    assert "CUDA cannot open it" in problem(devices=0).headline
    assert "libnvidia" in problem(base=NONE, cards=None, nvml_reason="libnvidia-ml.so.1 was not found").headline


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"torch": None, "transformers": "5.24.0"}, "torch is not installed"),
        ({"torch": "2.13.0", "transformers": None}, "transformers is not installed"),
        ({"torch": "2.4.1", "transformers": "5.24.0"}, "torch 2.4.1 is too old"),
        ({"torch": "2.13.0", "transformers": "4.57.1"}, "transformers 4.57.1 is too old"),
        ({"torch": "2.13.0", "transformers": "6.0.0"}, "transformers 6.0.0 is too new"),
    ],
)
def test_packages_come_first_and_are_named_with_what_pip_takes(versions: dict[str, str | None], words: str) -> None:
    found = problem(versions=versions, torch_cuda=None)
    assert found.kind == "missing_package"
    assert words in found.headline
    assert "pip install '" in found.hint


def test_a_torch_that_cannot_be_imported_is_a_missing_package_with_its_traceback() -> None:
    found = problem(torch_error="Traceback …\nImportError: libcudart.so.13: cannot open shared object file")
    assert found.kind == "missing_package"
    assert "libcudart" in found.detail


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((9, 0), "sm_80 sm_90", True),
        ((8, 9), "sm_80 sm_86 sm_90", True),  # Same major, lower minor.
        ((8, 0), "sm_86 sm_90", False),
        ((6, 1), "sm_75 sm_80", False),
        ((12, 1), "sm_120", True),
        ((10, 3), "sm_100 compute_120", True),
        ((13, 0), "sm_90 sm_120 compute_120", True),  # PTX is compiled for what came later.
        ((9, 0), "compute_120", False),
        ((9, 0), "sm_90a", True),
        ((10, 0), "sm_90a compute_90a", False),
        ((10, 3), "sm_100f", True),
        ((11, 0), "sm_100f", False),
        ((8, 7), "sm_80 sm_86", False),  # A Jetson does not run binaries for discrete GPUs.
        ((8, 7), "sm_87", True),
        ((8, 9), "sm_87", False),
        ((9, 0), "", False),
        ((9, 0), "gfx942 nonsense", False),
    ],
)
def test_architectures(capability: tuple[int, int], architectures: str, runs: bool) -> None:
    assert supported(capability, architectures.split()) is runs


def test_an_architecture_is_only_refused_where_every_card_it_may_be_is_known_and_refused() -> None:
    assert judge(msgspec.structs.replace(GOOD, capabilities=((6, 1), (9, 0))), 0) is None
    assert judge(msgspec.structs.replace(GOOD, capabilities=((6, 1), None)), 0) is None
    assert problem(capabilities=((6, 1), (6, 1))).kind == "wrong_architecture"


def test_the_versions_are_those_of_the_extra_live() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert sorted(requirement.text for requirement in LIVE) == sorted(project["optional-dependencies"]["live"])


def test_odd_versions() -> None:
    assert release("2.11.0a0+git1") == (2, 11)
    assert Requirement("x", (2, 11), (3, 0)).problem("unknown") is None


# ------------------------------------------------------------------------------------------- gathering the facts


def fake_torch(devices: int) -> SimpleNamespace:
    """A CUDA build of torch in which everything that could make a context is missing."""
    cuda = SimpleNamespace(
        is_available=lambda: devices > 0,
        device_count=lambda: devices,
        get_arch_list=lambda: ["sm_80", "sm_90"],
    )
    return SimpleNamespace(version=SimpleNamespace(cuda="13.0", hip=None), cuda=cuda)


def test_facts_come_from_torchs_build_and_nvml_without_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(2))
    facts = look(1, open_nvml(FakeNvml(A, replace(B, capability=(6, 1))), {}), {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert (facts.devices, facts.architectures, facts.driver_cuda) == (2, ("sm_80", "sm_90"), (13, 0))
    assert set(facts.capabilities) == {(9, 0), (6, 1)}
    assert (facts.cards, facts.visible_devices, facts.name) == (2, "0,1", A.name)
    assert judge(facts, 1) is None


def test_a_fake_machine_with_a_gpu_too_old_for_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(1))
    nvml = open_nvml(FakeNvml(replace(A, capability=(7, 0))), {})
    monkeypatch.setattr(diagnose, "shared_nvml", lambda: nvml)
    found = cuda_problem("cuda:0")
    assert found is not None
    assert found.kind == "wrong_architecture"


def test_a_torch_that_does_not_import_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    facts = look(0)
    assert facts.torch_error is not None
    found = package_problem(facts)
    assert found is not None
    assert found.kind == "missing_package"


def test_an_accident_while_looking_is_an_error_event_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(index: int | None) -> CudaFacts:
        raise RuntimeError("boom")

    monkeypatch.setattr(diagnose, "look", broken)
    found = cuda_problem("cuda")
    assert found is not None
    assert (found.kind, "boom" in found.detail) == ("internal", True)


def test_the_cpu_needs_the_packages_only() -> None:
    assert cuda_problem("cpu") is None
