"""What CONTRIBUTING.md says of the code is so."""

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_stands_in_the_map_of_contributing_and_nothing_else_does() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = text[text.index("## Where things live") : text.index("## How to add")].splitlines()
    named: set[str] = set()
    for row in (row for row in rows if row.startswith("| `")):
        paths = re.findall(r"`([^`]+)`", row.split("|")[1])
        folder = paths[0].rpartition("/")[0]
        named |= {path if "/" in path else f"{folder}/{path}" for path in paths}
    modules = {
        str(path.relative_to(ROOT))
        for folder in ("core", "core/engine", "tui")
        for path in (ROOT / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    assert {module for module in modules if not any(fnmatch(module, name) for name in named)} == set()
    assert {name for name in named if not list(ROOT.glob(name))} == set()
