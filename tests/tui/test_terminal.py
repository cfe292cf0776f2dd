"""The whole program in a real terminal, with a worker process: opened, stepped, switched, hurt, left."""

import os
import signal
import sys

import pytest

from cgtop.tui.views import VIEWS, view_key
from tests.fakes.processes import is_running, wait_until
from tests.tui.terminal import Terminal

pytestmark = pytest.mark.terminal


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
        terminal.send("q")
        assert terminal.ended(3.0) == 0
        assert terminal.modes_are_back
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


def test_q_does_not_wait_for_a_step_that_hangs() -> None:
    with Terminal.live("sessions:hangs") as terminal:
        terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
        (worker,) = terminal.children()
        terminal.send("q")
        assert terminal.ended(3.0) == 0
        assert terminal.modes_are_back
        assert wait_until(lambda: not is_running(worker))


def test_what_native_code_prints_is_in_the_log_and_nowhere_else() -> None:
    with Terminal.live("sessions:prints") as terminal:
        shown = terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
        terminal.send("l")
        terminal.wait_for("xxxxxxxx")
        terminal.send("\x1b[H")
        top = terminal.wait_for("native red out", "native err")
        # Which of the two pipes is read first is nobody's promise: "c out" is above the long line or below it.
        terminal.send("\x1b[F")
        terminal.until(lambda: "c out" in top + terminal.text, 20.0, "c out did not show")
        terminal.send("l")
        terminal.until(lambda: "native" not in terminal.text, 5.0, "the log is still there")
        assert "native" not in shown
        terminal.send("q")
        assert terminal.ended() == 0


def test_q_in_the_middle_of_a_burst_leaves_at_once() -> None:
    with Terminal.live("sessions:endless") as terminal:
        terminal.wait_for("● LIVE", "NVIDIA Sample GPU")
        terminal.send("q")
        assert terminal.ended(3.0) == 0
        assert terminal.modes_are_back


def test_the_real_engine_on_the_cpu_decodes_on_the_screen() -> None:
    command = (sys.executable, "-m", "cgtop.tui.cli", "--device", "cpu", "--model", "tiny", "--verify-steps", "0")
    with Terminal(*command, "--tokens", "8", "--max-cache-len", "64") as terminal:
        terminal.wait_for("● LIVE", "next: CUDA context (n)", timeout=60)
        terminal.send("r")
        terminal.wait_for("EAGER", "tok/s", "decoding · eager", timeout=60)
        terminal.send("2")
        terminal.wait_for("[2 Caches]", "StaticCache")
        terminal.send("q")
        assert terminal.ended(5.0) == 0
        assert terminal.modes_are_back
