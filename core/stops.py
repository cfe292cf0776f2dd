"""Where a lecturer stops in a recording: the end of each phase, each change of mode, each result."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from .events import (
    Addresses,
    Check,
    Claim,
    Comparison,
    Decode,
    Demonstration,
    DynamicCapture,
    End,
    Error,
    Event,
    Hello,
    Memory,
    PhaseBegin,
    PhaseEnd,
    Segments,
    Status,
    SweepEnd,
    SweepRow,
    Verification,
)
from .phases import PHASE_BY_ID
from .settings import Mode

TOGETHER_S = 0.5
"""Checks that follow each other within this are one stop."""
SETTLED_S = 1.0
"""So long into a mode its stop is: the speed of its first two steps is not the mode's."""
AFTERMATH_S = 0.05
"""What an event brings with it comes within this."""
MADE_GOOD_S = 10.0
"""What an error led to comes within this."""
_SWEEPS = {"cache_lens": "cache length", "batches": "batch size"}


class Stop(msgspec.Struct, frozen=True):
    """A place in a recording: after its first `index` events, `t` seconds from its start."""

    index: int
    t: float
    what: str
    """What has just happened, in words."""


def stops_of(events: Sequence[Event], times: Sequence[float]) -> tuple[Stop, ...]:
    """All stops, in order. Each lies behind the figures that its event brings with it."""
    found: list[tuple[int, str]] = []
    for number, what in _happenings(events, times):
        last = found[-1][0] if found else number
        together = isinstance(events[number], Check | Claim) and type(events[last]) is type(events[number])
        if found and together and times[number] - times[last] <= TOGETHER_S:
            found.pop()
        found.append((number, what))
    places = ((_behind(events, times, number), what) for number, what in found)
    return tuple(Stop(index, times[index - 1], what) for index, what in places)


def _happenings(events: Sequence[Event], times: Sequence[float]) -> Iterator[tuple[int, str]]:
    """Number of each event that is one, and what it is."""
    mode: Mode | None = None
    in_phase = False
    verdicts = Counter[str]()
    for number, event in enumerate(events):
        if isinstance(event, Decode):
            # The first decoding of all belongs to the phase that it runs in.
            if event.mode != mode and not (mode is None and in_phase):
                yield _settled(events, times, number), f"decoding in mode {event.mode}"
            mode = event.mode
        elif isinstance(event, Hello):
            mode, in_phase = None, False
            verdicts.clear()
        elif isinstance(event, Check):
            verdicts[event.status] += 1
            so_far = ", ".join(f"{count} {status}" for status, count in verdicts.most_common())
            yield number, f"checked so far: {so_far}"
        elif isinstance(event, PhaseBegin):
            in_phase = True
        else:
            in_phase = in_phase and not isinstance(event, PhaseEnd)
            if (what := _words(event)) is not None:
                yield number, what


def _settled(events: Sequence[Event], times: Sequence[float], number: int) -> int:
    """The last sample of the mode that begins here until it has gone on for a while, or something else happens."""
    begun = events[number]
    assert isinstance(begun, Decode)
    place = number
    for later in range(number + 1, len(events)):
        event = events[later]
        if isinstance(event, Decode):
            if event.mode != begun.mode or times[place] - times[number] >= SETTLED_S:
                break
            place = later
        elif isinstance(event, Hello | PhaseBegin | Check) or _words(event) is not None:
            break
    return place


def _words(event: Event) -> str | None:
    match event:
        case PhaseEnd():
            outcome = {"done": "done", "unavailable": "not possible there", "failed": "failed"}[event.status]
            return f"{PHASE_BY_ID[event.phase].title}: {outcome}"
        case Verification():
            return "the graph verified against eager steps"
        case DynamicCapture():
            return "capture attempted on the DynamicCache"
        case Demonstration():
            return "the input rebound" if event.stage == "broken" else "the input put right"
        case SweepRow():
            how = f", {event.strategy}" if event.sweep == "batches" else ""
            return f"measured: {_SWEEPS[event.sweep]} {event.value:,}{how}"
        case SweepEnd():
            return f"{_SWEEPS[event.sweep]}s: the measurement ends"
        case Comparison(final=True):
            return "the modes compared"
        case Claim():
            return "statements judged"
        case Error():
            return f"an error: {event.headline}"
    return None


def _behind(events: Sequence[Event], times: Sequence[float], number: int) -> int:
    """How many events have happened once those are in that belong to this one."""
    index = number + 1
    if isinstance(events[number], Error):  # what it led to is told once it was made good
        later = takewhile(lambda at: _words(events[at]) is None, range(index, len(events)))
        led_to = next((at for at in later if isinstance(events[at], Status)), None)
        if led_to is not None and times[led_to] - times[number] <= MADE_GOOD_S:
            return led_to + 1
    while index < len(events) and times[index] - times[number] <= AFTERMATH_S:
        event = events[index]
        rests = isinstance(event, Status) and event.state != "running"
        if not (rests or isinstance(event, Memory | Segments | Addresses | End)):
            break
        index += 1
    return index
