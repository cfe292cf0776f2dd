"""The recorder of the bundled run loses nothing, and the recording that is shipped has everything."""

from importlib.resources import files

import pytest

from cgtop.core import recordings
from cgtop.core.events import Decode, Demonstration, DynamicCapture, Memory, PhaseEnd, Segments, Verification
from cgtop.core.phases import PHASE_IDS
from cgtop.core.record_bundled import _ended, _Run, main
from cgtop.core.recording import open_recording
from cgtop.core.sources import EXPERIMENTS, bundled_recording
from tests.sample import sample_run


class Batches:
    """A client whose events come in one batch."""

    def __init__(self) -> None:
        self.batches = [sample_run(), []]

    def drain(self) -> list[object]:
        return self.batches.pop(0) if self.batches else []  # type: ignore[return-value]


def test_what_comes_in_one_batch_behind_a_wanted_event_is_kept() -> None:
    kept: list[object] = []
    run = _Run(Batches(), kept.append)  # type: ignore[arg-type]
    assert run.until(_ended("load"))
    assert kept == list(sample_run())


def test_the_bundled_recording_is_a_whole_run() -> None:
    path = bundled_recording()
    assert path is not None
    events = open_recording(path).events
    boundaries = [event.phase for event in events if isinstance(event, Memory) and not event.live]
    assert boundaries == list(PHASE_IDS)
    assert [event.phase for event in events if isinstance(event, PhaseEnd)] == list(PHASE_IDS)
    assert {event.phase for event in events if isinstance(event, Segments)} >= set(PHASE_IDS[1:])
    assert [event.stage for event in events if isinstance(event, Demonstration)] == ["broken", "mended"]
    assert [event.captured for event in events if isinstance(event, DynamicCapture)] == [True]
    assert {event.mode for event in events if isinstance(event, Decode)} == {"eager", "dynamic", "graph"}
    assert [event.verdict for event in events if isinstance(event, Verification)] != ["mismatch"]
    for memory in (event for event in events if isinstance(event, Memory)):
        assert sum(memory.buckets.values()) == memory.total_bytes


def test_nothing_in_the_bundled_recording_is_unexplained() -> None:
    path = bundled_recording()
    assert path is not None
    for end in (event for event in open_recording(path).events if isinstance(event, PhaseEnd)):
        for counter in ("requested", "allocated"):
            items = end.explained[counter]
            assert "unexplained" not in {item.name for item in items}, end.phase


def test_a_bundled_experiment_is_not_taken_for_the_run_of_all_phases() -> None:
    folder = files(recordings)
    names = {entry.name for entry in folder.iterdir() if entry.name.endswith(".jsonl.gz")}
    path = bundled_recording()
    assert path is not None and path.name in names
    experiments = {name for name in names if name.removesuffix(".jsonl.gz").endswith(EXPERIMENTS)}
    assert experiments and path.name not in experiments


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--into", "a"], 2), (["a", "b"], 2)])
def test_what_is_no_file_name_is_not_taken_for_one(arguments: list[str], code: int) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == code
