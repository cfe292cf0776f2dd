"""What a surface asks of an engine: JSON Lines on the worker's standard input, the mirror image of `events`."""

import msgspec

from .events import PhaseId, SweepKind
from .settings import Mode


class Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """Base of all commands."""


class RunPhase(Command, frozen=True, kw_only=True, tag="run_phase"):
    """Run the next phase (`phase` null), or the named one if it is next. Ends a running decode first."""

    phase: PhaseId | None = None


class RunAll(Command, frozen=True, kw_only=True, tag="run_all"):
    """Run every phase that is left; stops before `release` and goes on decoding unless `release` is set."""

    release: bool = False


class SetMode(Command, frozen=True, kw_only=True, tag="set_mode"):
    """Decode in this mode from the next token on; starts the decode loop where it is not running."""

    mode: Mode


class Pause(Command, frozen=True, kw_only=True, tag="pause"):
    """Stop between two decode steps, keeping everything."""


class Resume(Command, frozen=True, kw_only=True, tag="resume"):
    """Go on decoding after a pause."""


class Verify(Command, frozen=True, kw_only=True, tag="verify"):
    """Verify the graph again, from the present position."""


class TryDynamicCapture(Command, frozen=True, kw_only=True, tag="try_dynamic_capture"):
    """Attempt a capture on a DynamicCache and tell what comes of it."""


class BreakInput(Command, frozen=True, kw_only=True, tag="break_input"):
    """Rebind the static input instead of copying into it, and replay: the output goes stale."""


class MendInput(Command, frozen=True, kw_only=True, tag="mend_input"):
    """Put the captured input back and copy into it."""


class RunSweep(Command, frozen=True, kw_only=True, tag="run_sweep"):
    """Measure a sweep; needs a loaded model. Empty `values` and `strategies`: the default ones."""

    sweep: SweepKind
    values: tuple[int, ...] = ()
    strategies: tuple[str, ...] = ()


class RunBench(Command, frozen=True, kw_only=True, tag="run_bench"):
    """Compare decode modes, interleaved; needs a captured graph for `graph`."""

    modes: tuple[Mode, ...] = ("eager", "graph")
    tokens: int = 64
    """Decode steps of each arm in each round."""
    rounds: int | None = None
    """Null: until the interval of the ratio is narrow, or the time is up."""


class RunCheck(Command, frozen=True, kw_only=True, tag="run_check"):
    """The checks of `cgtop check`; needs nothing run before."""

    strict: bool = False


class Cancel(Command, frozen=True, kw_only=True, tag="cancel"):
    """Stop a sweep, a bench or a check after the row or round that is being measured."""


class Quit(Command, frozen=True, kw_only=True, tag="quit"):
    """End the worker."""


AnyCommand = (
    RunPhase
    | RunAll
    | SetMode
    | Pause
    | Resume
    | Verify
    | TryDynamicCapture
    | BreakInput
    | MendInput
    | RunSweep
    | RunBench
    | RunCheck
    | Cancel
    | Quit
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyCommand] = msgspec.json.Decoder(AnyCommand)


def encode_command(command: Command) -> bytes:
    """One line of JSON with its newline."""
    return _encoder.encode(command) + b"\n"


def decode_command(line: bytes) -> AnyCommand:
    """Raises `ValueError` for a line that is no command."""
    return _decoder.decode(line)
