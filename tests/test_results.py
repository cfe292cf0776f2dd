"""`make results` keeps each experiment's recording and table, and goes on after one that failed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from cgtop.core.sources import EXPERIMENTS

SCRIPT = Path(__file__).parent.parent / "scripts" / "results.py"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_failed_experiment_is_said_and_the_others_are_kept(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []

    def run(*command: str) -> tuple[int, str]:
        commands.append(command)
        if "--record" in command:
            Path(command[command.index("--record") + 1]).write_text("")
        return (1 if command[0] == "batches" else 0), f"table of {command[0]}"

    monkeypatch.setattr(results, "run", run)
    arguments = ["--into", str(tmp_path), "--name", "x"]
    for what in results.EXPERIMENTS:
        arguments += ["--only", what]
    assert results.main(arguments) == 1
    assert [command[0] for command in commands] == [*results.EXPERIMENTS, "claims"]
    claims = commands[-1]
    assert [Path(name).name for name in claims[1:-1]] == [f"x-{what}.jsonl.gz" for what in results.EXPERIMENTS]
    tables = (tmp_path / "results.md").read_text()
    assert all(f"table of {what}" in tables for what in (*results.EXPERIMENTS, "claims"))


def test_a_run_that_was_cut_short_keeps_what_it_has_and_is_finished_later(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[str] = []
    cut: list[str] = ["scaling"]

    def run(*command: str) -> tuple[int, str]:
        if "--record" in command:
            path = Path(command[command.index("--record") + 1])
            assert path.is_absolute()  # the commands run in the repository
            path.write_text("")
        if command[0] in cut:
            raise KeyboardInterrupt
        made.append(command[0])
        return 0, f"table of {command[0]}\n"

    monkeypatch.setattr(results, "run", run)
    monkeypatch.setattr(results, "_phases", lambda target: (target.write_text("") and 0, "table of phases"))
    arguments = ["--into", "here", "--name", "x"]
    with pytest.raises(KeyboardInterrupt):
        results.main(arguments)
    tables = tmp_path / "here" / "results.md"
    assert all(f"table of {what}" in tables.read_text() for what in ("phases", "bench", "check"))
    cut.clear()
    made.clear()
    assert results.main([*arguments, "--missing"]) == 0
    assert made == ["scaling", "batches", "claims"]
    found = [line for line in tables.read_text().splitlines() if line.startswith("table of")]
    assert found == [f"table of {what}" for what in results.SECTIONS]


def test_an_experiment_made_again_replaces_its_own_table_alone(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = results.Tables(tmp_path / "results.md")
    tables.put("check", "# old\n| a |")
    tables.put("bench", "# bench")

    def run(*command: str) -> tuple[int, str]:
        return 0, "# new"

    monkeypatch.setattr(results, "run", run)
    assert results.main(["--into", str(tmp_path), "--only", "check"]) == 0
    assert "# old" not in (text := (tmp_path / "results.md").read_text())
    assert text.index("# bench") < text.index("# new")


def test_its_recordings_are_never_taken_for_the_run_of_all_phases(results: ModuleType) -> None:
    assert {f"-{what}" for what in results.EXPERIMENTS} <= set(EXPERIMENTS)


def test_a_command_that_cannot_run_here_gives_its_exit_code(results: ModuleType) -> None:
    code, table = results.run("scaling", "--device", "cpu")
    assert code == 3 and table == ""
