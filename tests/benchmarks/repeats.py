"""`python -m tests.benchmarks.repeats`: whether decode steps repeat themselves to the bit, and where they do not.

The same steps from the end of the prompt, under the same tokens, again and again: eagerly, and by replay where there is
a graph. Runs with the same bits have the same outcome. Then eager runs once more with the outputs of all modules
hashed: the first that differs from those of the run before it is where the difference comes from. An attention module
computes between the last projection and the input of `o_proj`, which is listed as a module of its own.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from cgtop.core.commands import Quit, RunPhase
from cgtop.core.engine.inbox import CommandQueue
from cgtop.core.engine.opening import open_run
from cgtop.core.engine.session import Session
from cgtop.core.engine.steps import StaticDecode
from cgtop.core.engine.verdicts import Run, compare
from cgtop.core.engine.verify import Launch, run_steps
from cgtop.core.plurals import counted
from cgtop.core.settings import RunSettings

PHASES = 7
"""Up to capture."""
ATTENTION = ("sdpa", "fmha", "attention", "flash")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--eager", type=int, default=24, help="eager runs")
    parser.add_argument("--replays", type=int, default=64, help="runs of replays")
    parser.add_argument("--hashed", type=int, default=5, help="eager runs with the outputs of all modules hashed")
    parser.add_argument("--without-cudnn", action="store_true", help="attention by another kernel than cuDNN's")
    options = parser.parse_args()
    if options.without_cudnn:
        torch.backends.cuda.enable_cudnn_sdp(False)
    opening = open_run(RunSettings(model=options.model, device=options.device, verify_steps=0))
    with torch.no_grad():
        commands = CommandQueue()
        session = Session(opening, commands, lambda _: None)
        for _ in range(PHASES):
            commands.put(RunPhase())
        commands.put(Quit())
        session.serve()
        found = Repeats(session, options.steps)
        result = found.outcomes(options.eager, options.replays) | found.origins(options.hashed)
    hello = opening.hello
    result = {
        "what": "the same decode steps again and again: the outcome of each run, in order",
        "started_at": hello.started_at,
        "device": hello.device.name,
        "versions": {**hello.versions, "cudnn": torch.backends.cudnn.version()},  # type: ignore[no-untyped-call]
        "model": options.model,
        "cudnn_attention": not options.without_cudnn,
        **result,
    }
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    for name, outcomes in result["runs"].items():
        sys.stderr.write(f"{name}: {counted(len(outcomes), 'run')}, {counted(len(set(outcomes)), 'outcome')}\n")
    return 0


class Repeats:
    """The steps of a run that has been brought up to capture, repeated from the end of the prompt."""

    def __init__(self, session: Session, steps: int) -> None:
        workflow = session.workflow
        assert workflow.static is not None and workflow.loaded is not None, "a phase has failed"
        self._workflow = workflow
        self._static: StaticDecode = workflow.static
        self._model = workflow.loaded.model
        self._steps = steps
        self._fed: list[torch.Tensor] | None = None
        self._fed = self._run(self._static.step).fed

    def outcomes(self, eager: int, replays: int) -> dict[str, Any]:
        """Which of the outcomes found each run had; number 0 is that of the first eager run."""
        launches: dict[str, tuple[Launch, int]] = {"eager": (self._static.step, eager)}
        captured = self._workflow.captured
        if captured is not None:

            def replay() -> torch.Tensor:
                captured.replay()
                return captured.logits

            launches["replay"] = (replay, replays)
        distinct: list[Run] = []
        runs = {
            name: [self._outcome(self._run(launch), distinct) for _ in range(times)]
            for name, (launch, times) in launches.items()
        }
        against_first = [compare(run.logits, distinct[0].logits) for run in distinct]
        return {
            "prompt_len": self._static.cursor.prompt_len,
            "max_cache_len": self._static.kv.capacity,
            "steps": self._steps,
            "outcomes": [
                {"first_different": found.first_different, "max_difference": found.max_difference}
                for found in against_first
            ],
            "runs": runs,
        }

    def origins(self, runs: int) -> dict[str, Any]:
        """Of each of these eager runs the first module whose output is not that of the run before it, and its step."""
        hashed = [self._hashed() for _ in range(runs)]
        found = [_first_difference(before, after) for before, after in itertools.pairwise(hashed)]
        return {"first_other_output": found, "attention_kernels": self._attention_kernels()}

    def _run(self, launch: Launch) -> Run:
        static = self._static
        with self._workflow.device.on(self._workflow.stream):
            run = run_steps(static, launch, static.cursor.prompt_len, static.first_ids, self._steps, self._fed)
        static.cursor.rewind()
        return run

    @staticmethod
    def _outcome(run: Run, distinct: list[Run]) -> int:
        for number, other in enumerate(distinct):
            if compare(run.logits, other.logits).first_different is None:
                return number
        distinct.append(run)
        return len(distinct) - 1

    def _hashed(self) -> list[list[tuple[str, int]]]:
        """The hash of each module's output, step by step."""
        steps: list[list[tuple[str, torch.Tensor]]] = []

        def step() -> torch.Tensor:
            steps.append([])
            return self._static.step()

        with _watched(self._model, lambda name, output: steps[-1].append((name, _hash(output)))):
            self._run(step)
        return [[(name, int(value)) for name, value in one] for one in steps]

    def _attention_kernels(self) -> list[str]:
        """Those that a step launches, by name; none on a CPU."""
        if not torch.cuda.is_available():
            return []
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            self._run(self._static.step)
        names = {event.name for event in profiled.events() if event.device_type.name == "CUDA"}
        return sorted(name[:120] for name in names if any(part in name.lower() for part in ATTENTION))


@contextmanager
def _watched(model: torch.nn.Module, tell: Callable[[str, torch.Tensor], None]) -> Iterator[None]:
    """Tell of every output of a module without children, and of what goes into `o_proj`."""
    hooks = []
    for name, module in model.named_modules():
        if name.endswith("o_proj"):
            hooks.append(module.register_forward_pre_hook(lambda _, args, name=name: tell(f"{name} (input)", args[0])))
        if name and not list(module.children()):
            hooks.append(
                module.register_forward_hook(
                    lambda _, args, output, name=name: tell(name, output) if torch.is_tensor(output) else None
                )
            )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hash(values: torch.Tensor) -> torch.Tensor:
    """A number that another bit, or two values in each other's place, almost surely changes."""
    words = values.detach().contiguous().view(torch.int16).to(torch.int64).flatten()
    return (words * (torch.arange(words.numel(), device=words.device) % 8191 + 1)).sum()


def _first_difference(before: list[list[tuple[str, int]]], after: list[list[tuple[str, int]]]) -> dict[str, Any] | None:
    for step, (left, right) in enumerate(zip(before, after, strict=True)):
        for (name, one), (_, other) in zip(left, right, strict=True):
            if one != other:
                return {"step": step, "module": name}
    return None


if __name__ == "__main__":
    sys.exit(main())
