"""Which versions of Python packages a live run works with, and which are installed: nothing is imported for it."""

import importlib.metadata
import importlib.util
import re
from typing import Final

import msgspec


class Requirement(msgspec.Struct, frozen=True):
    """Versions from `floor` on and below `ceiling`, as in the extra `live` of the package."""

    package: str
    floor: tuple[int, int]
    ceiling: tuple[int, int]

    @property
    def text(self) -> str:
        """As pip takes it."""
        floor, ceiling = (".".join(map(str, bound)) for bound in (self.floor, self.ceiling))
        return f"{self.package}>={floor},<{ceiling.removesuffix('.0')}"

    def problem(self, version: str | None) -> str | None:
        """What is wrong with an installed version (None: not installed), or None if it will do."""
        if version is None:
            return f"{self.package} is not installed"
        number = release(version)
        if number is None or self.floor <= number < self.ceiling:
            return None
        return f"{self.package} {version} is too {'old' if number < self.floor else 'new'}"


LIVE: Final = (Requirement("torch", (2, 11), (3, 0)), Requirement("transformers", (5, 17), (6, 0)))


def installed(package: str) -> str | None:
    """The version of a package that can be imported under its own name: "unknown" for a bare folder on the path."""
    return distribution(package) or ("unknown" if importable(package) else None)


def distribution(package: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except Exception:  # None, or the broken metadata of a half-removed one.
        return None


def importable(module: str) -> bool:
    """Whether a module can be found; its parents are imported for it, the module itself is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except Exception:
        return False


def release(version: str) -> tuple[int, int] | None:
    """(major, minor) of a version, None if it does not begin with them."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None
