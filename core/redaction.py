"""What may not leave the machine in a recording: host and user names, paths, UUIDs of GPUs."""

import contextlib
import functools
import getpass
import os
import re
import socket
import typing
from collections.abc import Iterable
from pathlib import Path

import msgspec

from .events import Block, DeviceInfo, Error, Event, Hello, Segment, Tokens, encode_event
from .paths import full_path, given_path, is_there
from .settings import RunSettings

_KEPT: frozenset[tuple[type, str]] = frozenset(
    {
        # What the model was asked and what it answered is what the recording is of.
        (RunSettings, "prompt"),
        (Tokens, "text"),
        # Identifiers of ours.
        (RunSettings, "device"),
        (Error, "kind"),
        (Block, "bucket"),
        (Segment, "pool"),
    }
)
"""Fields that stay as they are."""

_HEX = "[0-9a-fA-F]"
_UUID = re.compile(
    rf"\b(?:MIG-GPU|MIG|GPU)-{_HEX}{{2,}}(?:-{_HEX}+)*(?:/\d+/\d+)?(?![\w-])|\b{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}\b"
)
_URL_OR_PATH = re.compile(
    r"""
    (?P<url>\b(?!file:)[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+)
    | (?P<quote>["'])(?P<quoted>(?:file://|~[\w.-]*|\.{1,2})?/[^"'\n]*)(?P=quote)
    | (?<![\w/.~\\-])(?P<path>(?:file://|~[\w.-]*|\.{1,2})?/[^\s"'<>|:;,()\[\]{}]+)
    | (?<!\w)(?P<windows>[A-Za-z]:\\[^\s"'<>|:;,()\[\]{}]+|\\\\[^\s"'<>|:;,()\[\]{}]+)
    """,
    re.VERBOSE,
)
_HINTS = re.compile(r"/|\\\\|(?:GPU|MIG)-|[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
"""A line of JSON without any of these and without a name holds nothing to take out."""

_NOBODY = {"root", "localhost", "localhost.localdomain"}


class Redactor:
    """Takes private things out of events.

    A path becomes its last part: a checkpoint's folder its name, a source file its file name. Enumerations are left
    alone whatever the user is called.
    """

    def __init__(self, settings: RunSettings | None = None, names: Iterable[str] | None = None) -> None:
        """`settings`: of the run, for paths that events name. `names`: of host and user; this machine's where null."""
        self._paths: dict[str, str] = {}
        wanted = sorted({name for name in (own_names() if names is None else names) if len(name) > 1}, key=len)
        words = "|".join(re.escape(name) for name in reversed(wanted))
        self._names = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])(?:\.[A-Za-z][\w-]*)*", re.IGNORECASE)
            if words
            else None
        )
        if settings is not None:
            self._learn(settings)

    def line(self, event: Event) -> bytes:
        """The event as a line of JSON, without its newline, fit to leave the machine."""
        if isinstance(event, Hello):
            self._learn(event.settings)
        line = encode_event(event)
        if isinstance(event, Hello) or self._is_suspect(line.decode()):
            line = encode_event(self.event(event))
        return line

    def event(self, event: Event) -> Event:
        """The event, fit to leave the machine."""
        return typing.cast(Event, self._cleaned(event))

    def text(self, text: str) -> str:
        """Free text without what is private."""
        for path, name in self._paths.items():
            text = text.replace(path, name)
        text = _UUID.sub("GPU-(removed)", text)
        text = _URL_OR_PATH.sub(_last_part, text)
        return text if self._names is None else self._names.sub("(removed)", text)

    def _is_suspect(self, line: str) -> bool:
        return _HINTS.search(line) is not None or (self._names is not None and self._names.search(line) is not None)

    def _learn(self, settings: RunSettings) -> None:
        """Paths that do not look like one: a relative folder, which a hub id looks like, or one with spaces."""
        paths = [settings.memory_snapshot, settings.model if settings.model and is_local(settings.model) else None]
        for text in paths:
            if text is None or os.sep not in text:
                continue
            path = given_path(text)
            full = full_path(path)
            name = path.name or full.name
            if name:
                self._paths |= {text: name, str(path): name, str(full): name}
        self._paths = dict(sorted(self._paths.items(), key=lambda item: -len(item[0])))

    def _cleaned(self, value: object) -> object:
        match value:
            case str():
                return self.text(value)
            case tuple():
                return tuple(self._cleaned(item) for item in value)
            case dict():
                return {key: self._cleaned(item) for key, item in value.items()}
            case msgspec.Struct():
                old = {name: getattr(value, name) for name in _free_fields(type(value))}
                new = {name: self._cleaned(item) for name, item in old.items()}
                if isinstance(value, DeviceInfo):
                    new["uuid"] = None
                return msgspec.structs.replace(value, **new)
            case _:
                return value


def is_local(model: str) -> bool:
    """Whether a model's name is a folder of this machine rather than a hub id ("organisation/name")."""
    return model.startswith((os.sep, "~", ".")) or model.count("/") > 1 or is_there(Path(model))


def own_names() -> set[str]:
    """What this machine and its user are called, but for names that tell nobody apart."""
    host = socket.gethostname()
    names = {host, host.partition(".")[0], Path(os.environ.get("HOME", "")).name}
    names |= {os.environ.get(name, "") for name in ("HOSTNAME", "USER", "LOGNAME", "SUDO_USER")}
    with contextlib.suppress(OSError, KeyError):  # a user id without an entry
        names.add(getpass.getuser())
    return {name for name in names if name and name.lower() not in _NOBODY}


def _last_part(match: re.Match[str]) -> str:
    if match["url"]:
        return match["url"]
    quote = match["quote"] or ""
    path = match["quoted"] or match["path"] or match["windows"]
    parts = [part for part in re.split(r"[/\\]+", path) if part]
    return f"{quote}{parts[-1] if parts and not parts[-1].startswith('~') else ''}{quote}"


@functools.cache
def _free_fields(kind: type) -> tuple[str, ...]:
    """The fields of a struct that may hold text which is not one of a fixed set."""
    hints = typing.get_type_hints(kind)
    return tuple(
        name
        for name in kind.__struct_fields__  # type: ignore[attr-defined]
        if (kind, name) not in _KEPT and _holds_text(hints[name])
    )


def _holds_text(hint: object) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return False
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    arguments = typing.get_args(hint)
    if arguments and typing.get_origin(hint) is dict:
        return _holds_text(arguments[1])
    return any(_holds_text(item) for item in arguments) if arguments else hint is str
