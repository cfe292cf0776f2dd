"""The command line as a process: streams, pipes, signals, and what it does not import."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from cgtop.core.events import End, decode_event
from cgtop.core.recording import RecordingWriter
from cgtop.tui.__main__ import main as entry_point
from tests.sample import sample_run
from tests.tui.fake_engine import HANGS_AFTER, SLOW_TO_CLOSE, WAITING

ROOT = Path(__file__).parents[2]
CGTOP = (sys.executable, "-m", "cgtop.tui")
FAKE = (sys.executable, "-m", "tests.tui.fake_engine")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl.gz"
    writer = RecordingWriter(path)
    for event in sample_run(decode_events=300):
        writer.write(event)
    writer.close()
    return path


def run(*command: str, stdin: int = subprocess.DEVNULL, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CGTOP_")} | env
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdin=stdin, capture_output=True, text=True, encoding="utf-8", timeout=240
    )


def wait_until_it_hangs(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    assert any(line.strip() == WAITING.encode() for line in iter(process.stderr.readline, b""))


def test_without_a_terminal_the_report_is_plain_and_the_program_ends(recording: Path) -> None:
    result = run(*CGTOP, "play", str(recording), TERM="xterm-256color", FORCE_COLOR="1")
    assert result.returncode == 0
    assert "Phase by phase" in result.stdout
    assert "\x1b" not in result.stdout + result.stderr


def test_a_locale_that_cannot_write_a_delta_is_no_failure(recording: Path) -> None:
    result = run(*CGTOP, "play", str(recording), "--once", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "? alloc." in result.stdout


@pytest.mark.parametrize("form", ["--once", "--json", "--markdown"])
def test_a_reader_that_stops_reading_is_no_traceback(recording: Path, form: str) -> None:
    with subprocess.Popen(
        [*CGTOP, "play", str(recording), form], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(240) == 128 + signal.SIGPIPE
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_with_what_was_measured(number: signal.Signals, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    with subprocess.Popen(
        [*FAKE, "hang", "phases", "--device", "cpu", "--json", "--record", str(record)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(HANGS_AFTER)]
        wait_until_it_hangs(process)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=240)
    assert process.returncode == 128 + number
    last = decode_event(rest.splitlines()[-1])
    assert isinstance(last, End)
    assert (last.signal, last.exit_code) == (number, 128 + number)
    assert number.name.encode() in errors
    assert b"Traceback" not in errors
    assert len(record.read_bytes().splitlines()) == len(lines) + 1


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_one_after_the_other_are_no_traceback(number: signal.Signals, seconds: float) -> None:
    with subprocess.Popen(
        [*FAKE, "hang", "phases", "--device", "cpu", "--json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env=os.environ | {SLOW_TO_CLOSE: "0.5"},
    ) as process:  # fmt: skip
        wait_until_it_hangs(process)
        for _ in range(4):
            process.send_signal(number)
            time.sleep(seconds)
        out, errors = process.communicate(timeout=30)
    # One that comes when all is told and only the interpreter has to end ends it as a shell would.
    assert process.returncode in (128 + number, -number)
    assert isinstance(decode_event(out.splitlines()[-1]), End)
    assert b"Traceback" not in errors


def test_a_run_whose_output_nobody_takes_ends_by_the_second_or_third_signal() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    with subprocess.Popen(
        [*FAKE, "hang", "phases", "--device", "cpu", "--json"],
        cwd=ROOT, stdout=write, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        time.sleep(1.5)
        for _ in range(7):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        assert process.wait(1) in (128 + signal.SIGINT, -signal.SIGINT)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    os.close(write)
    os.close(read)


def test_an_interrupt_while_python_still_imports_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "cgtop.tui.cli", Interrupted("cgtop.tui.cli"))
    with pytest.raises(SystemExit) as left:
        entry_point()
    assert left.value.code == 130


def test_an_interrupted_run_prints_its_report() -> None:
    with subprocess.Popen(
        [*FAKE, "hang", "phases", "--device", "cpu"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        wait_until_it_hangs(process)
        process.terminate()
        out, _ = process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"7,672.0" in out
    assert b"interrupted by SIGTERM" in out


@pytest.mark.parametrize(
    ("name", "code"), [("fine", 0), ("mismatch", 1), ("out_of_memory", 1), ("wrong_architecture", 3), ("died", 1)]
)
def test_exit_codes_of_runs(name: str, code: int) -> None:
    result = run(*FAKE, name, "phases", "--device", "cpu")
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_nothing_heavy_is_imported_for_help_or_a_report(recording: Path) -> None:
    code = """
import atexit, sys
from cgtop.tui import cli
heavy = {"torch", "transformers", "textual", "rich"}
atexit.register(lambda: print("LOADED", *sorted(sys.modules.keys() & heavy), file=sys.stderr))
cli.main()
"""
    shown = run(sys.executable, "-c", code, "--help")
    assert shown.stderr.splitlines()[-1].strip() == "LOADED"
    reported = run(sys.executable, "-c", code, "play", str(recording), "--once")
    assert reported.stderr.splitlines()[-1] == "LOADED rich"


def test_doctor_shows_what_works_here() -> None:
    result = run(*CGTOP, "doctor")
    assert result.returncode == 0
    for part in ("What works here", "recordings: yes", "packages", "Versions"):
        assert part in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("form", ["--once", "--json"])
def test_a_closed_standard_stream_is_no_traceback(recording: Path, closed: str, form: str) -> None:
    result = run("bash", "-c", f"{' '.join(CGTOP)} play {recording} {form} {closed}")
    assert result.returncode == 0
    assert "Traceback" not in result.stdout + result.stderr
    assert "NoneType" not in result.stdout + result.stderr
