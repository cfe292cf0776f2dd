"""What the tests run on the worker's GPU thread instead of a model: each function is one way to behave."""

import ctypes
import os
import sys
import time
from collections.abc import Callable

from cgtop.core.commands import Quit, RunAll, RunPhase
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.events import Event, Log, PhaseBegin, PhaseEnd, Status, Tokens
from cgtop.core.phases import PHASE_IDS
from cgtop.core.settings import RunSettings
from tests.sample import decode, hello, sample_run

Emit = Callable[[Event], None]


def phases(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """A short, well-behaved engine: one phase a command."""
    emit(hello())
    emit(Status(state="idle", next_phase=PHASE_IDS[0]))
    left = list(PHASE_IDS)
    while True:
        command = commands.get()
        match command:
            case Quit():
                return 0
            case RunPhase() if left:
                todo, left = left[:1], left[1:]
            case RunAll():
                todo, left = left, []
            case _:
                emit(Status(state="idle", refused=type(command).__name__, why="not by this fake"))
                continue
        for phase in todo:
            emit(PhaseBegin(phase=phase))
            emit(PhaseEnd(phase=phase, seconds=0.001))
        emit(Status(state="idle", next_phase=left[0] if left else None))


def sample(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """The whole made-up run at once."""
    for event in sample_run(decode_events=3):
        emit(event)
    return 0


def fails(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    raise RuntimeError("a fault that nobody expected")


def exit_code_3(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    return 3


def hangs(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    time.sleep(60)
    return 0


def hangs_holding_the_gil(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    time.sleep(0.3)  # for the sink
    ctypes.PyDLL(None).sleep(60)
    return 0


def aborts(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    os.write(2, b"terminate called after throwing an instance of 'c10::Error'\n")
    time.sleep(0.3)
    os.abort()


def exits(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    sys.stderr.write("a last line without a newline")
    sys.stderr.flush()
    os._exit(7)


def prints_holding_the_gil(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """More than any pipe holds, by native code that does not let another Python thread run meanwhile."""
    emit(hello())
    data = b"a native library says something of no use\n" * 50_000
    written = ctypes.PyDLL(None).write(1, data, len(data))
    emit(Log(source="engine", text=f"wrote {written} of {len(data)}"))
    return 0


def asks_while_it_samples(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """A prompt without a newline, while events go on at 50 Hz."""
    emit(hello())
    os.write(1, b"Proceed? ")
    index = 0
    while not isinstance(commands.get_nowait(), Quit):
        index += 1
        emit(decode(float(index), "graph", index, 100.0, 40))
        time.sleep(0.02)
    return 0


def prints(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    os.write(1, b"native \x1b[31mred\x1b[0m out\n")
    os.write(2, b"10%\r20%\r\nnative err \xff\n" + b"x" * 10_000 + b"\n")
    sys.stdout.write("python out\n")
    ctypes.CDLL(None).printf(b"c out\n")
    os.write(1, b"no newline")
    commands.get()
    return 0


def burst(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """10,000 events as fast as they come, a phase among every hundred."""
    return _bursts(1, commands, emit)


def burst_and_more(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """Three of them: more than a client takes in by itself."""
    return _bursts(3, commands, emit)


def _bursts(count: int, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    for number in range(count * 100):
        emit(PhaseBegin(phase="replay"))
        for index in range(98):
            emit(Tokens(mode="graph", ids=(number * 98 + index,)))
        emit(decode(float(number + 1), "graph", number, 100.0, 40))
    commands.get()
    return 0


def endless(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """Bursts of 10,000 events, one after the other, looking at its commands between them."""
    emit(hello())
    while not isinstance(commands.get_nowait(), Quit):
        for index in range(10_000):
            emit(Tokens(mode="graph", ids=(index,)))
    return 0


def bad_lines(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """Writes to the event pipe what is no event."""
    emit(hello())
    time.sleep(0.2)
    fd = int(sys.argv[sys.argv.index("--event-fd") + 1])
    os.write(fd, b"no json\n")
    os.write(fd, b'{"event":"from_the_future","t":1}\n')
    os.write(fd, b'{"event":"hello","schema":99}\n')
    for _ in range(17):
        os.write(fd, b"x" * (1 << 20))
    os.write(fd, b"\n")
    emit(Status(state="idle", why="still here\u001b[2J"))
    return 0


def closes_its_event_pipe(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    emit(hello())
    time.sleep(0.2)
    os.close(int(sys.argv[sys.argv.index("--event-fd") + 1]))
    time.sleep(60)
    return 0


def leaves_a_child(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """A child that holds every pipe open, as a forked helper of a library does."""
    emit(hello())
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    emit(Log(source="engine", text=f"child {child}"))
    commands.get()
    time.sleep(0.2)
    os._exit(9)


def environment(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    names = sorted(name for name in sys.modules if name in ("torch", "transformers"))
    wanted = ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS", "TOKENIZERS_PARALLELISM")
    values = [f"{name}={os.environ.get(name)}" for name in wanted]
    emit(Log(source="engine", text=" ".join(values + names)))
    return 0


def without_torch(settings: RunSettings, commands: CommandQueue, emit: Emit) -> int:
    """The engine where torch is not installed."""
    raise ModuleNotFoundError("No module named 'torch'", name="torch")
