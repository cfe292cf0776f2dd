"""Leaving in a real terminal: by key, by signal, by losing it. The terminal is as it was, the exit code says why."""

import functools
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pexpect
import pytest

from tests.fakes.processes import PATIENCE_S, takes_less, wait_until

pytestmark = pytest.mark.terminal

PROGRAM = """
import contextlib
import sys
from cgtop.tui.app import run_app
from tests.tui.fakes import FakeRecorded
source = FakeRecorded(12.0)
code = run_app(source)
with contextlib.suppress(OSError):
    print("closed" if source.closed else "not closed", flush=True)
sys.exit(code)
"""
ROOT = Path(__file__).parents[2]
LEFT_S = 3.0
ENTER, LEAVE, SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


def started() -> pexpect.spawn:
    child = pexpect.spawn(
        sys.executable, ["-c", PROGRAM], cwd=str(ROOT), dimensions=(36, 120), timeout=PATIENCE_S,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    child.expect_exact(ENTER)
    child.expect_exact(b"RECORDED")
    child.expect_exact(b"Tokens")
    return child


def finished(child: pexpect.spawn) -> tuple[bytes, int]:
    """All that was still written, and the exit code, 128+n after a signal that was not caught."""
    child.expect(pexpect.EOF)
    rest: bytes = child.before
    child.close()
    return rest, 256 if child.exitstatus is None else child.exitstatus


def is_a_zombie(pid: int) -> bool:
    return process_state(pid) == "Z"


@pytest.mark.timed
@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_a_key_leaves_with_0_and_the_terminal_as_it_was(key: bytes) -> None:
    def left() -> float:
        child = started()
        before = time.monotonic()
        child.send(key)
        rest, code = finished(child)
        took = time.monotonic() - before
        assert code == 0
        assert LEAVE in rest
        assert SHOW_CURSOR in rest
        assert rest.rstrip().endswith(b"closed")
        return took

    assert takes_less(LEFT_S, left)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_with_128_and_its_number_and_the_terminal_as_it_was(number: signal.Signals) -> None:
    child = started()
    before = termios.tcgetattr(child.child_fd)[3]
    assert not before & termios.ECHO
    os.kill(child.pid, number)
    rest, code = finished(child)
    assert code == 128 + number
    assert LEAVE in rest
    assert SHOW_CURSOR in rest
    assert rest.rstrip().endswith(b"closed"), "the source is closed after the terminal is back"


@pytest.mark.parametrize("drawn", [False, True])
def test_a_terminal_that_goes_without_a_signal_ends_the_program(drawn: bool) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    try:
        if drawn:
            assert wait_until(lambda: not termios.tcgetattr(ours)[3] & termios.ECHO), "the screen has started"
        assert child.poll() is None
        os.close(ours)
        assert child.wait(PATIENCE_S) == 128 + signal.SIGHUP
    finally:
        child.kill()
        child.wait()


def test_losing_the_terminal_ends_the_program() -> None:
    child = started()
    os.close(child.child_fd)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(0.05)
    else:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        pytest.fail("it goes on without a terminal")
    child.closed = True
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP


def test_a_signal_ends_the_program_although_nobody_reads_its_terminal() -> None:
    children = {number: started() for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    for number, child in children.items():
        end = time.monotonic() + PATIENCE_S
        while not waits_to_write(child.pid):
            child.send(b"12")
            time.sleep(0.05)
            assert time.monotonic() < end, "all that was drawn was taken"
        os.kill(child.pid, number)
    for number, child in children.items():
        assert wait_until(functools.partial(is_a_zombie, child.pid)), number.name
        _, code = finished(child)
        assert code == 128 + number


def test_standard_error_in_a_file_leaves_the_screen_on_the_terminal(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    command = f"exec {sys.executable} -c '{PROGRAM}' 2>{errors}"
    child = pexpect.spawn(
        "bash", ["-c", command], cwd=str(ROOT), dimensions=(36, 120), timeout=PATIENCE_S,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    child.expect_exact(ENTER)
    child.expect_exact(b"RECORDED")
    child.send(b"q")
    rest, code = finished(child)
    assert code == 0
    assert LEAVE in rest
    assert errors.read_bytes() == b""


@pytest.mark.parametrize("before", [b"", b"?", b"\x10", b"l"])
def test_a_suspended_screen_is_painted_again_when_a_shell_brings_it_back(before: bytes) -> None:
    command = f"set -m; {sys.executable} -c '{PROGRAM}'; fg"  # goes on at `fg` once the screen has stopped
    child = pexpect.spawn(
        "bash", ["-c", command], cwd=str(ROOT), dimensions=(36, 120), timeout=PATIENCE_S,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    child.expect_exact(b"Tokens")
    for key, shown in ((b"?", b"Keys"), (b"\x10", b"Search"), (b"l", b"Log")):
        if key == before:
            child.send(key)
            child.expect_exact(shown)
    child.send(b"\x1a")
    child.expect_exact(LEAVE)
    child.expect_exact(ENTER)
    child.expect_exact(b"RECORDED")
    child.send(b"\x03")
    _, code = finished(child)
    assert code == 0


def test_without_a_shell_that_could_bring_it_back_the_screen_does_not_stop() -> None:
    child = started()
    child.send(b"\x1a")
    child.expect_exact(b"job control")
    assert process_state(child.pid) != "T"
    child.send(b"q")
    _, code = finished(child)
    assert code == 0


def process_state(pid: int) -> str:
    """`T` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def waits_to_write(pid: int) -> bool:
    """Whether the program's writing thread, and the loop that hands to it, stand still in the kernel."""
    tasks = [path / "wchan" for path in Path(f"/proc/{pid}/task").iterdir()]
    waits = [path.read_text() for path in tasks]
    return "wait_woken" in waits and "futex" in (Path(f"/proc/{pid}/wchan").read_text())
