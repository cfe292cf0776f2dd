"""Record a decode loop of your own: a small model, its own cache, `torch.cuda.graph`, and nothing of cgtop's engine.

    .venv/bin/python examples/own_model.py mine.jsonl
    .venv/bin/cgtop play mine.jsonl

Without a GPU the same step runs eagerly, and the program says so.
"""

import sys
from collections.abc import Callable

import torch
from torch import nn

from cgtop.core.engine import Recorder
from cgtop.core.settings import Mode

WIDTH, VOCABULARY, CAPACITY, PROMPT = 64, 256, 128, 8


class Decoder(nn.Module):
    """One attention layer over a cache of fixed size, and an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """`ids` [1], `keys`, `values` [capacity, width]; `at` [1]: the slot to write. Returns logits [vocabulary]."""
        query, key, value = self.qkv(self.embed(ids)).chunk(3, dim=-1)
        keys.index_copy_(0, at, key)
        values.index_copy_(0, at, value)
        scores = (query @ keys.T / WIDTH**0.5).masked_fill(torch.arange(CAPACITY, device=at.device) > at, -torch.inf)
        logits: torch.Tensor = self.head(scores.softmax(dim=-1) @ values)[0]
        return logits


def run(r: Recorder, mode: Mode, launch: Callable[[], object]) -> None:
    """Decode until the cache is full."""
    r.decoding(mode, position=PROMPT)
    for _ in range(CAPACITY - PROMPT):
        launch()
        r.tokens()


@torch.no_grad()
def main(path: str) -> None:
    """Record all phases that this program has."""
    with Recorder(path, name="own model", capacity=CAPACITY) as r:
        with r.phase("context"):
            pass  # the first CUDA call, which the recorder makes where nothing else does

        with r.phase("load"):
            torch.manual_seed(0)
            model = Decoder().to(r.device)
        r.own("weights", model)

        with r.phase("static_cache"):
            keys, values = torch.zeros(2, CAPACITY, WIDTH, device=r.device)
            ids, at = (torch.zeros(1, dtype=torch.int64, device=r.device) for _ in range(2))
        r.own("kv_static", [("keys and values", keys)])  # the two are one storage
        r.own("graph_io", [("input", ids), ("position", at)], "inputs")

        def step() -> torch.Tensor:
            logits: torch.Tensor = model(ids, keys, values, at)
            ids.copy_(logits.argmax(keepdim=True))
            at.add_(1)
            return logits

        stream = torch.cuda.Stream() if r.can_capture else None
        with torch.cuda.stream(stream):
            with r.phase("warmup", note=f"{PROMPT} steps, eagerly"):
                r.workspace(stream, torch.float32)
                r.decoding("eager")
                for _ in range(PROMPT):
                    step()
                    r.tokens()

            if r.can_capture:
                graph = torch.cuda.CUDAGraph(keep_graph=True)
                with r.phase("capture"), r.capture(graph, stream=stream):
                    logits = step()
                r.own("graph_io", [("logits", logits)], "logits")
                with r.phase("replay"):
                    run(r, "graph", graph.replay)
            else:
                sys.stdout.write("no GPU here: the step runs eagerly instead of being captured\n")
                r.skip("capture", "CUDA graphs need CUDA")
                r.skip("replay", "CUDA graphs need CUDA")
                run(r, "eager", step)
    sys.stdout.write(f"recorded: cgtop play {path}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mine.jsonl")
