"""What `s` writes, where, and what it says where it cannot."""

import errno
from pathlib import Path

import pytest

from cgtop.core.recorder import RecordingError
from cgtop.core.recording import RecordingWriter, open_recording
from cgtop.tui.screens.modal import LogScreen
from tests.sample import sample_run
from tests.tui.driving import app_of, notice, running, screen_text
from tests.tui.fakes import FakeLive, FakeRecorded, until

DECODING = until("replay", decoding=True)


class FakeRecording(FakeLive):
    """A live source that records, or says why it cannot."""

    def __init__(self, error: str | None = None, to: Path | None = None) -> None:
        super().__init__(DECODING)
        self.recording_error = error
        self.recording_to = to

    def save_recording(self, path: Path) -> None:
        if self.recording_error:
            raise RecordingError(self.recording_error)
        writer = RecordingWriter(path)
        for event in sample_run(decode_events=3):
            writer.write(event)
        writer.close()


def folders_in(parent: Path) -> int:
    return len(list(parent.iterdir()))


def only_folder(parent: Path) -> Path:
    (folder,) = parent.iterdir()
    return folder


@pytest.mark.parametrize("source", [FakeRecorded(19.0), FakeRecording()], ids=["recorded", "live"])
async def test_screen_report_and_recording_go_into_a_folder_that_is_named(
    source: FakeLive | FakeRecorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(source) as pilot:
        await pilot.press("s")
        folder = only_folder(tmp_path)
        assert notice(pilot) == f"saved 3 files in {folder.name}/"
        await pilot.press("l")
        await pilot.pause()
        log = pilot.app.screen
        assert isinstance(log, LogScreen)
        assert f"saved in {folder}: screen.svg, report.md, recording.jsonl.gz" in log.lines[-1].plain
    assert "<svg" in (folder / "screen.svg").read_text()
    report = (folder / "report.md").read_text()
    assert report.startswith("# cgtop")
    assert ("RECORDED" in report) == (source.kind == "recorded")
    saved = open_recording(folder / "recording.jsonl.gz")
    assert saved.hello.device.name == "NVIDIA Sample GPU"
    if isinstance(source, FakeRecorded):
        assert len(saved.events) == len(source.player.recording.events)


async def test_every_save_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(FakeRecorded(12.0)) as pilot:
        await pilot.press("s", "s")
    assert folders_in(tmp_path) == 2


async def test_a_folder_that_cannot_be_made_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    async with running(FakeRecorded(12.0)) as pilot:
        gone.rmdir()
        await pilot.press("s")
        assert notice(pilot) == "not saved: No such file or directory"


async def test_a_folder_that_nothing_can_be_made_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.chdir(tmp_path)
    async with running(FakeRecorded(12.0)) as pilot:
        monkeypatch.setattr(Path, "mkdir", denied)
        await pilot.press("s")
        assert notice(pilot).startswith(f"not saved: Permission denied: {tmp_path}")


async def test_a_recording_that_cannot_be_saved_leaves_the_rest_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(FakeRecording("disk full")) as pilot:
        await pilot.press("s")
        assert "not saved: the recording (disk full); screen.svg and report.md are in cgtop-" in notice(pilot)
    assert {path.name for path in only_folder(tmp_path).iterdir()} == {"screen.svg", "report.md"}


async def test_that_a_run_is_recorded_shows_and_so_does_why_it_is_not() -> None:
    async with running(FakeRecording(to=Path("/somewhere/run.jsonl.gz"))) as pilot:
        app_of(pilot).show_now()
        await pilot.pause()
        assert "◉ to run.jsonl.gz" in screen_text(pilot)
    async with running(FakeRecording("disk full")) as pilot:
        app_of(pilot).show_now()
        await pilot.pause()
        assert "not recorded: disk full" in screen_text(pilot)
