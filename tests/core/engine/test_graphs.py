"""How a capture is made, with a CUDAGraph that only takes notes: error mode, garbage collection, failures."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
import torch

from cgtop.core.engine import graphs
from cgtop.core.engine.graphs import CudaCapturedStep, count_nodes, no_garbage_collection, pool_name


class NotingGraph:
    made: ClassVar["list[NotingGraph]"] = []

    def __init__(self, keep_graph: bool = False) -> None:
        self.keep_graph = keep_graph
        self.calls: list[tuple[str, bool]] = []
        self.error_mode = ""
        NotingGraph.made.append(self)

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        self.error_mode = capture_error_mode
        self.calls.append(("begin", gc.isenabled()))

    def capture_end(self) -> None:
        self.calls.append(("end", gc.isenabled()))

    def pool(self) -> tuple[int, int]:
        return (0, 3)

    def instantiate(self) -> None:
        self.calls.append(("instantiate", gc.isenabled()))


@contextmanager
def no_stream(stream: object) -> Iterator[None]:
    yield


@pytest.fixture(autouse=True)
def noting(monkeypatch: pytest.MonkeyPatch) -> None:
    NotingGraph.made = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", NotingGraph)
    monkeypatch.setattr(torch.cuda, "stream", no_stream)


def captured(step: object) -> CudaCapturedStep:
    blocks = iter([{1: 8}, {1: 8, 512: 16}])
    return CudaCapturedStep(step, None, lambda: next(blocks))  # type: ignore[arg-type]


def test_a_capture_is_thread_local_keeps_its_graph_and_holds_garbage_collection_back() -> None:
    step = captured(lambda: torch.zeros(1, 4))
    graph = NotingGraph.made[0]
    assert graph.error_mode == "thread_local" and graph.keep_graph
    assert graph.calls == [("begin", False), ("end", False)]
    assert gc.isenabled()
    assert step.pool_id == "0.3"


def test_blocks_that_beginning_a_capture_allocates_are_told_apart() -> None:
    assert captured(lambda: torch.zeros(1, 4)).begin_blocks == ((512, 16),)


def test_a_failed_step_ends_the_capture_and_garbage_collection_comes_back() -> None:
    def broken() -> torch.Tensor:
        raise ValueError("the step's own error")

    with pytest.raises(ValueError, match="the step's own error"):
        captured(broken)
    assert NotingGraph.made[0].calls[-1] == ("end", False)
    assert gc.isenabled()


def test_garbage_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_without_cuda_bindings_nodes_are_unknown_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    assert count_nodes(0) is None


def test_pools_have_names() -> None:
    assert (pool_name((0, 0)), pool_name((0, 7)), pool_name((2, 0))) == ("default", "0.7", "2.0")
    assert graphs.pool_name((1, 0)) == "1.0"
