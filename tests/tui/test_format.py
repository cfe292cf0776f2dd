"""Figures as text."""

import pytest

from cgtop.core.memory_map import GIB, MIB
from cgtop.tui import format as fmt


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "n/a"),
        (0, "0.0"),
        (144 * MIB, "+144.0"),
        (-3 * MIB, "−3.0"),
        (303_872, "+0.3"),
        (18_432, "+0.018"),
        (512, "+512 B"),
        (-512, "−512 B"),
        (7_672 * MIB + MIB // 4, "+7,672.2"),
    ],
)
def test_a_difference_that_is_not_zero_never_reads_as_zero(size: int | None, text: str) -> None:
    assert fmt.delta_mib(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (512, "512 B"),
        (22 * MIB, "22.0 MiB"),
        (140 * GIB, "140.0 GiB"),
        (-9 * MIB, "−9.0 MiB"),
    ],
)
def test_a_size_names_its_unit(size: int | None, text: str) -> None:
    assert fmt.size(size) == text


def test_what_is_unknown_is_never_a_number() -> None:
    unknown = [
        fmt.mib(None),
        fmt.delta(None),
        fmt.count(None),
        fmt.tok_s(None),
        fmt.ratio(None),
        fmt.bandwidth(None),
        fmt.percent(None, 1),
        fmt.percent(1, None),
        fmt.percent(1, 0),
        fmt.duration(None),
        fmt.milliseconds(None),
    ]
    assert set(unknown) == {"n/a"}


def test_times_and_rates_take_the_unit_that_suits_them() -> None:
    assert [fmt.duration(s) for s in (0.000_85, 0.0012, 0.25, 42.1)] == ["850 µs", "1.2 ms", "0.25 s", "42.1 s"]
    assert [fmt.bandwidth(g) for g in (0.5, 974, 1029)] == ["0.50 GB/s", "974 GB/s", "1.03 TB/s"]
    assert [fmt.clock(s) for s in (-1, 187, 3723)] == ["0:00", "3:07", "1:02:03"]


def test_text_of_others_cannot_move_the_cursor_or_break_the_line() -> None:
    assert fmt.clean("a\x1b[2Jb\nc\td\x07") == "ab c d"
