"""The set-up behind the make targets: a damaged or half-made environment is made good, and does not stay so."""

import os
import runpy
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "environment.py"


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An environment with a stamp, as a set-up leaves it, in a folder whose name has a space and more."""
    target = tmp_path / "with spaces ü" / ".venv"
    venv.create(target, symlinks=True, with_pip=False)
    (target / "bin" / "cgtop").touch()
    (target / "cgtop-setup.json").write_text('{"base": "key"}')
    return target


def test_what_was_set_up_is_not_set_up_again(script: dict[str, Any], target: Path) -> None:
    assert script["set_up_before"](target, target / "cgtop-setup.json") == {"base": "key"}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0"])
def test_a_stamp_that_was_cut_off_is_none(script: dict[str, Any], target: Path, text: str) -> None:
    (target / "cgtop-setup.json").write_text(text)
    assert script["set_up_before"](target, target / "cgtop-setup.json") == {}


@pytest.mark.parametrize("name", ["cgtop", "python"])
def test_an_environment_that_lost_its_command_or_its_interpreter_is_not_taken_for_done(
    script: dict[str, Any], target: Path, name: str
) -> None:
    path = target / "bin" / name
    path.unlink()
    assert script["set_up_before"](target, target / "cgtop-setup.json") == {}
    path.symlink_to("/removed/python3")
    assert script["set_up_before"](target, target / "cgtop-setup.json") == {}


def test_only_an_interpreter_that_runs_and_has_pip_is_used(
    script: dict[str, Any], target: Path, tmp_path: Path
) -> None:
    version_of = script["version_of"]
    assert version_of(target / "bin" / "python") == (), "interrupted before pip was there"
    assert version_of(target / "bin" / "nothing") == ()
    (tmp_path / "python").touch()
    assert version_of(tmp_path / "python") == (), "not executable"
    assert version_of(Path(sys.executable)) == sys.version_info[:2]


def test_a_file_in_the_place_of_the_environment_is_named_and_kept(tmp_path: Path) -> None:
    file = tmp_path / ".venv"
    file.write_text("mine")
    answer = subprocess.run(
        [sys.executable, SCRIPT, file, "base"], capture_output=True, text=True, env=os.environ | {"PIP_NO_INDEX": "1"}
    )
    assert answer.returncode == 1
    assert "is a file" in answer.stderr and "Traceback" not in answer.stderr
    assert file.read_text() == "mine"
