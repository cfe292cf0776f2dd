"""`cgtop bench`: what is asked of the engine, what is written, what is flagged, and the exit codes."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from cgtop.core.commands import Quit, RunBench
from cgtop.core.events import Comparison, End, Status, decode_event
from cgtop.core.state import RunState
from cgtop.tui.cli import app
from cgtop.tui.commands import gpu, options, phases
from cgtop.tui.report.bench import bench_sections
from tests.sample import hello
from tests.tui.experiments import COMPARED, EAGER, GRAPH, carried_out, engine_of

REFUSED = Status(state="idle", refused="run_bench", why="mend it first")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "nvidia_gpu", lambda: gpu.Presence(False, "no driver"))
    for name in (*options.HELP, "record", "debug"):
        monkeypatch.delenv(options.env_name(name), raising=False)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("bench", *arguments))


def changed(**changes: object) -> Comparison:
    return msgspec.structs.replace(COMPARED, **changes)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ((), RunBench(modes=("eager", "graph"), tokens=64)),
        (("--mode", "both", "--tokens", "16"), RunBench(modes=("eager", "graph"), tokens=16)),
        (("--mode", "all", "--rounds", "4"), RunBench(modes=("eager", "dynamic", "graph"), rounds=4)),
        (("--mode", "graph"), RunBench(modes=("graph",))),
    ],
)
def test_modes_tokens_and_rounds_go_to_the_engine(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], command: RunBench
) -> None:
    engine, asked = engine_of(monkeypatch, carried_out(COMPARED))
    assert bench("--device", "cuda", "--prompt-len", "128", *arguments).exit_code == 0
    assert engine.sent == [command, Quit()] and engine.closed.is_set()
    assert (asked[0].prompt_len, asked[0].device) == (128, "cuda")


def test_the_report_has_speeds_ratio_interval_and_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(changed(rounds=4, final=False), COMPARED))
    text = bench("--device", "cuda").stdout
    assert text.startswith("cgtop bench  LIVE · NVIDIA Sample GPU")
    for figure in ("×5.61 (95 % ×5.58 to ×5.64)", "115.0", "20.5", "2,338", "2,441", "31.50 ms", "4.25 TB/s", "263 W"):
        assert figure in text
    assert "with care" not in text and "IDENTICAL" in text


def test_markdown_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(COMPARED))
    assert "| graph | 115.0 |" in bench("--device", "cuda", "--markdown").stdout
    engine_of(monkeypatch, carried_out(COMPARED))
    lines = bench("--device", "cuda", "--json").stdout.splitlines()
    assert [decode_event(line.encode()) for line in lines] == carried_out(COMPARED)


def test_a_recorded_bench_is_played_with_its_speeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine_of(monkeypatch, carried_out(COMPARED))
    path = tmp_path / "bench.jsonl.gz"
    assert bench("--device", "cuda", "--record", str(path)).exit_code == 0
    played = CliRunner().invoke(app, ("play", str(path), "--once")).stdout
    assert "RECORDED" in played and "×5.61 (95 % ×5.58 to ×5.64)" in played


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"throttled": ("power cap",)}, "held down during a round: power cap"),
        ({"steady": False}, "the clock was not steady"),
        ({"final": False}, "broken off"),
    ],
)
def test_what_spoils_a_comparison_is_flagged(changes: dict[str, object], words: str) -> None:
    titles = {section.title: section.lines for section in bench_sections(RunState(comparison=changed(**changes)))}
    assert any(words in line for line in titles["To be read with care"])


def test_what_is_unknown_is_na_and_a_ratio_of_few_rounds_has_no_interval() -> None:
    arm = msgspec.structs.replace(GRAPH, allocations_per_token=None, launches_per_token=None, share_of_copy=None)
    found = changed(
        arms=(arm,), rounds=3, ratio_low=None, ratio_high=None, throttled=None, steady=None, copy_bytes_s=None
    )
    first, second = bench_sections(RunState(hello=hello(), comparison=found))
    assert first.lines == ("graph over eager: ×5.61, no interval: too few rounds (3)",)
    assert first.table is not None and first.table.rows[0].cells.count("n/a") == 3
    assert "held down by: n/a" in second.lines and any("n/a (not measured" in line for line in second.lines)


def test_after_a_mismatch_no_speed_is_shown_and_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(Comparison(arms=(EAGER,), rounds=0, final=True, verdict="mismatch")))
    result = bench("--device", "cuda")
    assert result.exit_code == 1
    assert "MISMATCH" in result.stdout and "20.5" not in result.stdout


def test_a_refused_or_unfinished_bench_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, [hello(), Status(state="idle"), REFUSED, End(reason="quit")])
    result = bench("--device", "cuda")
    assert result.exit_code == 1 and "mend it first" in result.stderr and not result.stdout
    engine_of(monkeypatch, carried_out(changed(final=False)))
    assert bench("--device", "cuda").exit_code == 1


def test_without_a_gpu_it_says_so_and_exits_3() -> None:
    result = bench()
    assert result.exit_code == 3 and "no driver" in result.stderr and "--device cpu" in result.stderr
    for mode in ("graph", "both"):
        result = bench("--device", "cpu", "--mode", mode)
        assert result.exit_code == 3 and "CUDA graphs need CUDA" in result.stderr
        assert "--mode eager --device cpu runs" in result.stderr
        assert "--mode eager --device cpu runs" in bench("--mode", mode).stderr
    assert "--mode dynamic --device cpu runs" in bench("--mode", "dynamic").stderr


def test_every_option_says_what_it_is_for() -> None:
    shown = bench("--help").stdout
    assert "How many rounds" in shown


@pytest.mark.parametrize("arguments", [(), ("--mode", "all")])
def test_a_cpu_compares_what_it_has(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    engine, _ = engine_of(monkeypatch, carried_out(changed(arms=(EAGER,), ratio=None)))
    assert bench("--device", "cpu", *arguments).exit_code == 0
    assert engine.sent[0] == RunBench(modes=("eager", "dynamic"))


@pytest.mark.parametrize("arguments", [("--mode", "fast"), ("--tokens", "0"), ("--rounds", "0"), ("--warmup", "-1")])
def test_wrong_usage_exits_2(arguments: tuple[str, ...]) -> None:
    assert bench("--device", "cuda", *arguments).exit_code == 2
