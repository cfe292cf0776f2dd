"""The advice on going live names a command that works where it is given."""

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
    assert live.on_the_cpu() == command


def test_a_missing_package_is_looked_for_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PACKAGES", ("no_such_package_at_all",))
    assert not live.has_live_packages()
