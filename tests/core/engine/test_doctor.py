"""The doctor's report: on any machine one JSON object, and three lines of what works."""

import json
import os
import subprocess
import sys

import pytest

from cgtop.core.doctor_report import Check, DoctorReport, decode_report, gpu_works, what_works
from cgtop.core.engine import doctor, requirements
from cgtop.core.engine.diagnose import CudaFacts
from cgtop.core.engine.doctor import examine
from cgtop.core.engine.nvml import open_nvml
from tests.core.engine.test_diagnose import fake_torch
from tests.fakes.nvml import CARD_CALLS, ERRORS, NO_PERMISSION, NOT_SUPPORTED, FakeCard, FakeNvml

A = FakeCard("GPU-aaaa", (0, 1, 0), compute=[(7, 3)])


def on_a_gpu(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, environ: dict[str, str] | None = None) -> DoctorReport:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(1))
    return examine(open_nvml(nvml, environ or {}), environ or {})


def test_on_a_machine_with_a_gpu_everything_works(monkeypatch: pytest.MonkeyPatch) -> None:
    report = on_a_gpu(monkeypatch, FakeNvml(A))
    assert what_works(report) == (
        "live on a GPU: yes, NVIDIA Sample GPU",
        "live on the CPU: yes, without capture and replay",
        "recordings: yes",
    )
    assert gpu_works(report)
    assert [check.name for check in report.checks if check.status == "FAIL"] == []
    [device] = report.devices
    assert (device.name, device.uuid, device.capability) == (A.name, "GPU-aaaa", "9.0")
    assert report.versions["driver"] == "580.159.04"
    assert report.architectures == ("sm_80", "sm_90")


def test_a_gpu_without_code_in_the_wheel_fails_that_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    report = on_a_gpu(monkeypatch, FakeNvml(FakeCard("GPU-aaaa", capability=(7, 0))))
    assert [check.name for check in report.checks if check.status == "FAIL"] == ["architecture"]
    assert "sm_70" in what_works(report)[0]
    assert not gpu_works(report)


@pytest.mark.parametrize("code", ERRORS)
def test_nvml_that_answers_nothing_does_not_keep_a_run_from_starting(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    report = on_a_gpu(monkeypatch, FakeNvml(A, fail=dict.fromkeys(CARD_CALLS, code)))
    assert gpu_works(report)
    # A card that may not be asked is another container's, and none of ours.
    assert [device.total_bytes for device in report.devices] == ([] if code == NO_PERMISSION else [None])
    without = on_a_gpu(monkeypatch, FakeNvml(A, fail={"nvmlInit": 18}))
    assert gpu_works(without)
    check = without.check("nvml")
    assert check is not None
    assert (check.status, "reboot" in check.todo) == ("WARN", True)


def test_an_integrated_gpu_has_no_sizes_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    report = on_a_gpu(monkeypatch, FakeNvml(A, fail={"nvmlDeviceGetMemoryInfo": NOT_SUPPORTED}))
    assert report.devices[0].total_bytes is None
    assert report.devices[0].memory_reason == "not supported on this GPU"


def test_the_pynvml_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = requirements.distribution
    monkeypatch.setattr(doctor, "distribution", lambda name: "13.0.1" if name == "pynvml" else real(name))
    check = examine(open_nvml(FakeNvml(A), {}), {}).check("pynvml package")
    assert check is not None
    assert (check.status, check.value) == ("WARN", "pynvml 13.0.1")
    assert "pip uninstall pynvml" in check.todo


def test_variables_that_change_the_figures_are_shown_with_what_they_do() -> None:
    environ = {
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "CUDA_LAUNCH_BLOCKING": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "HOME": "/home/someone",
    }
    report = examine(open_nvml(FakeNvml(A), environ), environ)
    check = report.check("environment")
    assert check is not None
    assert check.status == "WARN"
    assert report.environment == {name: environ[name] for name in environ if name != "HOME"}
    for words in ("expandable segments", "waits for the GPU", "workspaces"):
        assert words in check.why
    harmless = examine(open_nvml(FakeNvml(A), {}), {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_VISIBLE_DEVICES": "0"})
    check = harmless.check("environment")
    assert check is not None
    assert check.status == "PASS"


def test_a_check_that_breaks_is_na_and_the_rest_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Check:
        raise OSError("boom")

    monkeypatch.setattr(doctor, "_pynvml_package", broken)
    report = examine(open_nvml(FakeNvml(A), {}), {})
    check = report.check("pynvml package")
    assert check is not None
    assert (check.status, "boom" in check.why) == ("n/a", True)
    assert len(report.checks) == 9


def test_an_empty_report_promises_recordings_only() -> None:
    assert what_works(DoctorReport())[2] == "recordings: yes"
    assert [line.split(":")[1].strip() for line in what_works(DoctorReport())] == ["no", "no", "yes"]


def doctor_process(prelude: str = "") -> tuple[DoctorReport, str]:
    code = f"import sys\n{prelude}\nfrom cgtop.core.engine.doctor import main\nsys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=240)
    assert done.stdout.count(b"\n") == 1
    json.loads(done.stdout)
    return decode_report(done.stdout), done.stderr.decode()


def test_here_it_prints_one_json_object_and_nothing_else_on_stdout() -> None:
    noise = (
        "import importlib.metadata as m, os; v = m.version; m.version = lambda n: (os.write(1, b'noise\\n'), v(n))[1]"
    )
    report, stderr = doctor_process(noise)
    assert "noise" in stderr
    assert report.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert what_works(report)[1].startswith("live on the CPU: yes")


def test_with_no_torch_at_all_it_says_so() -> None:
    report, _ = doctor_process(
        "import importlib.metadata as m, importlib.util as u; v, f = m.version, u.find_spec\n"
        "def version(n):\n    if n == 'torch': raise m.PackageNotFoundError(n)\n    return v(n)\n"
        "m.version = version; u.find_spec = lambda n, *a: None if n == 'torch' else f(n, *a)\n"
        "sys.modules['torch'] = None"
    )
    assert report.versions["torch"] is None
    assert [line.split(":")[1].strip() for line in what_works(report)] == ["no", "no", "yes"]
    assert "torch is not installed" in what_works(report)[0]


def test_the_report_is_read_without_torch_and_runs_as_a_module() -> None:
    code = "import sys; import cgtop.core.doctor_report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "cgtop.core.engine.doctor"],
        capture_output=True,
        check=True,
        timeout=240,
        env={**os.environ, "CUDA_LAUNCH_BLOCKING": "1"},
    )
    assert decode_report(done.stdout).environment["CUDA_LAUNCH_BLOCKING"] == "1"


def test_a_missing_torch_is_answered_with_a_command_that_works_from_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = CudaFacts(versions={"torch": None, "transformers": None})
    monkeypatch.setattr(doctor, "look", lambda *_: missing)
    check = examine(open_nvml(FakeNvml(A), {}), {}).check("packages")
    assert check is not None and check.status == "FAIL"
    assert 'make run ARGS="--device cpu"' in check.todo and "cgtop[live]" not in check.todo
