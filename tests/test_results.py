"""`make results` keeps each experiment's recording and table, and goes on after one that failed."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from cgtop.core.sources import EXPERIMENTS

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "results.py"
RECORDINGS = ROOT / "core" / "recordings"


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("results", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Lab:
    """Stands for the commands: each experiment writes a recording that holds its name, from which `play` tells."""

    def __init__(
        self,
        *,
        cut: Sequence[str] = (),
        failing: Sequence[str] = (),
        dead: Sequence[str] = (),
        killed: Sequence[str] = (),
    ) -> None:
        self.cut, self.failing, self.dead, self.killed = cut, failing, dead, killed
        self.made: list[str] = []
        self.judged: list[str] = []

    def measure(self, what: str, into: Path) -> int:
        assert into.is_absolute(), "the commands run in the repository"
        if what in self.dead:
            return 3
        into.write_text(what)
        if what in self.cut:
            raise KeyboardInterrupt
        self.made.append(what)
        return {**dict.fromkeys(self.failing, 1), **dict.fromkeys(self.killed, 143)}.get(what, 0)

    def run(self, command: str, *arguments: str) -> tuple[int, str]:
        if command == "claims":
            self.judged = [Path(name).name for name in arguments[:-1]]
            return 0, "table of claims"
        assert command == "play" and arguments[1:] == ("--once", "--markdown")
        held = Path(arguments[0]).read_text()
        return (0, f"table of {held}\n") if held else (2, "")


def use(results: ModuleType, monkeypatch: pytest.MonkeyPatch, lab: Lab) -> Lab:
    monkeypatch.setattr(results, "measure", lab.measure)
    monkeypatch.setattr(results, "run", lab.run)
    return lab


def told(folder: Path) -> list[str]:
    return [line for line in (folder / "x.md").read_text().splitlines() if line.startswith("table of")]


def test_a_failed_experiment_is_said_and_the_others_are_kept(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = use(results, monkeypatch, Lab(failing=["batches"]))
    assert results.main(["--into", str(tmp_path), "--name", "x"]) == 1
    assert lab.made == [*results.ALL]
    assert lab.judged == ["x.jsonl.gz", *(f"x-{what}.jsonl.gz" for what in results.EXPERIMENTS)]
    assert told(tmp_path) == [f"table of {what}" for what in results.SECTIONS], "what was measured of it counts too"


def test_a_run_that_was_cut_short_keeps_what_it_has_and_is_finished_later(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--into", "here", "--name", "x"]
    use(results, monkeypatch, Lab(cut=["scaling"]))
    with pytest.raises(KeyboardInterrupt):
        results.main(arguments)
    assert told(tmp_path / "here") == [f"table of {what}" for what in ("phases", "bench", "check")]
    assert not list((tmp_path / "here").glob("*scaling*")), "half an experiment is no recording of it"
    lab = use(results, monkeypatch, Lab())
    assert results.main([*arguments, "--missing"]) == 0
    assert lab.made == ["scaling", "batches"]
    assert told(tmp_path / "here") == [f"table of {what}" for what in results.SECTIONS]


def test_an_experiment_made_again_replaces_its_own_table_alone(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = results.Tables(tmp_path / "x.md")
    tables.put("check", "# old\n| a |")
    tables.put("bench", "# bench")
    use(results, monkeypatch, Lab())
    assert results.main(["--into", str(tmp_path), "--name", "x", "--only", "check"]) == 0
    assert "# old" not in (text := (tmp_path / "x.md").read_text())
    assert text.index("# bench") < text.index("table of check")


@pytest.mark.parametrize("lab", [Lab(dead=["check"]), Lab(killed=["check"])], ids=["not begun", "not ended"])
def test_what_did_not_go_to_its_end_replaces_nothing_and_is_still_missing(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    arguments = ["--into", str(tmp_path), "--name", "x", "--only", "check"]
    use(results, monkeypatch, lab)
    assert results.main([*arguments, "--missing"]) == 1
    assert not list(tmp_path.glob("*.gz"))
    again = use(results, monkeypatch, Lab())
    assert results.main([*arguments, "--missing"]) == 0
    assert again.made == ["check"]
    earlier = (tmp_path / "x-check.jsonl.gz").read_bytes()
    use(results, monkeypatch, lab)
    assert results.main(arguments) == 1
    assert (tmp_path / "x-check.jsonl.gz").read_bytes() == earlier
    assert told(tmp_path) == ["table of check", "table of claims"]


def test_a_recording_that_cannot_be_played_replaces_nothing(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that fails at its start leaves one with an error and nothing else."""
    lab = use(results, monkeypatch, Lab())
    monkeypatch.setattr(results, "measure", lambda what, into: into.write_text("") or 1)
    assert results.main(["--into", str(tmp_path), "--name", "x", "--only", "check"]) == 1
    assert not list(tmp_path.glob("*.gz")) and lab.judged == []


def test_the_tables_that_come_with_cgtop_are_those_of_its_recordings(results: ModuleType) -> None:
    """Nobody wrote a figure into them."""
    tables = results.Tables(RECORDINGS / "h200-qwen3-4b.md")
    paths = [
        str(RECORDINGS / f"h200-qwen3-4b{'' if what == 'phases' else f'-{what}'}.jsonl.gz") for what in results.ALL
    ]
    commands = [("play", path, "--once", "--markdown") for path in paths]
    for what, command in zip(results.SECTIONS, [*commands, ("claims", *paths, "--markdown")], strict=True):
        code, table = results.run(*command)
        assert code == 0 and "RECORDED" in table and "LIVE" not in table
        assert tables.text(what) == table.strip("\n")


def test_its_recordings_are_never_taken_for_the_run_of_all_phases(results: ModuleType) -> None:
    assert {f"-{what}" for what in results.EXPERIMENTS} <= set(EXPERIMENTS)


def test_a_command_that_cannot_run_here_gives_its_exit_code(results: ModuleType) -> None:
    code, table = results.run("scaling", "--device", "cpu")
    assert code == 3 and table == ""
