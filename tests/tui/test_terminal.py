"""The whole program in a real terminal, with a worker process: opened, stepped, switched, hurt, left."""

import os
import signal
import sys
import time

import pytest

from cgtop.tui.views import VIEWS, view_key
from tests.fakes.processes import PATIENCE_S, is_running, takes_less, wait_until
from tests.tui.terminal import Terminal

pytestmark = pytest.mark.terminal
LEFT_S = 3.0
"""`q` leaves in less, whatever the worker does."""


def test_opened_stepped_switched_paused_and_left() -> None:
    with Terminal.live("decoding:decodes") as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context (n)")
        terminal.send("n")
        terminal.wait_for("✓ context", "next: Model load (n)")
        terminal.send("r")
        terminal.wait_for("GRAPH", "decoding · graph")
        for key, mode in (("e", "EAGER"), ("d", "DYNAMIC"), ("g", "GRAPH")):
            terminal.send(key)
            terminal.wait_for(f" {mode} ", f"decoding · {mode.lower()}")
        terminal.wait_for("20.", "11.")
        for view in VIEWS:
            terminal.send(view_key(view.id))
            terminal.wait_for(f"[{view_key(view.id)} {view.title}]")
        terminal.send("1 ")
        terminal.wait_for("paused · graph")
        before = terminal.text
        terminal.send(" ")
        terminal.wait_for("decoding · graph")
        assert wait_until(lambda: terminal.text != before)
        (worker,) = terminal.children()
        quit_by_key(terminal)
        assert wait_until(lambda: not is_running(worker))


def test_a_worker_that_is_killed_is_told_and_r_starts_another() -> None:
    with Terminal.live("decoding:decodes") as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context (n)")
        terminal.send("r")
        terminal.wait_for("decoding · graph")
        (worker,) = terminal.children()
        os.kill(worker, signal.SIGKILL)
        shown = terminal.wait_for("ENDED", "The worker was ended by SIGKILL", "R starts a new one")
        assert "+7,726.0" in shown, "the last good figures stay"
        terminal.send("R")
        terminal.wait_for("Release everything and start anew?")
        terminal.send("y")
        terminal.wait_for("● LIVE", "nothing measured yet")
        (other,) = terminal.children()
        assert other != worker
        terminal.send("q")
        assert terminal.ended() == 0
        assert terminal.modes_are_back


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_decoding_leaves_the_terminal_as_it_was_and_no_worker(number: signal.Signals) -> None:
    with Terminal.live("decoding:decodes") as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context (n)")
        terminal.send("r")
        terminal.wait_for("decoding · graph")
        (worker,) = terminal.children()
        terminal.signal(number)
        assert terminal.ended() == 128 + number
        assert terminal.modes_are_back
        assert wait_until(lambda: not is_running(worker))


def test_a_small_terminal_is_driven_as_well() -> None:
    with Terminal.live("decoding:decodes", size=(40, 12)) as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context (n)")
        terminal.send("r")
        terminal.wait_for("GRAPH", "[1 Phases]")
        terminal.send("3")
        terminal.wait_for("[3 Memory map]")
        terminal.send("q")
        assert terminal.ended() == 0


@pytest.mark.timed
def test_q_does_not_wait_for_a_step_that_hangs() -> None:
    def left() -> float:
        with Terminal.live("sessions:hangs") as terminal:
            terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
            (worker,) = terminal.children()
            took = quit_by_key(terminal)
            assert wait_until(lambda: not is_running(worker))
            return took

    assert takes_less(LEFT_S, left)


def test_what_native_code_prints_is_in_the_log_and_nowhere_else() -> None:
    with Terminal.live("sessions:prints") as terminal:
        shown = terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
        terminal.send("l")
        terminal.wait_for("xxxxxxxx")
        terminal.send("\x1b[H")
        top = terminal.wait_for("native red out", "native err")
        # Which of the two pipes is read first is nobody's promise: "c out" is above the long line or below it.
        terminal.send("\x1b[F")
        terminal.until(lambda: "c out" in top + terminal.text, PATIENCE_S, "c out did not show")
        terminal.send("l")
        terminal.until(lambda: "native" not in terminal.text, PATIENCE_S, "the log is still there")
        assert "native" not in shown
        terminal.send("q")
        assert terminal.ended() == 0


@pytest.mark.timed
def test_q_while_decoding_leaves_at_once() -> None:
    def left() -> float:
        with Terminal.live("decoding:decodes") as terminal:
            terminal.wait_for("● LIVE", "next: CUDA context (n)")
            terminal.send("r")
            terminal.wait_for("decoding · graph")
            return quit_by_key(terminal)

    assert takes_less(LEFT_S, left)


@pytest.mark.timed
def test_q_in_the_middle_of_a_burst_leaves_at_once() -> None:
    def left() -> float:
        with Terminal.live("sessions:endless") as terminal:
            terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
            return quit_by_key(terminal)

    assert takes_less(LEFT_S, left)


@pytest.mark.timed
def test_the_real_engine_on_the_cpu_decodes_on_the_screen() -> None:
    command = (sys.executable, "-m", "cgtop.tui.cli", "--device", "cpu", "--model", "tiny", "--verify-steps", "0")

    def left() -> float:
        with Terminal(*command, "--tokens", "8", "--max-cache-len", "64") as terminal:
            terminal.wait_for("● LIVE", "next: CUDA context (n)", timeout=2 * PATIENCE_S)
            terminal.send("r")
            terminal.wait_for("EAGER", "tok/s", "decoding · eager", timeout=2 * PATIENCE_S)
            terminal.send("2")
            terminal.wait_for("[2 Caches]", "StaticCache")
            return quit_by_key(terminal)

    assert takes_less(LEFT_S, left)


def quit_by_key(terminal: Terminal) -> float:
    """Leave by `q`, with exit code 0 and the terminal as it was; the seconds that it took."""
    began = time.monotonic()
    terminal.send("q")
    assert terminal.ended() == 0
    took = time.monotonic() - began
    assert terminal.modes_are_back
    return took
