"""`cgtop scaling` and `cgtop batches`: what they ask of the engine, their tables, recordings and exit codes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cgtop.core.commands import Command, Quit, RunSweep
from cgtop.core.events import End, Event, Hello, Status, SweepBegin, SweepEnd, SweepRow
from cgtop.core.memory_map import MIB
from cgtop.core.recording import open_recording
from cgtop.core.settings import RunSettings
from cgtop.core.state import RunState, fold
from cgtop.tui.cli import app
from cgtop.tui.commands import gpu, options, phases
from cgtop.tui.report import report
from cgtop.tui.report.sweeps import is_sound
from tests.sample import sample_run
from tests.tui.fake_engine import FakeEngine

TOKEN = 147_456


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "nvidia_gpu", lambda: gpu.Presence(False, "no driver"))
    for name in (*options.HELP, "record", "debug"):
        monkeypatch.delenv(options.env_name(name), raising=False)


def cgtop(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def length_row(tokens: int, **changes: object) -> SweepRow:
    made = SweepRow(
        sweep="cache_lens",
        value=tokens,
        kv_bytes=tokens * TOKEN + 288,
        kv_closed_form_bytes=tokens * TOKEN,
        workspace_bytes=32 * MIB,
        pool_bytes=22 * MIB,
        allocated_bytes=tokens * TOKEN + 32 * MIB,
        driver_bytes=4 * MIB,
        total_bytes=tokens * TOKEN + 58 * MIB,
        peak_bytes=tokens * TOKEN + 40 * MIB,
        tok_s=120.0,
        verdict="identical",
    )
    return msgspec.structs.replace(made, **changes)


def batch_row(strategy: str, size: int, total: int, **changes: object) -> SweepRow:
    made = SweepRow(
        sweep="batches",
        strategy=strategy,
        value=size,
        kv_bytes=size * 144 * MIB,
        kv_closed_form_bytes=size * 144 * MIB,
        total_bytes=total * MIB,
        tok_s=100.0 * size,
        verdict="identical",
    )
    return msgspec.structs.replace(made, **changes)


def lengths(*rows: SweepRow, end: SweepEnd | None = None) -> list[Event]:
    begin = SweepBegin(sweep="cache_lens", values=tuple(row.value for row in rows), strategies=("own",))
    return sweep(begin, *rows, end or SweepEnd(sweep="cache_lens"))


def batches(*rows: SweepRow) -> list[Event]:
    sizes = tuple(dict.fromkeys(row.value for row in rows))
    begin = SweepBegin(sweep="batches", values=sizes, strategies=tuple(dict.fromkeys(row.strategy for row in rows)))
    return sweep(begin, *rows, SweepEnd(sweep="batches", notes=("own: a note",)))


def sweep(*events: Event) -> list[Event]:
    hello = next(event for event in sample_run() if isinstance(event, Hello))
    return [hello, Status(state="running"), *events, Status(state="idle"), End(reason="quit")]


def engine_of(monkeypatch: pytest.MonkeyPatch, events: list[Event]) -> FakeEngine:
    engine = FakeEngine(events)
    monkeypatch.setattr(phases, "start_engine", lambda settings: engine)
    return engine


GOOD = lengths(
    length_row(256),
    length_row(1024),
    end=SweepEnd(
        sweep="cache_lens",
        slope_bytes_per_token=float(TOKEN),
        intercept_bytes=58.0 * MIB,
        r_squared=1.0,
        notes=("slope: a note",),
    ),
)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("scaling",), RunSweep(sweep="cache_lens")),
        (("scaling", "--cache-lens", "512,256"), RunSweep(sweep="cache_lens", values=(512, 256))),
        (("batches",), RunSweep(sweep="batches")),
        (("batches", "--strategy", "all"), RunSweep(sweep="batches")),
        (
            ("batches", "--batch-sizes", "1,4", "--strategy", "paged"),
            RunSweep(sweep="batches", values=(1, 4), strategies=("paged",)),
        ),
    ],
)
def test_the_sweep_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], command: Command
) -> None:
    engine = engine_of(monkeypatch, GOOD)
    cgtop(*arguments, "--device", "cuda")
    assert engine.sent == [command, Quit()]
    assert engine.closed.is_set()


def test_the_table_of_lengths_has_ours_beside_the_guides_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, GOOD)
    result = cgtop("scaling", "--device", "cuda", "--markdown")
    assert result.exit_code == 0, result.output
    cells = [cell.strip() for cell in line_with(result.stdout, "| 1,024 |").strip("|").split("|")]
    assert cells == [
        "1,024", "144.0", "144.0", "32.0", "22.0", "4.0", "176.0", "202.0", "197.3", "202.0", "184.0", "120.0",
        "identical", "161", "157",
    ]  # fmt: skip
    assert "overhead = 58.0 MiB + 147,456 B × tokens (least squares, r² = 1.000000)" in result.stdout
    assert "slope: a note" in result.stdout


def test_the_table_of_batch_sizes_names_each_strategy_once_with_its_total(monkeypatch: pytest.MonkeyPatch) -> None:
    paged = batch_row("paged", 2, 500, pages_in_use=18, page_bytes=2_359_296)
    engine_of(monkeypatch, batches(batch_row("own", 1, 400), batch_row("own", 2, 1000), paged,
                                   batch_row("paged", 1, 500, pages_in_use=9, page_bytes=2_359_296)))  # fmt: skip
    result = cgtop("batches", "--device", "cuda")
    assert result.exit_code == 0, result.output
    assert "own: 1,000.0 MiB for 2 batch sizes\n" in result.stdout
    assert "paged: 500.0 MiB for 2 batch sizes, 50 % of own" in result.stdout
    assert "at batch 2 18 pages, 40.5 MiB, hold tokens" in result.stdout
    first, second, *_ = (line for line in result.stdout.splitlines() if line.strip().endswith("identical"))
    assert first.split()[:2] == ["own", "1"] and second.split()[0] == "2"
    assert "own: a note" in result.stdout


def test_json_lines_are_the_rows_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, GOOD)
    result = cgtop("scaling", "--device", "cuda", "--json")
    kinds = [msgspec.json.decode(line)["event"] for line in result.stdout.splitlines()]
    assert kinds == ["hello", "status", "sweep_begin", "sweep_row", "sweep_row", "sweep_end", "status", "end"]


def test_out_of_memory_keeps_the_rows_says_what_to_do_and_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SweepRow(
        sweep="batches",
        value=8,
        status="out_of_memory",
        reason="out of memory: 1.50 GiB needed, 512.0 MiB free",
        hint="Try --max-cache-len 512 (now 1024).",
        pool_bytes=99 * MIB,
    )
    engine_of(monkeypatch, batches(batch_row("own", 1, 400), failed))
    result = cgtop("batches", "--device", "cuda")
    assert result.exit_code == 1
    assert "400.0" in result.stdout and "99.0" not in result.stdout
    assert "own, 8: out of memory: 1.50 GiB needed, 512.0 MiB free\n  Try --max-cache-len 512" in result.stderr


def test_a_mismatch_shows_no_speed_and_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, lengths(length_row(256, verdict="mismatch", tok_s=None, reason="other logits")))
    result = cgtop("scaling", "--device", "cuda")
    assert result.exit_code == 1
    assert "MISMATCH" in result.stdout and "not valid" in result.stdout and "other logits" in result.stderr


def test_the_figures_behind_each_verdict_are_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = {"verdict": "within_eager_noise", "max_difference": 0.125, "eager_difference": 0.1467}
    engine_of(monkeypatch, lengths(length_row(256, **noisy)))
    shown = cgtop("scaling", "--device", "cuda", "--markdown").stdout
    (heading,) = [line for line in shown.splitlines() if line.startswith("| tokens")]
    (figures,) = [line for line in shown.splitlines() if line.startswith("| 256")]
    cells = dict(zip(heading.split("|"), figures.split("|"), strict=True))
    assert {cells[" replay "], cells[" off by "], cells[" eager's own "]} == {" within noise ", " 0.125 ", " 0.147 "}
    assert "from the nearest eager run" in shown
    engine_of(monkeypatch, batches(batch_row("own", 1, 200, **noisy), batch_row("own", 2, 400)))
    assert "0.147" in cgtop("batches", "--device", "cuda", "--markdown").stdout


def test_a_refused_sweep_exits_1_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    hello = next(event for event in sample_run() if isinstance(event, Hello))
    refused = Status(state="idle", refused="run_sweep", why="no room to decode")
    engine_of(monkeypatch, [hello, refused, End(reason="quit")])
    result = cgtop("scaling", "--device", "cuda")
    assert result.exit_code == 1
    assert "no room to decode" in result.stderr and not result.stdout


@pytest.mark.parametrize("command", ["scaling", "batches"])
def test_without_a_gpu_there_is_nothing_to_measure_on(command: str) -> None:
    for arguments in ((command,), (command, "--device", "cpu")):
        result = cgtop(*arguments)
        assert result.exit_code == 3
        assert result.stderr and not result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("scaling", "--cache-lens", "256,x"),
        ("scaling", "--cache-lens", "1"),
        ("batches", "--batch-sizes", "0"),
        ("batches", "--strategy", "nonsense"),
        ("batches", "--json", "--markdown"),
    ],
)
def test_wrong_usage_exits_2(arguments: tuple[str, ...]) -> None:
    result = cgtop(*arguments, "--device", "cuda")
    assert result.exit_code == 2
    assert result.stderr and not result.stdout


class Interrupted(FakeEngine):
    """An engine during whose second row a signal comes."""

    def events(self) -> Iterator[Event]:
        for event in super().events():
            if isinstance(event, SweepRow) and event.value == 1024:
                os.kill(os.getpid(), signal.SIGTERM)
            yield event


def test_an_interrupted_sweep_keeps_its_rows_and_its_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl.gz"
    monkeypatch.setattr(phases, "start_engine", lambda settings: Interrupted(GOOD))
    result = cgtop("scaling", "--device", "cuda", "--record", str(path))
    assert result.exit_code == 128 + signal.SIGTERM
    assert "has not come to its end" in result.stdout or "overhead" in result.stdout
    assert line_with(result.stdout, "   256 ")
    recorded = open_recording(path).events
    assert [event.value for event in recorded if isinstance(event, SweepRow)][:1] == [256]
    played = cgtop("play", str(path), "--once")
    assert played.exit_code == 0 and line_with(played.stdout, "   256 ")


def test_a_sweep_is_sound_only_with_every_row_measured_and_right() -> None:
    def folded(events: list[Event]) -> RunState:
        state = RunState()
        for event in events:
            state = fold(state, event)
        return state

    assert is_sound(folded(GOOD).sweeps["cache_lens"])
    for events in (
        GOOD[:5],
        [*GOOD[:4], *GOOD[5:]],
        lengths(length_row(256, status="failed")),
        lengths(length_row(256, verdict="mismatch")),
        lengths(length_row(256), end=SweepEnd(sweep="cache_lens", cancelled=True)),
        lengths(),
    ):
        assert not is_sound(folded(events).sweeps["cache_lens"])


def test_the_report_of_a_whole_run_has_its_sweeps() -> None:
    state = RunState()
    for event in GOOD:
        state = fold(state, event)
    titles = [section.title for section in report(state).sections]
    assert any(title.startswith("Cache lengths") for title in titles)


def test_the_strategies_of_the_command_are_those_of_the_engine() -> None:
    from typing import get_args

    from cgtop.core.engine.strategies import STRATEGIES

    assert get_args(options.StrategyChoice) == (*STRATEGIES, "all")


def line_with(text: str, part: str) -> str:
    return next(line for line in text.splitlines() if part in line)


def test_settings_reach_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunSettings] = []

    def start(settings: RunSettings) -> FakeEngine:
        asked.append(settings)
        return FakeEngine(GOOD)

    monkeypatch.setattr(phases, "start_engine", start)
    cgtop("scaling", "--device", "cuda", "--model", "qwen3-0.6b", "--batch-size", "2")
    assert asked == [RunSettings(device="cuda", model="qwen3-0.6b", batch_size=2)]


@pytest.mark.parametrize(("command", "experiment"), [("batches", "-batches"), ("bench", "-bench"), ("check", "-check")])
def test_without_a_gpu_the_recording_that_answers_the_same_question_is_named(command: str, experiment: str) -> None:
    result = cgtop(command)
    assert result.exit_code == 3
    assert "doctor says what is missing" in result.stderr
    assert f"{experiment}.jsonl.gz plays a recorded one" in result.stderr
