"""The themes by the names that a person gives: no Textual in here, so that a command line can check one early."""

from ..core.settings import SettingsError

THEMES: dict[str, str] = {
    "dark": "textual-dark",
    "light": "textual-light",
    "ansi": "ansi-dark",
    "ansi-light": "ansi-light",
}
"""Name -> Textual's. The two of ansi use the 16 colours of the terminal as it has them."""


def theme_named(name: str) -> str:
    """Textual's name of a theme. Raises `SettingsError` for one that is not there."""
    if name not in THEMES:
        raise SettingsError(f"theme must be one of {', '.join(THEMES)}, not {name!r}")
    return THEMES[name]


def next_theme(present: str) -> str:
    """The theme after this one, around the end; the first after one that is none of `THEMES`."""
    names = list(THEMES.values())
    return names[(names.index(present) + 1) % len(names)] if present in names else names[0]
