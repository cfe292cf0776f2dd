"""A made-up stream as long and as varied as ten minutes of decoding by replay: its figures are nobody's measurement."""

import random

import msgspec

from cgtop.core.events import Block, Event, Memory, PhaseBegin, PhaseId, Segment, Segments, Telemetry, Tokens
from cgtop.core.memory_map import GIB, MIB
from cgtop.core.phases import PHASE_IDS
from tests.sample import TOTAL, decode, hello, memory, phase_end

DECODE_EVENTS = 6000
BLOCKS = 1500
VOCABULARY = 151_936
STEPS_AN_EVENT = 12


def long_run(seed: int = 0) -> list[Event]:
    """6,000 decode and 6,000 tokens events, 1,200 live memory samples, 600 of telemetry, 9 maps of 1,500 blocks."""
    rng = random.Random(seed)
    events: list[Event] = [hello()]
    t = 0.0
    for phase in PHASE_IDS:
        events.append(PhaseBegin(t=round(t + rng.random(), 4), phase=phase))
        t = round(t + 1 + 3 * rng.random(), 4)
        if phase == "replay":
            for index in range(DECODE_EVENTS):
                t = round(t + rng.gauss(0.1, 0.002), 4)
                events += _tenth_of_a_second(rng, t, index)
        events += [phase_end(t, phase), memory(t, phase), _segments(rng, t, phase)]
    return events


def _tenth_of_a_second(rng: random.Random, t: float, index: int) -> list[Event]:
    def noisy(value: float) -> float:
        return float(f"{value * rng.gauss(1, 0.01):.6g}")

    steps = (index + 1) * STEPS_AN_EVENT
    sample = msgspec.structs.replace(
        decode(t, "graph", steps, 125.5, 32 + steps % 992),
        tok_s=noisy(125.5),
        tok_s_mean=noisy(125.5),
        step_ms_p50=noisy(8.0),
        step_ms_p99=noisy(9.0),
        gb_s=noisy(1020.0),
    )
    ids = tuple(rng.randrange(VOCABULARY) for _ in range(STEPS_AN_EVENT))
    events: list[Event] = [sample, Tokens(t=t, mode="graph", ids=ids)]
    if index % 5 == 0:
        events.append(_live_memory(rng, t))
    if index % 10 == 0:
        events.append(
            Telemetry(
                t=t,
                used_bytes=9 * GIB + rng.randrange(4) * MIB,
                total_bytes=TOTAL,
                memory_api="v2",
                gpu_percent=rng.randrange(90, 99),
                sm_mhz=1980,
                power_w=noisy(350.0),
                temperature_c=rng.randrange(40, 60),
                throttle=(),
                matched_by="uuid",
            )
        )
    return events


def _live_memory(rng: random.Random, t: float) -> Memory:
    sample = memory(t, "replay", live=True)
    shift = rng.randrange(4) * MIB
    buckets = sample.buckets | {
        "driver": sample.buckets["driver"] + shift,
        "free": sample.buckets["free"] - shift,
    }
    return msgspec.structs.replace(sample, buckets=buckets, free_bytes=buckets["free"])


def _segments(rng: random.Random, t: float, phase: PhaseId) -> Segments:
    segments: list[Segment] = []
    address, left = 0x7F0000000000, BLOCKS
    while left:
        blocks: list[Block] = []
        offset = 0
        for _ in range(min(left, rng.choice((1, 2, 10, 40)))):
            size = rng.choice((512, 1024, 2 * MIB, rng.randrange(1, 40_000) * 512))
            name = f"model.layers.{rng.randrange(36)}.self_attn.q_proj.weight" if rng.random() < 0.5 else ""
            bucket = rng.choice(("weights", "kv_static", None))
            blocks.append(
                Block(offset=offset, size=size, requested=size - rng.randrange(512), bucket=bucket, name=name)
            )
            offset += size
        left -= len(blocks)
        segments.append(Segment(address=address, size=offset, pool="default", stream=0, blocks=tuple(blocks)))
        address += offset
    return Segments(t=t, phase=phase, segments=tuple(segments))
