"""Nothing that comes from outside can act on a terminal, and lines stay bounded."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core.events import Log, Status, encode_event
from cgtop.core.lines import LineAssembler, TextLines, read_event
from cgtop.core.text import may_be_unsafe, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text\n\twith é, 漢字 and 🙂", "plain text\n\twith é, 漢字 and 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[H\x1b[?1049hcleared", "cleared"),
        ("\x1b]0;a new title\x07rest", "rest"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;Y2xpcGJvYXJk\x1b\\x", "x"),
        ("\x1bP1$r0m\x1b\\x", "x"),
        ("\x9b31mred\x9d0;title\x9cx", "redx"),
        ("\x1bcreset \x1b(Bcharset \x1b=keypad", "reset charset keypad"),
        ("bell\x07 back\x08 del\x7f nul\x00", "bell back del nul"),
        ("line\r\nline\r", "line\nline"),
        ("unterminated \x1b]0;title", "unterminated 0;title"),
        ("cut off \x1b[", "cut off "),
        ("cut off \x1b", "cut off "),
        ("\u202egnp.exe\u2069", "gnp.exe"),
        ("\ud800surrogate", "surrogate"),
    ],
)
def test_escape_sequences_and_controls_are_taken_out(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d\x90]P[0;m\x07\\"))))
def test_no_text_leaves_a_control_character(text: str) -> None:
    result = plain(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in result)
    assert plain(result) == result


def test_a_long_run_of_openings_takes_no_quadratic_time() -> None:
    for opening in ("\x1b]", "\x9d", "\x1b[", "\x1bP"):
        assert "\x1b" not in plain(opening * 200_000)


@given(st.text(alphabet=st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\x1b\x7f\x9b\u202e"))))
def test_a_line_called_safe_holds_nothing_to_take_out(text: str) -> None:
    event = Log(source="stdout", text=text)
    line = encode_event(event)
    if not may_be_unsafe(line):
        assert plain(text) == text
    assert read_event(line) == msgspec.structs.replace(event, text=plain(text))


def test_strings_of_events_are_cleaned_wherever_they_are() -> None:
    line = b'{"event":"status","state":"idle","why":"\\u001b[2Jcleared","\\u001bnew field":["\\u009b1m"]}'
    assert read_event(line) == Status(state="idle", why="cleared")


@pytest.mark.parametrize(
    "line", [b'{"a":' * 100_000, b"[" * 100_000, b'{"event":"log","x":' + b"[" * 100_000 + b'"\\u001b']
)
def test_a_line_nested_without_end_is_no_event(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_event(line)


@pytest.mark.parametrize("count", [400, 4300, 5000])
def test_a_number_that_cannot_be_shown_is_no_event_but_digits_in_text_are(count: int) -> None:
    digits = b"1" * count
    with pytest.raises(ValueError, match=r"too large|out of range"):
        read_event(b'{"event":"memory","free_bytes":' + digits + b"}")
    assert read_event(b'{"event":"log","source":"stdout","text":"' + digits + b'"}') is not None


@pytest.mark.parametrize(
    "number", [b"1e308", b"-1e308", b"1E+101", b"1e-101", b"5e-324", b"-1e-300", b"9999999999999999999e99"]
)
def test_a_number_whose_shares_and_products_are_none_is_no_event(number: bytes) -> None:
    decode = b'{"event":"decode","mode":"graph","tokens":1,"position":1,"capacity":9,"tok_s":%s}'
    with pytest.raises(ValueError, match=r"too large|too small"):
        read_event(decode % number)
    for usual in (b"1e99", b"-1e-99", b"0e999", b"18446744073709551615", b"0.12345678901234567890123"):
        assert read_event(decode % usual) is not None


def test_lines_are_put_together_from_any_chunks() -> None:
    text = b"one\ntwo\n\nthree\nrest"
    for size in range(1, len(text) + 1):
        lines = LineAssembler()
        got = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert got == [b"one", b"two", b"", b"three"]
        assert lines.rest() == b"rest"


def test_a_line_over_the_limit_is_skipped_and_counted_and_the_next_is_read() -> None:
    for size in (1, 7, 10_000):
        lines = LineAssembler(limit=100)
        text = b"a\n" + b"x" * 101 + b"\nb\n" + b"y" * 100 + b"\nc\n"
        got = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert got == [b"a", b"b", b"y" * 100, b"c"]
        assert lines.skipped == 1


def test_log_lines_are_plain_bounded_and_never_blank() -> None:
    lines = TextLines(limit=10)
    assert lines.feed(b"10%\r20%\r\n\n \nred \x1b[31m\n") == ["10%", "20%", "red"]
    assert lines.feed("é".encode()[:1]) == []
    assert lines.feed("é".encode()[1:] + b"\xff\n") == ["é\ufffd"]
    assert lines.feed(b"x" * 25) == ["x" * 10, "x" * 10]
    assert lines.pending
    assert lines.flush() == ["x" * 5]
    assert lines.flush() == []
