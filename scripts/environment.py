"""Sets up the virtual environment that a make target needs; run by the Makefile with the interpreter it chose.

usage: environment.py VENV base|live|test|oldest

    base     the screen and recordings: no torch
    live     base, and torch and transformers to measure with
    test     live, and the tools of the tests
    oldest   test, with what runs at the floors that pyproject.toml names

A torch that this interpreter already has, in the supported range and built for CUDA, is used where it is and not
replaced: the environment sees its site-packages through a .pth file, and pip is never asked for torch. (The
--system-site-packages of venv would not do: of an interpreter that is itself in an environment, it shows the base.)
A second call with nothing changed returns at once.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
BUILD_REQUIRES: list[str] = PYPROJECT["build-system"]["requires"]
INCLUDES = {"base": ("base", "live", "test"), "live": ("live", "test"), "test": ("test",), "oldest": ("oldest",)}
"""What is needed -> what of the things set up earlier has it all."""
EXTRAS = {"base": (), "live": ("live",), "test": ("live", "test"), "oldest": ("live", "test")}
LINK_NAME = "parent_site_packages.pth"


class Torch(NamedTuple):
    """The torch of the interpreter that runs this. `cuda` is null for a build without."""

    version: str
    cuda: str | None


def main() -> None:
    """Set up what the arguments ask for."""
    if len(sys.argv) != 3 or sys.argv[2] not in INCLUDES:
        fail(f"usage: {Path(__file__).name} VENV {'|'.join(INCLUDES)}")
    target, what = Path(sys.argv[1]).resolve(), sys.argv[2]
    torch = usable_torch(what)
    key = fingerprint(torch)
    stamp = target / "cgtop-setup.json"
    done = set_up_before(target, stamp)
    if any(done.get(name) == key for name in INCLUDES[what]):
        return
    if torch is not None and (site_packages(target) / "torch").exists():
        shutil.rmtree(target)  # a torch of its own would come before the one to be used
    create(target)
    if torch is None:
        unlink(target)
        install_all(target, what)
    else:
        say(f"using torch {torch.version} (CUDA {torch.cuda}) of {sys.executable}")
        link(target)
        install_missing(target, what)
    stamp.write_text(json.dumps({name: value for name, value in done.items() if value == key} | {what: key}))


def set_up_before(target: Path, stamp: Path) -> dict[str, str]:
    """What of the environment was set up, and from what; nothing where it is damaged."""
    if not all((target / "bin" / name).exists() for name in ("python", "cgtop")):
        return {}  # links to an interpreter that was removed are not there either
    try:
        done = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return {}
    return done if isinstance(done, dict) else {}


def usable_torch(what: str) -> Torch | None:
    """The torch of this interpreter, if the environment is to use it instead of one of its own."""
    if what == "base" or (torch := installed_torch()) is None:
        return None
    if what == "oldest":
        return torch if torch.version.partition("+")[0] == floors()["torch"] else None
    least, below = (re.search(pattern, requirement("torch")) for pattern in (r">=([\d.]+)", r"<([\d.]+)"))
    if least is None or below is None:
        fail("pyproject.toml names no range of torch versions")
    if not numbers(least[1]) <= numbers(torch.version) < numbers(below[1]):
        return None
    without_gpu = what == "live" and not Path("/dev/nvidia0").exists()
    return torch if torch.cuda is not None or without_gpu else None


def installed_torch() -> Torch | None:
    """Found without importing torch, so that nothing is initialised."""
    if Path(sys.prefix) == Path(sys.argv[1]).resolve():
        return None  # run from inside the environment itself: its own torch is no other's
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        facts = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
        return Torch(importlib.metadata.version("torch"), facts.get("cuda"))
    except (OSError, importlib.metadata.PackageNotFoundError):
        return None


def create(target: Path) -> None:
    """An environment of this interpreter's version; one of another version, or half made, is made anew."""
    if target.exists() and not target.is_dir():
        fail(f"{target} is a file, and an environment is a folder: move it away.")
    if version_of(target / "bin" / "python") == sys.version_info[:2]:
        return
    say(f"making {target.name} with Python {sys.version.split()[0]}")
    try:
        venv.create(target, clear=target.exists(), symlinks=True, with_pip=True)
    except (subprocess.CalledProcessError, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        fail(
            f"this Python cannot make a virtual environment ({error}).",
            "On Debian and Ubuntu: apt install python3-venv. Or choose another one: make PYTHON=/path/to/python3 …",
        )


def link(target: Path) -> None:
    """Let the environment see the packages of this interpreter, after its own."""
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
    (site_packages(target) / LINK_NAME).write_text("\n".join(lines) + "\n")


def unlink(target: Path) -> None:
    """Undo `link`."""
    (site_packages(target) / LINK_NAME).unlink(missing_ok=True)


def install_all(target: Path, what: str) -> None:
    """Everything from the index, at the versions of constraints.txt or at the floors."""
    constraints = ROOT / "constraints.txt"
    if what == "oldest":
        constraints = target / "floors.txt"
        # The oldest torch needs a setuptools older than the pinned one; pip finds it.
        tools = [line for line in pinned() if name_of(line) not in {*floors(), "setuptools"}]
        constraints.write_text("\n".join([*(f"{name}=={version}" for name, version in floors().items()), *tools]))
    extras = f"[{','.join(EXTRAS[what])}]" if EXTRAS[what] else ""
    pip(target, "--constraint", str(constraints), "--editable", f"{ROOT}{extras}")


def install_missing(target: Path, what: str) -> None:
    """Only what neither environment has in the supported range, and never torch."""
    constraints = target / "constraints.txt"
    constraints.write_text("\n".join(line for line in pinned() if name_of(line) != "torch"))
    wanted = [line for line in requirements(what) if name_of(line) != "torch"]
    if missing := unmet(target, wanted):
        pip(target, "--constraint", str(constraints), *missing)
    if unmet(target, BUILD_REQUIRES):
        # An old setuptools that the link shows would come before the one that pip builds with.
        unlink(target)
        pip(target, "--no-deps", "--editable", str(ROOT))
        link(target)
    else:  # nothing of the index is needed
        pip(target, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def requirements(what: str) -> list[str]:
    """The direct dependencies of what is asked for, without the project itself."""
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [line for extra in EXTRAS[what] for line in extras[extra]]
    return [line for line in lines if name_of(line) != PROJECT["name"]]


def requirement(name: str) -> str:
    """The line of pyproject.toml about one dependency."""
    return next(line for line in requirements("test") if name_of(line) == name)


def pinned() -> list[str]:
    """The lines of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def floors() -> dict[str, str]:
    """What runs -> the oldest version that pyproject.toml allows; of torch, OLDEST_TORCH if that is set."""
    found = {name_of(line): re.search(r">=\s*([\w.]+)", line) for line in requirements("live")}
    versions = {name: floor[1] for name, floor in found.items() if floor is not None}
    return versions | {"torch": os.environ.get("OLDEST_TORCH") or versions["torch"]}


def unmet(target: Path, lines: list[str]) -> list[str]:
    """Those of these requirements that the environment does not satisfy, as its own pip sees it."""
    code = (
        "import sys\n"
        "from importlib.metadata import PackageNotFoundError, version\n"
        "from pip._vendor.packaging.requirements import Requirement\n"
        "def met(line):\n"
        "    wanted = Requirement(line)\n"
        "    try: return wanted.specifier.contains(version(wanted.name), prereleases=True)\n"
        "    except PackageNotFoundError: return False\n"
        "print('\\n'.join(line for line in sys.argv[1:] if not met(line)))\n"
    )
    answer = subprocess.run([target / "bin" / "python", "-c", code, *lines], check=True, capture_output=True, text=True)
    return answer.stdout.split("\n")[:-1] if answer.stdout.strip() else []


def pip(target: Path, *arguments: str) -> None:
    """`pip install`, and a clear line if it fails."""
    command = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    say("installing " + " ".join(Path(part).name if part.startswith("/") else part for part in arguments))
    if subprocess.run([*command, *arguments], cwd=ROOT).returncode != 0:
        fail(
            "pip could not install what is needed (its own message is above).",
            "Without a network: put wheels in a folder and set PIP_NO_INDEX=1 PIP_FIND_LINKS=/the/folder.",
        )


def fingerprint(torch: Torch | None) -> str:
    """Changes with everything that a set-up depends on."""
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt", "scripts/environment.py")]
    parts.append(repr((sys.version_info[:2], torch, floors(), os.fspath(ROOT))).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def site_packages(target: Path) -> Path:
    """Where the environment's own packages are."""
    return target / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def version_of(python: Path) -> tuple[int, ...]:
    """(major, minor) of an interpreter that has pip; empty if it has none, or does not run."""
    code = "import sys, pip; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True)
    except OSError:
        return ()
    return tuple(int(part) for part in answer.stdout.split())


def numbers(version: str) -> tuple[int, ...]:
    """The release numbers of a version: a vendor's 2.11.0a0 counts as 2.11."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def name_of(line: str) -> str:
    """The project's name in a requirement."""
    return re.split(r"[^\w-]", line, maxsplit=1)[0]


def say(text: str) -> None:
    """Tell what takes time."""
    print(f"[set-up] {text}", file=sys.stderr, flush=True)


def fail(headline: str, hint: str = "") -> NoReturn:
    """End with a message."""
    sys.exit("\n".join(f"[set-up] {line}" for line in (headline, hint) if line))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # a second call goes on where this one was
