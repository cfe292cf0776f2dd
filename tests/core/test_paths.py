"""Paths of any text: what cannot be a path is none that is there, and no error."""

from pathlib import Path

import pytest

from cgtop.core.events import Log
from cgtop.core.paths import full_path, given_path, is_file, is_folder, is_there
from cgtop.core.redaction import Redactor, is_local
from cgtop.core.settings import RunSettings


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """A link to itself."""
    link = tmp_path / "loop"
    link.symlink_to(link)
    return link


def texts(loop: Path) -> tuple[str, ...]:
    return ("~nobody-of-that-name/model", "~nobody-of-that-name", "x" * 300, "/" + "x" * 5000, str(loop / "model"), "")


def test_what_cannot_be_a_path_is_not_there(loop: Path) -> None:
    for text in texts(loop):
        path = given_path(text)
        assert not is_file(path)
        assert text == "" or (not is_folder(path) and not is_there(path))
        assert full_path(path).is_absolute()


def test_a_home_is_expanded_where_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert given_path("~/model") == tmp_path / "model"
    assert given_path("~nobody-of-that-name/model") == Path("~nobody-of-that-name/model")


def test_a_run_with_any_text_for_a_path_can_be_recorded(loop: Path) -> None:
    for text in texts(loop):
        is_local(text)
        redactor = Redactor(RunSettings(model=text, memory_snapshot=text), ())
        redactor.line(Log(source="stdout", text=text))
    redactor = Redactor(RunSettings(model=str(loop / "model")), ())
    assert redactor.text(f"reading {loop / 'model'}") == "reading model"
