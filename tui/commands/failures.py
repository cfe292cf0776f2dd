"""How a command fails: a headline and a hint on standard error, an exit code, no traceback unless asked for."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

import typer

from ...core.settings import SettingsError
from ..format import clean


class Exit(IntEnum):
    """Exit codes; 128 + n stands for signal n."""

    FINE = 0
    RUN_FAILED = 1
    WRONG_USAGE = 2
    NO_DEVICE = 3
    SIGNAL = 128


SIGINT, SIGPIPE = 2, 13


class CommandError(Exception):
    """A failure that a person can do something about: what happened, what to do, and the exit code."""

    def __init__(self, headline: str, hint: str = "", code: int = Exit.RUN_FAILED) -> None:
        super().__init__(headline)
        self.headline, self.hint, self.code = headline, hint, code


@contextmanager
def told(debug: bool) -> Iterator[None]:
    """Turn whatever goes wrong inside into a message and an exit code (`typer.Exit`)."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, SystemExit):
        raise
    except BrokenPipeError:
        # The reader is gone, as in `cgtop play FILE | head`; Python must not find that out again at exit.
        with suppress(OSError):  # of a stream that is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.SIGNAL + SIGPIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(Exit.SIGNAL + SIGINT) from None
    except CommandError as error:
        raise _exit(error, debug, error.headline, error.hint, error.code) from None
    except SettingsError as error:
        raise _exit(error, debug, str(error), "", Exit.WRONG_USAGE) from None
    except Exception as error:
        hint = "" if debug else "--debug shows where"
        raise _exit(error, debug, f"{type(error).__name__}: {error}", hint, Exit.RUN_FAILED) from None


def tell(headline: str, hint: str = "") -> None:
    """Write a headline and, indented under it, a hint to standard error; safe for a terminal."""
    print(f"cgtop: {clean(headline)}", file=sys.stderr)  # noqa: T201
    for line in hint.splitlines():
        print(f"  {clean(line)}", file=sys.stderr)  # noqa: T201


def _exit(error: Exception, debug: bool, headline: str, hint: str, code: int) -> typer.Exit:
    if debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            print(clean(line), file=sys.stderr)  # noqa: T201
    tell(headline, hint)
    return typer.Exit(int(code))
