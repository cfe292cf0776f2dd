"""`make results` twice on an H200: memory is the same to the byte, and the README says of the second what it was."""

from pathlib import Path
from typing import TypeVar

import pytest

from cgtop.core.events import Comparison, Demonstration, Event, PhaseEnd, SweepRow
from cgtop.core.recording import open_recording

E = TypeVar("E", bound=Event)
ROOT = Path(__file__).parent.parent
BUNDLED, AGAIN = ROOT / "core" / "recordings" / "h200-qwen3-4b", ROOT / "tests" / "data" / "h200-again"
TOKEN_BYTES = 147_456
"""Keys and values of one token, by the closed form."""


def both(what: str, kind: type[E]) -> tuple[list[E], list[E]]:
    first, second = (open_recording(Path(f"{path}{what}.jsonl.gz")).events for path in (BUNDLED, AGAIN))
    return [event for event in first if isinstance(event, kind)], [event for event in second if isinstance(event, kind)]


def test_every_counter_of_every_phase_is_the_same_but_for_tokens_in_the_dynamic_cache() -> None:
    first, second = both("", PhaseEnd)
    assert len(first) == len(second) == 9
    for one, other in zip(first, second, strict=True):
        assert (one.phase, one.after) == (other.phase, other.after)
        assert (one.allocations, one.device_allocations) == (other.allocations, other.device_allocations)
        if one.phase != "release":
            assert (one.before, one.peak_allocated) == (other.before, other.peak_allocated)
    earlier, later = first[-1].before, second[-1].before
    for counter in ("requested", "allocated"):
        assert getattr(later, counter) - getattr(earlier, counter) == 3 * TOKEN_BYTES
    assert (earlier.reserved, earlier.driver) == (later.reserved, later.driver)


@pytest.mark.parametrize(("what", "rows"), [("-scaling", 5), ("-batches", 25)])
def test_every_byte_of_every_row_of_a_sweep_is_the_same(what: str, rows: int) -> None:
    first, second = both(what, SweepRow)
    assert len(first) == len(second) == rows
    counters = [name for name in SweepRow.__struct_fields__ if name.endswith("_bytes")]
    for one, other in zip(first, second, strict=True):
        assert [getattr(one, name) for name in counters] == [getattr(other, name) for name in counters]


def test_graph_decoding_was_as_fast_and_eager_as_slow_as_the_readme_says() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    found = both("-bench", Comparison)[1][-1]
    eager, graph = found.arms
    assert found.ratio is not None and found.ratio_low is not None and found.ratio_high is not None
    for text in (
        f"({graph.tok_s:.1f} tok/s)",
        f"{eager.tok_s:.1f} tok/s ({eager.tok_s_low:.1f} to {eager.tok_s_high:.1f})",
        f"{eager.step_ms_p50:.2f} ms",
        f"×{found.ratio:.2f} (×{found.ratio_low:.2f} to ×{found.ratio_high:.2f})",
    ):
        assert text in readme


def test_a_mended_graph_follows_although_an_id_flipped_between_two_logits_that_are_nearly_equal() -> None:
    broken, mended = both("", Demonstration)[1]
    assert not broken.follows and mended.follows
    assert mended.replay_ids != mended.expected_ids
    assert mended.difference is not None and mended.tolerance is not None and broken.difference is not None
    assert mended.difference < mended.tolerance < broken.difference
