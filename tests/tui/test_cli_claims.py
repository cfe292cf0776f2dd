"""`cgtop claims`: by recordings, by the bundled ones, or by a run made for it."""

import typing
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cgtop.core.bundled import telling_states
from cgtop.core.claims import STATEMENTS
from cgtop.core.commands import BreakInput, Command, MendInput, Quit, RunAll, RunSweep, TryDynamicCapture
from cgtop.core.events import (
    Claim,
    Decode,
    DynamicCapture,
    End,
    Error,
    Event,
    PhaseEnd,
    Status,
    SweepEnd,
    SweepRow,
    decode_event,
)
from cgtop.core.recording import RecordingWriter, open_recording
from cgtop.core.settings import RunSettings
from cgtop.tui.cli import app
from cgtop.tui.commands import claims, gpu, options, top
from cgtop.tui.commands.script import Scripted
from tests.core.guide_run import demonstration
from tests.sample import sample_run
from tests.tui.fake_engine import FakeEngine


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "nvidia_gpu", lambda: gpu.Presence(False, "no driver"))
    for name in (*options.HELP, "record", "debug"):
        monkeypatch.delenv(options.env_name(name), raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("claims", *arguments))


def claims_of(result: Result) -> dict[str, Claim]:
    events = [decode_event(line.encode()) for line in result.stdout.splitlines()]
    return {event.id: event for event in events if isinstance(event, Claim)}


def record(path: Path, events: list[Event]) -> Path:
    writer = RecordingWriter(path)
    for event in events:
        writer.write(event)
    writer.close()
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path / "run.jsonl", sample_run(decode_events=5))


def test_a_recording_is_judged_statement_by_statement(recording: Path) -> None:
    result = run(str(recording), "--json")
    assert result.exit_code == 0
    assert list(claims_of(result)) == [statement.id for statement in STATEMENTS]
    assert len(result.stdout.splitlines()) == len(STATEMENTS)
    assert claims_of(result)["speed.faster"].verdict == "holds"


def test_a_perturbed_recording_flips_a_verdict(tmp_path: Path) -> None:
    events = [
        msgspec.structs.replace(event, allocations=1, device_allocations=1)
        if isinstance(event, PhaseEnd) and event.phase == "replay"
        else event
        for event in sample_run(decode_events=5)
    ]
    good = claims_of(run(str(record(tmp_path / "good.jsonl", sample_run(decode_events=5))), "--json"))
    bad = claims_of(run(str(record(tmp_path / "bad.jsonl", events)), "--json"))
    assert (good["phases.replay"].verdict, bad["phases.replay"].verdict) == ("holds", "does_not_hold")
    assert "1 allocation, 1 of" in bad["phases.replay"].finding


def test_several_recordings_complete_each_other(tmp_path: Path, recording: Path) -> None:
    rows: list[Event] = [
        SweepRow(sweep="cache_lens", value=n, allocated_bytes=n * 147_456 + (32 << 20)) for n in (256, 512, 1024)
    ]
    other = record(tmp_path / "sweep.jsonl", [sample_run(decode_events=1)[0], *rows])
    alone = claims_of(run(str(recording), "--json"))
    both = claims_of(run(str(recording), str(other), "--json"))
    assert (alone["lengths.linear"].verdict, both["lengths.linear"].verdict) == ("not_measured", "holds")
    assert both["speed.faster"].verdict == alone["speed.faster"].verdict
    assert both["speed.faster"].finding == f"{alone['speed.faster'].finding} From run.jsonl."
    assert both["lengths.linear"].finding.endswith(" From sweep.jsonl.")
    shown = run(str(recording), str(other)).stdout
    assert shown.startswith("cgtop claims  RECORDED 2026-11-30 on NVIDIA Sample GPU, not live · 2 runs")
    for name in ("run.jsonl", "sweep.jsonl"):
        [line] = [line for line in shown.splitlines() if line.startswith(f"{name} ")]
        assert "NVIDIA Sample GPU" in line and "qwen3-4b bfloat16" in line and "2026-11-30T" in line


def test_runs_of_one_file_and_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    several = [*sample_run(decode_events=1), *sample_run(decode_events=1)]
    names = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        names.append(str(record(tmp_path / folder / "run.jsonl", several if folder == "a" else several[:-1])))
    [states] = [telling_states(open_recording(Path(names[0])).events)]
    assert [named.name for named in claims.named_runs(states, "x")] == ["x run 2", "x run 1"]
    shown = "".join(run(*names, "--markdown").stdout)
    for name in names:
        for number in (1, 2):
            assert f"| {name} run {number} |" in shown


def test_without_a_gpu_the_bundled_runs_are_judged_and_said_to_be_recorded() -> None:
    result = run()
    assert result.exit_code == 0
    assert "not live" in result.stdout.splitlines()[0] and "this machine" not in result.stdout + result.stderr
    assert "no driver" in result.stderr and "come with cgtop" in result.stderr
    assert "holds" in result.stdout and "The workflow" in result.stdout


def test_what_the_bundled_runs_cannot_follow_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    told = run("--model", "tiny", "--record", str(kept)).stderr
    assert "of live runs only, so not used: --model" in told and "nothing is recorded" in told
    assert not kept.exists() and "not used" not in run().stderr


def test_markdown_has_a_table_for_each_part(recording: Path) -> None:
    shown = run(str(recording), "--markdown").stdout
    assert shown.startswith("# cgtop claims") and shown.count("| the guide says |") == 9


def test_what_makes_no_sense_is_refused(recording: Path, tmp_path: Path) -> None:
    assert run(str(recording), "--record", str(tmp_path / "x")).exit_code == 2
    assert run(str(tmp_path / "none")).exit_code == 2
    (tmp_path / "foreign").write_text("hello\n")
    assert run(str(tmp_path / "foreign")).exit_code == 1


# ---------------------------------------------------------------------------------------------------------- live


class Answering(FakeEngine):
    """Carries out each command as it is sent; `answers` are its events for each kind."""

    def __init__(self, answers: dict[type[Command], list[Event]]) -> None:
        super().__init__([])
        self._answers = answers
        self._waiting: list[Event] = []

    def send(self, command: Command) -> bool:
        self._waiting += self._answers.get(type(command), [])
        return super().send(command)

    def events(self) -> Iterator[Event]:
        while self._waiting:
            event = self._waiting.pop(0)
            yield event
            if isinstance(event, End):
                return


IDLE = Status(state="idle")


def answers(**changes: list[Event]) -> dict[type[Command], list[Event]]:
    events = sample_run(decode_events=3)
    release = next(i for i, event in enumerate(events) if isinstance(event, PhaseEnd) and event.phase == "release")
    return {
        RunAll: [*events[: release - 1], IDLE],
        TryDynamicCapture: [DynamicCapture(captured=True, replays=4, length_before=32, length_after=32), IDLE],
        BreakInput: [demonstration("broken", (5, 5)), IDLE],
        MendInput: [demonstration("mended", (5, 6)), IDLE],
        Quit: [End(reason="quit")],
    }


class Sequence(Answering):
    """As a session: the second `RunAll` releases."""

    def __init__(self, answers: dict[type[Command], list[Event]]) -> None:
        super().__init__(answers)
        self._runs = 0

    def send(self, command: Command) -> bool:
        if isinstance(command, RunAll) and command.release:
            self._waiting.append(Status(state="released"))
            self.sent.append(command)
            return True
        return super().send(command)


def live(
    monkeypatch: pytest.MonkeyPatch, given: dict[type[Command], list[Event]]
) -> tuple[list[Sequence], list[RunSettings]]:
    engines: list[Sequence] = []
    asked: list[RunSettings] = []

    def start(settings: RunSettings) -> Sequence:
        asked.append(settings)
        engines.append(Sequence(given))
        return engines[-1]

    monkeypatch.setattr(claims, "start_engine", start)
    return engines, asked


def test_a_live_run_does_all_that_can_be_judged_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engines, asked = live(monkeypatch, answers())
    kept = tmp_path / "kept.jsonl"
    result = run("--device", "cpu", "--quick", "--json", "--record", str(kept))
    assert result.exit_code == 0, result.stderr
    assert engines[0].asked_for == [RunAll, TryDynamicCapture, BreakInput, MendInput, RunAll, Quit]
    assert engines[0].sent[4] == RunAll(release=True)
    found = claims_of(result)
    assert found["addresses.fixed"].verdict == "holds"
    assert found["caches.graph"].verdict == "other_reason"
    assert [event for event in open_recording(kept).events if isinstance(event, Claim)] == [
        msgspec.structs.replace(claim) for claim in found.values()
    ]
    assert len(asked) == 1


def test_the_full_run_sweeps_and_then_tries_fewer_warmups_and_the_guides_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = answers()
    given[RunSweep] = [SweepEnd(sweep="cache_lens"), SweepEnd(sweep="batches"), IDLE]
    engines, asked = live(monkeypatch, given)
    result = run("--device", "cpu")
    assert result.exit_code == 0, result.stderr
    assert engines[0].asked_for.count(RunSweep) == 2
    assert [(settings.warmup, settings.guide_streams) for settings in asked] == [
        (3, False),
        (0, False),
        (1, False),
        (3, True),
    ]
    assert engines[1].asked_for[:2] == [RunAll, Quit]
    assert "LIVE" in result.stdout


def test_a_refused_step_is_left_behind_and_a_lost_worker_ends_it() -> None:
    given = answers()
    given[TryDynamicCapture] = [Status(state="idle", refused="try_dynamic_capture", why="needs CUDA")]
    inner = Sequence(given)
    script = Scripted(inner, (RunAll(), TryDynamicCapture(), BreakInput(), RunAll(release=True)))
    script.send(RunAll(release=True))
    seen = list(script.events())
    assert inner.asked_for == [RunAll, TryDynamicCapture, BreakInput, RunAll]
    assert any(isinstance(event, Decode) for event in seen)

    given[TryDynamicCapture] = [Error(kind="device_lost", headline="lost", recoverable=False), End(reason="lost")]
    inner = Sequence(given)
    script = Scripted(inner, (RunAll(), TryDynamicCapture(), BreakInput()))
    script.send(RunAll())
    assert isinstance(list(script.events())[-1], End)
    assert inner.asked_for == [RunAll, TryDynamicCapture]
    assert script.send(Quit()) and typing.cast(FakeEngine, inner).asked_for[-1] is Quit


def test_quit_waits_for_the_end_of_the_last_step() -> None:
    inner = Sequence(answers())
    script = Scripted(inner, (RunAll(), RunAll(release=True)))
    script.send(RunAll())
    for event in script.events():
        released = isinstance(event, Status) and event.state == "released"
        if not released:  # the last step may have been sent, and is not over
            assert script.send(Quit()) and Quit not in inner.asked_for
    script.send(Quit())
    assert inner.asked_for == [RunAll, RunAll, Quit]
