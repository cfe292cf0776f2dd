"""The advice on going live names a command that works where it is given."""

import shutil
import sys
from pathlib import Path

import pytest

from cgtop.core import live


def test_this_checkout_is_one_and_an_empty_folder_is_none(tmp_path: Path) -> None:
    assert live.is_checkout()
    assert not live.is_checkout(tmp_path)


@pytest.mark.parametrize(
    ("packages", "checkout", "command"),
    [
        (True, True, "cgtop --device cpu"),
        (True, False, "cgtop --device cpu"),
        (False, True, 'make run ARGS="--device cpu"'),
        (False, False, "pip install 'cgtop[live]', then cgtop --device cpu"),
    ],
)
def test_the_command_fits_the_installation(
    monkeypatch: pytest.MonkeyPatch, packages: bool, checkout: bool, command: str
) -> None:
    monkeypatch.setattr(live, "has_live_packages", lambda: packages)
    monkeypatch.setattr(live, "is_checkout", lambda: checkout)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert live.on_the_cpu() == command


def test_a_missing_package_is_looked_for_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PACKAGES", ("no_such_package_at_all",))
    assert not live.has_live_packages()


def test_cgtop_that_the_shell_does_not_find_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / ".venv" / "bin" / "cgtop"
    script.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(script.parent / "python"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.chdir(tmp_path)
    assert live.command() == "cgtop"
    script.touch()
    assert live.command() == ".venv/bin/cgtop"
    monkeypatch.chdir(script.parent.parent)
    assert live.command() == "bin/cgtop"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert live.command() == str(script)
    monkeypatch.setattr(shutil, "which", lambda _: str(script))
    assert live.command() == "cgtop"
