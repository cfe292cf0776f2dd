"""`python -m tests.benchmarks.engine`: decoding by graph through the engine against a bare replay loop.

Both arms replay the same graph with the same synchronisation (one step in flight, each token read), interleaved in one
process. The engine's arm guards the addresses before every replay and emits its events to a pipe that is read.
"""

import argparse
import os
import sys
import threading
import time

import msgspec
import torch

from cgtop.core.commands import Quit, RunPhase
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.engine.opening import open_run
from cgtop.core.engine.session import Session
from cgtop.core.engine.sink import EventSink
from cgtop.core.settings import RunSettings
from cgtop.core.statistics import paired


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--steps", type=int, default=200, help="decode steps of each measurement")
    parser.add_argument("--pairs", type=int, default=24)
    options = parser.parse_args()
    opening = open_run(RunSettings(model=options.model, device="cuda", verify_steps=0))
    commands, sink = CommandQueue(), EventSink(_read_pipe())
    sink.emit(opening.hello)
    with torch.no_grad():
        session = Session(opening, commands, sink.emit)
        for _ in range(8):
            commands.put(RunPhase())
        commands.put(Quit())
        session.serve()
        ratio, engine, bare = paired(
            lambda: _engine(session, options.steps),
            lambda: _bare(session, options.steps),
            least=options.pairs,
            most=options.pairs,
            half_width=0.0,
        )
    hello = opening.hello
    result = {
        "what": "graph decode through the engine / bare replay loop",
        "device": hello.device.name,
        "versions": hello.versions,
        "model": options.model,
        "steps": options.steps,
        "ratio": ratio._asdict(),
        "engine_tok_s": sorted(engine),
        "bare_tok_s": sorted(bare),
    }
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    sys.stderr.write(f"engine / bare replay loop: {ratio}\n")
    return 0


def _engine(session: Session, steps: int) -> float:
    session.decoding.start("graph", afresh=True)
    begun = time.perf_counter()
    session.decoding.stretch(steps)
    took = time.perf_counter() - begun
    session.decoding.stop()
    return steps / took


def _bare(session: Session, steps: int) -> float:
    workflow = session.workflow
    static, captured = workflow.static, workflow.captured
    assert static is not None and captured is not None and workflow.stream is not None
    slots = [torch.empty((1, 1), dtype=torch.int64, pin_memory=True) for _ in range(2)]
    events = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
    position, capacity, first = static.cursor.prompt_len, static.kv.capacity, static.first_ids
    static.cursor.rewind()
    tokens = []
    with workflow.device.on(workflow.stream):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for number in range(steps):
            if position >= capacity:
                static.kv.set_length(static.cursor.prompt_len)
                static.step.input_ids.copy_(first)
                position = static.cursor.prompt_len
            captured.replay()
            position += 1
            slot = number % 2
            slots[slot].copy_(static.step.input_ids, non_blocking=True)
            events[slot].record()
            if number:
                events[1 - slot].synchronize()
                tokens.append(int(slots[1 - slot][0, 0]))
        events[(steps - 1) % 2].synchronize()
        tokens.append(int(slots[(steps - 1) % 2][0, 0]))
        took = time.perf_counter() - begun
    static.cursor.rewind()
    return steps / took


def _read_pipe() -> int:
    reader, writer = os.pipe()

    def read() -> None:
        while os.read(reader, 1 << 16):
            pass

    threading.Thread(target=read, daemon=True).start()
    return writer


if __name__ == "__main__":
    sys.exit(main())
