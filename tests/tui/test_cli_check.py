"""`cgtop check`: one verdict a line, and exit codes that say what they mean."""

from io import StringIO

import pytest
from typer.testing import CliRunner, Result

from cgtop.core.checklist import CHECK_NAMES
from cgtop.core.commands import Quit, RunCheck
from cgtop.core.events import Check, decode_event
from cgtop.core.state import RunState
from cgtop.tui.check_words import summary
from cgtop.tui.cli import app
from cgtop.tui.commands import gpu, options, phases
from cgtop.tui.report import Origin, check_report
from cgtop.tui.report.check import check_sections
from cgtop.tui.tables import print_report
from tests.tui.experiments import carried_out, checks, engine_of


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "nvidia_gpu", lambda: gpu.Presence(False, "no driver"))
    for name in (*options.HELP, "record", "debug"):
        monkeypatch.delenv(options.env_name(name), raising=False)


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ("check", *arguments))


@pytest.mark.parametrize(("arguments", "strict"), [((), False), (("--strict",), True)])
def test_the_checks_are_asked_for(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], strict: bool) -> None:
    engine, _ = engine_of(monkeypatch, carried_out(*checks()))
    assert check("--device", "cuda", *arguments).exit_code == 0
    assert engine.sent == [RunCheck(strict=strict), Quit()]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"other_processes": "WARN", "copy_bandwidth": "WARN"}, 0),
        ({"other_processes": "FAIL"}, 1),
        ({"ECC": "n/a"}, 0),
        ({"replay_allocations": "n/a"}, 1),
        ({"kernel_launch": "FAIL"}, 1),
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], code: int) -> None:
    engine_of(monkeypatch, carried_out(*checks(**changed)))
    assert check("--device", "cuda").exit_code == code


def test_a_check_that_breaks_off_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(*checks()[:4]))
    result = check("--device", "cuda")
    assert result.exit_code == 1 and "NOT PASSED" in result.stdout and "not checked" in result.stdout


def test_every_verdict_has_a_line_with_its_figures_in_the_order_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(*reversed(checks(ECC="n/a", throttle="WARN"))))
    lines = check("--device", "cuda").stdout.splitlines()
    found = [line.split() for line in lines if line.startswith(("PASS", "WARN", "FAIL", "n/a"))]
    assert [" ".join(words[1:]).split(" a figure")[0] for words in found] == list(CHECK_NAMES)
    assert all("a figure another a reason" in " ".join(words) for words in found)


def test_what_it_comes_to_is_counted_and_an_na_is_never_a_pass() -> None:
    assert summary(tuple(checks())) == f"PASSED: {len(CHECK_NAMES)} PASS"
    text = summary(tuple(checks(ECC="n/a", throttle="WARN", addresses_fixed="n/a")))
    assert text.startswith("NOT PASSED: ") and "2 n/a (never a pass); not checked: addresses fixed" in text
    assert check_sections(RunState()) == ()
    foreign = RunState(checks=(*checks(), Check(name="a check of a newer cgtop", status="PASS")))
    table = check_sections(foreign)[0].table
    assert table is not None and table.rows[-1].cells[1] == "a check of a newer cgtop"


def test_why_something_did_not_pass_is_told_on_a_narrow_terminal_too() -> None:
    found = checks(ECC="n/a", throttle="n/a", other_processes="WARN")
    (section,) = check_sections(RunState(checks=tuple(found)))
    assert section.notes == ("n/a ECC, throttle: a reason", "WARN other processes: a reason")
    buffer = StringIO()
    report = check_report(RunState(checks=tuple(found)), Origin())
    print_report(report, buffer, width=60)
    assert "WARN other processes: a reason" in buffer.getvalue()
    assert max(len(line) for line in buffer.getvalue().splitlines()) <= 60


def test_lines_and_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    engine_of(monkeypatch, carried_out(*checks()))
    lines = check("--device", "cuda", "--json").stdout.splitlines()
    assert [decode_event(line.encode()) for line in lines] == carried_out(*checks())
    engine_of(monkeypatch, carried_out(*checks()))
    assert "| PASS | kernel launch | a figure |" in check("--device", "cuda", "--markdown").stdout


def test_without_a_gpu_it_says_so_and_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check()
    assert result.exit_code == 3 and "no driver" in result.stderr and not result.stdout
    all_na = dict.fromkeys((name.replace(" ", "_") for name in CHECK_NAMES), "n/a")
    engine_of(monkeypatch, carried_out(*checks(**all_na)))
    result = check("--device", "cpu")
    assert result.exit_code == 3 and "its checks are of a GPU" in result.stderr
    assert "NOT PASSED: nothing was checked: a reason" in result.stdout
    assert (result.stdout + result.stderr).count("a reason") == 1
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("n/a")]
    assert lines == [["n/a", name] for name in CHECK_NAMES]
