"""Bytes of a pipe or a file cut into lines of bounded length, and events read out of lines nobody vouches for."""

import codecs
import re
from collections.abc import Sequence

import msgspec

from .events import Event, decode_event
from .text import may_be_unsafe, plain

LINE_LIMIT = 16 << 20
"""Bytes of the longest event line that is read."""
TEXT_LINE_LIMIT = 4096
"""Characters of the longest log line; a longer one is cut into several."""

INTEGER_BITS = 64
MAGNITUDE_MAX = 1e100
"""Of a float, and of its reciprocal: shares and products of measured figures then stay finite."""

_FIGURES = bytes.maketrans(b"123456789E-", b"000000000e+")
_LONG, _EXPONENT, _SIGNED_EXPONENT = b"0" * 20, b"0e00", b"0e+00"
"""A number of one of these forms, all its figures read as 0, may be beyond these limits. Far faster than a pattern."""
_NEWLINES = re.compile(r"\r\n|\n|\r")


class LineAssembler:
    """Complete lines out of chunks. A line longer than `limit` bytes is not kept in memory but skipped and counted."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self.skipped = 0
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their newlines."""
        if b"\n" not in chunk:
            self._add(chunk)
            return []
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            if self._parts or self._skipping or len(end) > self._limit:
                self._add(end)
                if not self._skipping:
                    lines.append(b"".join(self._parts))
                self._clear()
            else:
                lines.append(end)
        self._add(rest)
        return lines

    def rest(self) -> bytes:
        """What came after the last newline; empty where that is too long already."""
        return b"".join(self._parts)

    def _add(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        if self._size > self._limit:
            self.skipped += 1
            self._clear()
            self._skipping = True
        else:
            self._parts.append(part)

    def _clear(self) -> None:
        self._parts.clear()
        self._size = 0
        self._skipping = False


class TextLines:
    """Log lines out of what a program prints: harmless, of bounded length, blank ones left out.

    A carriage return ends a line as well, so that each state of a progress bar is one.
    """

    def __init__(self, limit: int = TEXT_LINE_LIMIT) -> None:
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial = ""

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._partial)

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that end in this chunk."""
        *ended, self._partial = _NEWLINES.split(self._partial + self._decoder.decode(chunk))
        lines = [piece for line in ended for piece in self._pieces(line)]
        while len(self._partial) > self._limit:
            lines += self._pieces(self._partial[: self._limit])
            self._partial = self._partial[self._limit :]
        return lines

    def flush(self) -> list[str]:
        """What was printed without a newline so far, as a line of its own."""
        partial, self._partial = self._partial, ""
        return self._pieces(partial)

    def _pieces(self, line: str) -> list[str]:
        pieces = [line[start : start + self._limit] for start in range(0, len(line), self._limit)]
        return [text for piece in pieces if (text := plain(piece).rstrip())]


def are_harmless(lines: Sequence[bytes]) -> bool:
    """Whether `read_event` may take all of these lines as they are: asked once for many, it costs almost nothing."""
    together = b" ".join(lines)
    return not (may_be_unsafe(together) or _has_odd_number(together))


def read_event(line: bytes, *, harmless: bool = False) -> Event | None:
    """`decode_event` for a line from outside: no string of the event can act on a terminal, every number can be shown.

    `harmless`: what `are_harmless` said of it. Raises what `decode_event` raises; a line nested too deep is a
    `ValueError` too.
    """
    try:
        if not harmless and (may_be_unsafe(line) or _has_odd_number(line)):
            line = msgspec.json.encode(_plain_values(msgspec.json.decode(line)))
        return decode_event(line)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _has_odd_number(line: bytes) -> bool:
    forms = line.translate(_FIGURES)
    return _LONG in forms or _EXPONENT in forms or _SIGNED_EXPONENT in forms


def _plain_values(value: object) -> object:
    match value:
        case str():
            return plain(value)
        case list():
            return [_plain_values(item) for item in value]
        case dict():
            return {plain(str(key)): _plain_values(item) for key, item in value.items()}
        case int() if value.bit_length() > INTEGER_BITS:
            raise ValueError("a number too large")
        case float() if value and not 1 / MAGNITUDE_MAX <= abs(value) <= MAGNITUDE_MAX:
            raise ValueError(f"a number too {'large' if abs(value) > 1 else 'small'}")
        case _:
            return value
