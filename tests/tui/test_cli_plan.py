"""`cgtop plan`: what it writes, and how it says that it cannot."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cgtop.core.configs import model_facts
from cgtop.core.planner import make_plan
from cgtop.core.settings import SettingsError
from cgtop.tui.cli import app
from cgtop.tui.commands.plan import parsed_list, parsed_size
from cgtop.tui.report.plan import plan_report
from cgtop.tui.tables import markdown


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("plan", *arguments))


def test_json_has_what_a_script_needs() -> None:
    result = plan("--model", "qwen3-4b", "--cache-lens", "1024,2048", "--batch-sizes", "1,8", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["weight_bytes"] == 8_044_936_192
    assert found["static_cache_bytes"] == 150_994_944
    cases = [(row["batch_size"], row["max_cache_len"], row["static_cache_bytes"]) for row in found["rows"]]
    assert cases == [(1, 1024, 144 << 20), (1, 2048, 288 << 20), (8, 1024, 1152 << 20), (8, 2048, 2304 << 20)]
    for row in found["rows"]:
        assert row["fits"] is None
        assert row["total_bytes"] == sum(term["bytes"] or 0 for term in row["terms"])
        assert {term["certainty"] for term in row["terms"]} <= {"computed", "measured", "inferred"}


def test_the_report_says_what_fits_and_where_each_term_is_from() -> None:
    result = plan("--model", "qwen3-4b", "--gpu-memory", "9GiB", "--batch-sizes", "1,64", "--capability", "sm_86")
    assert result.exit_code == 0
    shown = result.stdout
    assert "PLANNED, nothing was run or measured" in shown
    assert "GiB holds" in shown or "MiB holds" in shown
    assert "longest cache at batch 1:" in shown and "largest batch at cache 1,024:" in shown
    assert "NO" in shown and "yes" in shown
    assert "computed" in shown and "h200" in shown
    assert "8,519,680" in shown


def test_without_a_memory_size_the_smallest_card_is_named() -> None:
    shown = plan("--model", "qwen3-8b").stdout
    assert "fits in" in shown and "24 GiB" in shown


def test_markdown_is_a_table() -> None:
    shown = plan("--model", "tiny", "--markdown").stdout
    assert shown.startswith("# cgtop plan") and "| batch |" in shown


def test_a_model_name_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    facts = model_facts("tiny")
    named = type(facts)(**{name: getattr(facts, name) for name in facts.__struct_fields__} | {"name": "x\x1b[2J"})
    assert "\x1b" not in markdown(plan_report(make_plan(named)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "Qwen/Qwen3-4B"), "downloads nothing"),
        (("--model", "tiny", "--gpu-memory", "24"), "24GiB"),
        (("--model", "tiny", "--gpu-memory", "much"), "24GiB"),
        (("--model", "tiny", "--cache-lens", "256;512"), "--cache-lens"),
        (("--model", "tiny", "--batch-sizes", "0"), "--batch-sizes"),
        (("--model", "tiny", "--capability", "new"), "8.6"),
        (("--model", "tiny", "--prompt-len", "0"), "prompt length"),
        (("--model", "tiny", "--json", "--markdown"), "exclude"),
        ((), "--model"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(arguments: tuple[str, ...], said: str) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr and not result.stdout


def test_an_unsupported_architecture_exits_2(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba2"}')
    result = plan("--model", str(tmp_path / "config.json"))
    assert result.exit_code == 2 and "mamba2 is not supported" in result.stderr


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 << 30), ("24 gb", 24 * 10**9), ("1.5TiB", 3 << 39), ("8192MiB", 8 << 30), (str(1 << 33), 1 << 33)],
)
def test_sizes(text: str, size: int) -> None:
    assert parsed_size(text) == size


@pytest.mark.parametrize("text", ["", ",", "1,x", "-1", "²", "9" * 400, ",".join("1" * 65)])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError):
        parsed_list("--x", text, least=1)


def test_a_list_is_taken_as_it_is_written_or_not_at_all() -> None:
    assert parsed_list("--x", f"999999999999, {'0' * 5000}7,7", least=1) == (999_999_999_999, 7)
    with pytest.raises(SettingsError, match=r"1000000000001234… is more than"):
        parsed_list("--x", "1000000000001234", least=1)


@pytest.mark.parametrize(
    "arguments",
    [("--gpu-memory", "9" * 400), ("--gpu-memory", "9" * 400 + "GiB"), ("--prompt-len", "9" * 20)],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_figures_beyond_everything_are_wrong_usage(arguments: tuple[str, str]) -> None:
    result = plan("--model", "tiny", *arguments)
    assert result.exit_code == 2
    assert "Overflow" not in result.stderr


def test_a_cache_that_the_prompt_fills_is_no_plan_that_fits() -> None:
    result = plan(
        "--model", "tiny", "--cache-lens", "256,512", "--prompt-len", "256", "--gpu-memory", "24GiB", "--json"
    )
    filled, roomy = json.loads(result.stdout)["rows"]
    assert (filled["fits"], filled["note"]) == (None, "no room to decode after a prompt of 256")
    assert (roomy["fits"], roomy["note"]) == (True, "")


@pytest.mark.parametrize("model", ["~nobody-of-that-name/model", "~nobody-of-that-name", "x" * 300, "/" + "x" * 5000])
def test_a_name_that_cannot_be_a_path_is_no_model(model: str) -> None:
    result = plan("--model", model)
    assert result.exit_code == 2
    assert "is neither a preset" in result.stderr


def test_the_command_imports_no_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from cgtop.tui.cli import app;"
        "result = CliRunner().invoke(app, ['plan', '--model', 'qwen3-4b']);"
        "print(result.exit_code, 'torch' in sys.modules, 'textual' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert shown.stdout.split() == ["0", "False", "False"]
