"""How the buckets of device memory look: a letter and a colour each, so that colour is never the only carrier."""

import msgspec

from ...core.memory_map import BUCKETS


class Look(msgspec.Struct, frozen=True):
    """Letter and theme variable of a bucket."""

    letter: str
    variable: str
    dark: str
    light: str
    ansi: str

    @property
    def style(self) -> str:
        """The bucket's colour as a foreground."""
        return f"${self.variable}"

    @property
    def block(self) -> str:
        """The bucket's letter on the bucket's colour, readable on it."""
        return f"${self.variable}-ink on ${self.variable}"


_LOOKS: tuple[tuple[str, str, str, str, str], ...] = (
    ("weights", "W", "#5b9cf5", "#2f6fd0", "ansi_blue"),
    ("kv_static", "K", "#f2a33a", "#c26f00", "ansi_yellow"),
    ("kv_dynamic", "D", "#f7d154", "#a58300", "ansi_bright_yellow"),
    ("graph_io", "I", "#ff8fc7", "#c2408a", "ansi_bright_magenta"),
    ("cublas_workspace", "B", "#4fd1b5", "#0f8f76", "ansi_cyan"),
    ("other_tensors", "T", "#b7e36a", "#5d8a10", "ansi_bright_white"),
    ("rounding", "R", "#9aa7b8", "#66727f", "ansi_white"),
    ("graph_pool", "G", "#d07bff", "#8c3fc0", "ansi_magenta"),
    ("cached", "C", "#6fc3e8", "#2786ad", "ansi_bright_cyan"),
    ("driver", "V", "#7cc96f", "#3d8a32", "ansi_green"),
    ("other_processes", "P", "#f0736a", "#bf3a31", "ansi_red"),
    ("unattributed", "U", "#c7b299", "#87705a", "ansi_bright_red"),
    ("outside_allocator", "O", "#a3c98d", "#567f40", "ansi_bright_blue"),
)
LOOKS: dict[str, Look] = {
    bucket: Look(letter, f"bucket-{bucket.replace('_', '-')}", dark, light, ansi)
    for bucket, letter, dark, light, ansi in _LOOKS
}
ANSI_DEEP = ("ansi_blue", "ansi_magenta", "ansi_red")
"""Of the 16 colours those that black cannot be read on. Bright green is not used: many palettes make it a dark grey."""
FREE_GLYPH = "·"
UNKNOWN = Look("?", "bucket-unknown", "#9aa7b8", "#66727f", "ansi_white")
"""For a bucket that a newer recording names."""


def look(bucket: str) -> Look:
    """The look of a bucket by its id."""
    return LOOKS.get(bucket, UNKNOWN)


def theme_variables(*, dark: bool, ansi: bool) -> dict[str, str]:
    """The buckets' colours for a theme, as CSS variables."""
    variables = {
        "banner-ink": "ansi_black" if ansi else "#10141a",
        "muted": "ansi_default" if ansi else "#8d99a8" if dark else "#5d6876",
        "panel-border": "ansi_default" if ansi else "#4a5564" if dark else "#9aa7b8",
    }
    for entry in (*LOOKS.values(), UNKNOWN):
        ansi_ink = "ansi_bright_white" if entry.ansi in ANSI_DEEP else "ansi_black"
        variables[f"{entry.variable}-ink"] = ansi_ink if ansi else "#10141a" if dark else "#ffffff"
        variables[entry.variable] = entry.ansi if ansi else entry.dark if dark else entry.light
    return variables


BUCKET_ORDER: dict[str, int] = {bucket.id: index for index, bucket in enumerate(BUCKETS)}
