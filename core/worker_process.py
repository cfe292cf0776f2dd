"""A worker as an operating system process: how it is started, looked at and ended."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys

import msgspec

from .settings import RunSettings

EVENT_PIPE_BYTES = 1 << 20
"""Asked of Linux for the event pipe, so that a burst does not have to wait for the reader."""


class WorkerProcess:
    """One worker, in a session and process group of its own, so that no signal of the terminal reaches it.

    Start it from a thread that outlives it: the worker asks Linux to be killed when the *thread* that started it ends
    (PR_SET_PDEATHSIG). Raises `OSError` where it cannot be started.
    """

    def __init__(self, settings: RunSettings, *, python: str, session: str | None) -> None:
        self.event_fd, child_fd = os.pipe()
        try:
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                with contextlib.suppress(OSError):
                    fcntl.fcntl(self.event_fd, fcntl.F_SETPIPE_SZ, EVENT_PIPE_BYTES)
            self._process = subprocess.Popen(
                [
                    python,
                    # -P: a file in the current folder must not stand in for a module of the same name.
                    *([] if session else ["-P"]),
                    *("-m", "cgtop.core.engine.worker"),
                    *("--event-fd", str(child_fd)),
                    *("--parent-pid", str(os.getpid())),
                    *("--settings", msgspec.json.encode(settings).decode()),
                    *(["--session", session] if session else []),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(child_fd,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self.event_fd)
            raise
        finally:
            os.close(child_fd)
        self.pid = self._process.pid
        self.pidfd: int | None = None
        """Becomes readable when the process ends; null where the system has no such thing."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self.pidfd = os.pidfd_open(self.pid)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.stdin_fd: int | None = self._process.stdin.fileno()
        self.stdout_fd = self._process.stdout.fileno()
        self.stderr_fd = self._process.stderr.fileno()
        for fd in (self.event_fd, self._process.stdin.fileno(), self.stdout_fd, self.stderr_fd):
            os.set_blocking(fd, False)

    def has_ended(self) -> bool:
        """Whether the process is dead; it stays a zombie until `reap`, so its group id cannot belong to another."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:  # reaped by someone else
            return True

    def kill(self) -> None:
        """SIGKILL to the process and everything it started in its group. Call it before `reap` only."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def close_stdin(self) -> None:
        """Ask the worker to end."""
        self.stdin_fd = None
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def reap(self) -> int:
        """The return code of a process that has ended, as `subprocess` has it: -n for signal n."""
        return self._process.wait()

    def close_pipes(self) -> None:
        """Close this side of everything."""
        self.close_stdin()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        os.close(self.event_fd)
        if self.pidfd is not None:
            os.close(self.pidfd)


def describe_exit(code: int) -> str:
    """How a worker ended, for a headline."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name} (signal {-code})"


def exit_hint(code: int) -> str:
    """What to do after a worker died like this."""
    cause = {
        -signal.SIGKILL: "Often the system ran out of memory: look for it in `dmesg`. ",
        -signal.SIGABRT: "A native library gave up; its last lines are in the log. ",
        -signal.SIGSEGV: "A native library crashed; the stack is in the log. ",
        -signal.SIGBUS: "A native library crashed; the stack is in the log. ",
    }.get(code, "")
    return f"{cause}What was measured stays on the screen. Press R to start a new worker."
