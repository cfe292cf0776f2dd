"""Paths as people type them and files name them, asked about without a surprise.

Text that cannot be the path of anything (`~nobody`, a name that is too long, a link to itself) is none that is there;
it is no error of its own.
"""

import os
from pathlib import Path


def given_path(text: str) -> Path:
    """`text` as a path; "~" is expanded where there is such a home, else it stays."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises where there is no such home


def full_path(path: Path) -> Path:
    """`path` from the root on, links followed as far as they lead anywhere."""
    return Path(os.path.realpath(path))


def is_there(path: Path) -> bool:
    """Whether there is anything of that name."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib's raises for a name that is too long


def is_folder(path: Path) -> bool:
    """Whether it is a folder, or leads to one."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path) -> bool:
    """Whether it is a file that ends, or leads to one: no pipe and no device, which could be read for ever."""
    return os.path.isfile(path)  # noqa: PTH113
