"""Text from outside (a native library, a checkpoint, a recording) made harmless before a terminal sees it."""

import re

_STRING = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f]*"
"""The body of an OSC, DCS, SOS, PM or APC string. It takes in no other control character, so a search stays linear."""

_SEQUENCES = re.compile(
    rf"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]){_STRING}(?:\x07|\x1b\\|\x9c)"  # strings with their terminator
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-~]"  # all other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 but newline and tab, DEL, C1; also bidirectional overrides, which reorder what follows, and lone surrogates."""

_UNSAFE_JSON = re.compile(rb"\\[ubfr]|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")


def plain(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    if text.isprintable() or _CONTROLS.search(text) is None:
        return text
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def may_be_unsafe(line: bytes) -> bool:
    """Whether a string in this line of JSON could hold something that `plain` takes out. Never wrongly False.

    Raw C0 characters need no look: JSON forbids them inside strings.
    """
    if b"\\" not in line and b"\x7f" not in line and line.isascii():
        return False
    return _UNSAFE_JSON.search(line) is not None
