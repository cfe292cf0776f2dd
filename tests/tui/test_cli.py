"""The command line: what goes to which stream, and the exit codes."""

import typing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cgtop.core.commands import Quit, RunAll
from cgtop.core.engine.nvml import Nvml, open_nvml
from cgtop.core.events import Event, Hello, decode_event
from cgtop.core.recorder import RecordingError
from cgtop.core.recording import RecordingWriter, open_recording
from cgtop.core.settings import RunSettings
from cgtop.tui.cli import app
from cgtop.tui.commands import gpu, options, phases, top
from tests.fakes.nvml import FakeCard, FakeNvml
from tests.sample import sample_run
from tests.tui.fake_engine import FakeEngine, stream


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU, whatever it is really."""
    for module in (phases, top):
        monkeypatch.setattr(module, "nvidia_gpu", lambda: gpu.Presence(False, "no driver"))
    for name in (*options.HELP, "record", "debug"):
        monkeypatch.delenv(options.env_name(name), raising=False)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl.gz"
    writer = RecordingWriter(path)
    for event in sample_run(decode_events=5):
        writer.write(event)
    writer.close()
    return path


def cgtop(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, arguments, env=env)


def engine_of(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[FakeEngine, list[RunSettings]]:
    engine, asked = FakeEngine(stream(name)), list[RunSettings]()

    def start(settings: RunSettings) -> FakeEngine:
        asked.append(settings)
        return engine

    monkeypatch.setattr(phases, "start_engine", start)
    return engine, asked


def events_of(text: str) -> list[Event]:
    events = [decode_event(line.encode()) for line in text.splitlines()]
    assert all(event is not None for event in events)
    return typing.cast("list[Event]", events)


# ------------------------------------------------------------------------------------------------------- options


def test_every_setting_is_an_option_with_the_same_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(options.HELP) == {field.name for field in msgspec.structs.fields(RunSettings)}
    _, asked = engine_of(monkeypatch, "fine")
    assert cgtop("phases", "--device", "cpu").exit_code == 0
    assert asked == [RunSettings(device="cpu")]


def test_options_come_from_the_command_line_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _, asked = engine_of(monkeypatch, "fine")
    env = {"CGTOP_DEVICE": "cpu", "CGTOP_BATCH_SIZE": "4", "CGTOP_MODE": "eager", "CGTOP_GUIDE_STREAMS": "1"}
    assert cgtop("phases", "--batch-size", "2", **env).exit_code == 0
    assert asked == [RunSettings(device="cpu", batch_size=2, mode="eager", guide_streams=True)]


def test_help_names_every_option_but_the_one_for_demonstrations() -> None:
    shown = cgtop("phases", "--help").stdout
    for name in options.HELP:
        assert (f"--{name.replace('_', '-')}" in shown) == (name not in options.HIDDEN)


@pytest.mark.parametrize(
    "arguments",
    [
        ("phases", "--device", "cpu", "--warmup", "1000"),
        ("phases", "--device", "tpu"),
        ("phases", "--mode", "fast"),
        ("phases", "--json", "--markdown"),
        ("--model", "tiny", "phases"),
        ("play", "no-such-file"),
        ("nonsense",),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    result = cgtop(*arguments)
    assert result.exit_code == 2
    assert result.stderr.strip()
    assert not result.stdout


# -------------------------------------------------------------------------------------------------------- phases


def test_phases_without_a_gpu_exits_3_and_says_what_is_missing() -> None:
    result = cgtop("phases")
    assert result.exit_code == 3
    assert "no driver" in result.stderr
    assert "--device cpu" in result.stderr
    assert not result.stdout


def test_phases_runs_everything_and_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = engine_of(monkeypatch, "fine")
    result = cgtop("phases", "--device", "cpu")
    assert result.exit_code == 0
    assert engine.asked_for == [RunAll, Quit]
    assert engine.sent[0] == RunAll(release=True)
    assert engine.closed.is_set()
    assert result.stdout.startswith("cgtop  LIVE")


def test_json_lines_are_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "fine")
    result = cgtop("phases", "--device", "cpu", "--json")
    assert events_of(result.stdout) == stream("fine")


def test_markdown_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "fine")
    result = cgtop("phases", "--device", "cpu", "--markdown")
    assert "| load | done | 7,672.0 | +7,672.0 |" in result.stdout


def test_a_mismatch_exits_1_and_shows_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "mismatch")
    result = cgtop("phases", "--device", "cpu")
    assert result.exit_code == 1
    assert "MISMATCH" in result.stdout
    assert "MISMATCH" in result.stderr
    assert "125.0" not in result.stdout


def test_out_of_memory_exits_1_with_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "out_of_memory")
    result = cgtop("phases", "--device", "cpu")
    assert result.exit_code == 1
    assert "7,672.0" in result.stdout
    assert "static cache: Out of memory" in result.stdout
    assert "cgtop: Out of memory\n  --batch-size 1\n" in result.stderr


def test_a_gpu_that_torch_cannot_use_exits_3_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "wrong_architecture")
    result = cgtop("phases", "--device", "cuda")
    assert result.exit_code == 3
    assert "torch has no code for sm_70" in result.stderr
    assert not result.stdout


def test_a_dead_worker_exits_1_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "died")
    result = cgtop("phases", "--device", "cpu")
    assert result.exit_code == 1
    assert "killed by SIGKILL" in result.stderr
    assert "last words" in result.stderr


def test_a_recorded_run_plays_as_the_same_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine_of(monkeypatch, "fine")
    path = tmp_path / "run.jsonl.gz"
    live = cgtop("phases", "--device", "cpu", "--record", str(path))
    assert isinstance(open_recording(path).events[0], Hello)
    played = cgtop("play", str(path), "--once")
    assert played.exit_code == 0
    assert played.stdout.splitlines()[1:] == live.stdout.splitlines()[1:]
    assert played.stdout.startswith("cgtop  RECORDED 2026-11-30 on NVIDIA Sample GPU, not live · qwen3-4b")


def test_nothing_is_run_for_a_recording_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cgtop.tui.commands.phases.start_engine", raised_if_called)
    result = cgtop("phases", "--device", "cpu", "--record", str(tmp_path / "none" / "run.jsonl"))
    assert result.exit_code == 2 and not result.stdout
    assert "cannot record to" in result.stderr and "nothing was run" in result.stderr


def raised_if_called(*_: object) -> None:
    raise AssertionError("a run was started")


def test_a_recording_that_breaks_off_is_told_of_once_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise RecordingError("cannot record to run.jsonl: No space left on device")

    engine_of(monkeypatch, "fine")
    monkeypatch.setattr(RecordingWriter, "flush", full)
    result = cgtop("phases", "--device", "cpu", "--record", str(tmp_path / "run.jsonl"))
    assert result.exit_code == 0 and "replay" in result.stdout
    assert result.stderr.count("the run goes on") == 1


# ---------------------------------------------------------------------------------------------- play and bare cgtop


def test_bare_cgtop_without_a_gpu_shows_the_recorded_run(monkeypatch: pytest.MonkeyPatch, recording: Path) -> None:
    monkeypatch.setattr(top, "bundled_recording", lambda: recording)
    for arguments in ((), ("--once",)):
        result = cgtop(*arguments)
        assert result.exit_code == 0
        assert result.stdout.startswith("cgtop  RECORDED")
        assert "--device cpu" in result.stderr
        assert "\x1b" not in result.stdout + result.stderr


def test_bare_cgtop_json_gives_the_recorded_lines(monkeypatch: pytest.MonkeyPatch, recording: Path) -> None:
    monkeypatch.setattr(top, "bundled_recording", lambda: recording)
    result = cgtop("--json")
    assert isinstance(events_of(result.stdout)[0], Hello)
    assert "RECORDED" in result.stderr


def test_bare_cgtop_gives_the_report_in_markdown(monkeypatch: pytest.MonkeyPatch, recording: Path) -> None:
    monkeypatch.setattr(top, "bundled_recording", lambda: recording)
    result = cgtop("--markdown")
    assert result.exit_code == 0
    assert result.stdout.startswith("# cgtop\n\n**RECORDED")


def test_settings_that_a_recorded_run_cannot_follow_are_named(monkeypatch: pytest.MonkeyPatch, recording: Path) -> None:
    monkeypatch.setattr(top, "bundled_recording", lambda: recording)
    result = cgtop("--once", "--model", "tiny", "--max-cache-len", "512")
    assert result.exit_code == 0
    assert "of live runs only, so not used: --model, --max-cache-len" in result.stderr
    assert "not used" not in cgtop("--once").stderr


def test_bare_cgtop_with_a_device_named_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "fine")
    assert cgtop("--device", "cpu").stdout.startswith("cgtop  LIVE")


def test_bare_cgtop_with_a_gpu_and_torch_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, "fine")
    for module in (phases, top):
        monkeypatch.setattr(module, "nvidia_gpu", lambda: gpu.Presence(True))
    assert cgtop("--once").stdout.startswith("cgtop  LIVE")


def test_an_installation_without_a_recording_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "bundled_recording", lambda: None)
    result = cgtop("--once")
    assert result.exit_code == 3
    assert "no recorded run" in result.stderr


def test_a_file_that_is_no_recording_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "foreign.txt"
    path.write_text("not a recording\n")
    result = cgtop("play", str(path))
    assert result.exit_code == 1
    assert "is not a recording" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_traceback_is_shown_only_when_asked_for(monkeypatch: pytest.MonkeyPatch, recording: Path) -> None:
    def broken(_path: Path) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("cgtop.tui.commands.play.open_recording", broken)
    quiet, loud = cgtop("play", str(recording)), cgtop("play", str(recording), "--debug")
    assert quiet.exit_code == loud.exit_code == 1
    assert "RuntimeError: a fault" in quiet.stderr
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr


def test_version_names_the_program() -> None:
    assert cgtop("--version").stdout.startswith("cgtop ")


@pytest.mark.parametrize(("value", "found"), [("", False), ("-1", False), ("99", False), ("0", True), (None, True)])
def test_a_hidden_gpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch, value: str | None, found: bool) -> None:
    environ = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    monkeypatch.setattr(gpu, "shared_nvml", lambda: open_nvml(FakeNvml(FakeCard("GPU-1")), environ))
    presence = gpu.nvidia_gpu()
    assert presence.found is found
    assert bool(presence.why) is not found


def test_without_nvml_there_is_no_gpu_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "shared_nvml", lambda: Nvml(None, "no NVIDIA driver is loaded", {}))
    assert gpu.nvidia_gpu() == gpu.Presence(False, "no NVIDIA driver is loaded")


def test_what_a_device_will_be_is_known_before_a_worker_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "shared_nvml", lambda: open_nvml(FakeNvml(FakeCard("GPU-1")), {}))
    found = gpu.expected_device(RunSettings())
    assert found is not None and (found.name, found.capability) == ("NVIDIA Sample GPU", "9.0")
    on_cpu = gpu.expected_device(RunSettings(device="cpu"))
    assert on_cpu is not None and on_cpu.kind == "cpu" and on_cpu.name
    monkeypatch.setattr(gpu, "shared_nvml", lambda: Nvml(None, "no NVIDIA driver is loaded", {}))
    assert gpu.expected_device(RunSettings()) is None
