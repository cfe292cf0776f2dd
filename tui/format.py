"""Figures as text: units, signs, and "n/a" for what is not known. No Textual and no Rich in here.

1 MiB = 2^20 B. A difference that is not zero never reads as zero, and what is unknown never reads as a number.
"""

from ..core.memory_map import GIB, MIB
from ..core.text import plain

NA = "n/a"
KIB = 1 << 10
_SMALLEST_SHOWN_MIB = 0.05
"""Below this one decimal would read 0.0."""


def mib(size: int | None) -> str:
    """Bytes as MiB without the unit, for columns that name it: `7,672.3`; a size under 0.05 MiB keeps its digits."""
    if size is None:
        return NA
    return _magnitude(size) if size >= 0 else f"−{_magnitude(-size)}"


def delta_mib(size: int | None) -> str:
    """A difference of bytes as signed MiB without the unit: `+144.0`, `−3.0`, `0.0`."""
    if size is None:
        return NA
    sign = "+" if size > 0 else "−" if size < 0 else ""
    return f"{sign}{_magnitude(abs(size))}"


def _magnitude(size: int) -> str:
    value = size / MIB
    if size == 0 or value >= _SMALLEST_SHOWN_MIB:
        return f"{value:,.1f}"
    if value >= 0.001:
        return f"{value:.3f}"
    return f"{size:,} B"


def size(count: int | None) -> str:
    """Bytes with the unit that suits them: `303,872 B`, `22.0 MiB`, `139.8 GiB`."""
    if count is None:
        return NA
    sign, magnitude = ("−", -count) if count < 0 else ("", count)
    if magnitude >= 10 * GIB:
        return f"{sign}{magnitude / GIB:,.1f} GiB"
    if magnitude >= _SMALLEST_SHOWN_MIB * MIB:
        return f"{sign}{magnitude / MIB:,.1f} MiB"
    return f"{sign}{magnitude:,} B"


def delta(count: int | None) -> str:
    """A difference of bytes with sign and unit: `+4.0 MiB`, `0 B`."""
    if count is None:
        return NA
    return f"+{size(count)}" if count > 0 else size(count)


def significant(value: float | None) -> str:
    """Three significant digits, as of a difference of logits: `0.147`, `0`."""
    return NA if value is None else f"{value:.3g}"


def count(value: float | None) -> str:
    """A number of things: `12,345`."""
    return NA if value is None else f"{value:,.0f}"


def tok_s(value: float | None) -> str:
    """Tokens a second without the unit; three figures are enough: `125.5`, `1,250`."""
    if value is None:
        return NA
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    """A speed-up: `×4.47`."""
    return NA if value is None else f"×{value:.2f}"


def rough_ratio(value: float | None) -> str:
    """A speed-up of means that nobody gave an interval: two digits, `×4.5`, `×12`."""
    if value is None:
        return NA
    return f"×{value:.1f}" if value < 9.95 else f"×{value:.0f}"


def bandwidth(gb_s: float | None) -> str:
    """GB/s, decimal as vendors count: `974 GB/s`, `1.03 TB/s`."""
    if gb_s is None:
        return NA
    if gb_s >= 1000:
        return f"{gb_s / 1000:.2f} TB/s"
    return f"{gb_s:.0f} GB/s" if gb_s >= 10 else f"{gb_s:.2f} GB/s"


def percent(part: float | None, whole: float | None) -> str:
    """A share: `23 %`."""
    if part is None or not whole:
        return NA
    return f"{100 * part / whole:.0f} %"


def duration(seconds: float | None) -> str:
    """How long something took: `850 µs`, `1.2 ms`, `0.25 s`, `42.1 s`."""
    if seconds is None:
        return NA
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.1f} s"


def milliseconds(value: float | None) -> str:
    """A step's time: `7.97 ms`."""
    if value is None:
        return NA
    return f"{value:.2f} ms" if value < 100 else f"{value:,.0f} ms"


def clock(seconds: float) -> str:
    """A position in a recording: `3:07`, `1:02:03`."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def clean(text: str) -> str:
    """Text of others, made safe for one line of a terminal."""
    return plain(text).replace("\n", " ").replace("\t", " ")
