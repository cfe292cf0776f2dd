"""Sessions for a screen in a real terminal: phases at once, then decoding at the rate of a live run; and floods."""

import time
from collections.abc import Callable

import msgspec

from cgtop.core.commands import AnyCommand, Pause, Quit, Resume, RunAll, RunPhase, SetMode
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.events import Error, Event, PhaseBegin, RunStateName, Status, Telemetry, Tokens
from cgtop.core.memory_map import GIB
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import Mode, RunSettings
from tests.sample import TOTAL, decode, hello, memory, phase_end, segments

Emit = Callable[[Event], None]
TOK_S: dict[Mode, float] = {"eager": 20.0, "dynamic": 11.0, "graph": 115.0}
PERIOD_S = 0.1
FLOOD_EVENTS = 10_000
"""A second."""
FLOOD_S = 3


class _Run:
    """A run that decodes made-up tokens in real time."""

    def __init__(self, settings: RunSettings, commands: CommandQueue, emit: Emit) -> None:
        self.commands, self.emit = commands, emit
        self.start = time.monotonic()
        self.left = list(PHASE_IDS)
        self.mode: Mode | None = None
        self.paused = False
        self.tokens = self.sent = 0
        emit(msgspec.structs.replace(hello(), settings=settings))
        self.tell()

    @property
    def t(self) -> float:
        return round(time.monotonic() - self.start, 4)

    def tell(self) -> None:
        state: RunStateName = "paused" if self.paused else "decoding" if self.mode else "idle"
        upcoming = self.left[0] if self.left else None
        self.emit(Status(t=self.t, state=state, mode=self.mode, next_phase=upcoming))

    def serve(self) -> int:
        while True:
            deciding = self.mode is None or self.paused
            command = self.commands.get() if deciding else self.commands.get_nowait()
            if isinstance(command, Quit):
                return 0
            if command is None:
                self.decode()
                time.sleep(PERIOD_S)
            else:
                self.handle(command)

    def handle(self, command: AnyCommand) -> None:
        match command:
            case RunPhase():
                self.run(1)
            case RunAll():
                self.run(len(self.left) - 1)
                self.mode = "graph"
            case SetMode(mode=mode):
                self.mode, self.tokens, self.paused = mode, 0, False
            case Pause():
                self.paused = True
            case Resume():
                self.paused = False
        self.tell()

    def run(self, count: int) -> None:
        for phase in self.left[:count]:
            self.emit(PhaseBegin(t=self.t, phase=phase))
            for event in (phase_end(self.t, phase), memory(self.t, phase), segments(self.t, phase)):
                self.emit(event)
        del self.left[:count]

    def decode(self) -> None:
        assert self.mode is not None
        wobble = 1 + 0.01 * (self.sent % 7)
        steps = max(1, round(TOK_S[self.mode] * PERIOD_S))
        self.sent, self.tokens = self.sent + 1, self.tokens + steps
        position = 32 + (self.sent * steps) % 992
        self.emit(decode(self.t, self.mode, self.tokens, TOK_S[self.mode] * wobble, position))
        first = self.sent * 977 % 140_000
        self.emit(Tokens(t=self.t, mode=self.mode, ids=tuple(range(first, first + steps))))
        if self.sent % 5 == 0:
            self.emit(memory(self.t, "replay", live=True))
        if self.sent % 10 == 0:
            self.emit(
                Telemetry(
                    t=self.t, used_bytes=9 * GIB, total_bytes=TOTAL, memory_api="v2", gpu_percent=90 + self.sent % 9,
                    sm_mhz=1980, power_w=300.0 + self.sent % 50, temperature_c=40, throttle=(), matched_by="uuid",
                )
            )  # fmt: skip


def decodes(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """Phases by command; after them ten events of decoding a second."""
    return _Run(settings, commands, emit).serve()


def floods(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """`FLOOD_EVENTS` a second for `FLOOD_S` seconds, numbered: tokens, and among every hundred a phase and an error."""
    run = _Run(settings, commands, emit)
    run.run(len(run.left) - 1)
    commands.get()
    start = time.monotonic()
    for number in range(FLOOD_EVENTS * FLOOD_S):
        match number % 100:
            case 0:
                emit(PhaseBegin(t=run.t, phase="replay"))
            case 1:
                emit(phase_end(run.t, "replay"))
            case 2:
                emit(Error(t=run.t, kind="internal", headline=f"fault {number}", recoverable=True))
            case _:
                emit(Tokens(t=run.t, mode="graph", ids=(number,)))
        if number % 100 == 99:
            time.sleep(max(0.0, start + number / FLOOD_EVENTS - time.monotonic()))
    emit(Status(t=run.t, state="idle", next_phase="release", why="the flood is over"))
    return run.serve()
