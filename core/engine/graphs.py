"""A decode step recorded once and replayed: capture, instantiate, replay, and what the graph consists of.

Capture records on one stream in `thread_local` error mode, with garbage collection run before and held back during it:
a collected old graph would call into CUDA in the middle of the recording. The graph is kept after instantiation
(`keep_graph=True`), so its nodes can be counted.
"""

import contextlib
import gc
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator

import torch

PoolHandle = tuple[int, int]
"""A private pool, as `torch.cuda.graph_pool_handle` names it."""


class CapturedStep(ABC):
    """A recorded decode step."""

    logits: torch.Tensor
    """[batch, vocab], written anew by each replay, always at the same address."""
    begin_blocks: tuple[tuple[int, int], ...] = ()
    """(address, requested bytes) of blocks that beginning the capture allocated, before the step: torch's own."""
    pool_id: str | None = None
    capture_s: float = 0.0
    instantiate_s: float = 0.0

    @abstractmethod
    def instantiate(self) -> None:
        """Turn the recording into something that can be launched."""

    @abstractmethod
    def replay(self) -> None:
        """Launch one step on the current stream."""

    @abstractmethod
    def release(self) -> None:
        """Drop the graph; its pool is free once its tensors are gone."""

    def nodes_by_kind(self) -> dict[str, int] | None:
        """How many nodes of each kind the graph has, or None where that cannot be asked."""
        return None


class CudaCapturedStep(CapturedStep):
    """A `torch.cuda.CUDAGraph` of one step."""

    def __init__(
        self,
        step: Callable[[], torch.Tensor],
        stream: torch.cuda.Stream,
        active_blocks: Callable[[], dict[int, int]],
        pool: PoolHandle | None = None,
    ) -> None:
        """Record `step` on `stream`. Raises what the step or the capture raises; the recording is ended either way.

        `active_blocks` lists the allocator's blocks in use, address -> requested bytes, without touching the device.
        `pool`: allocate in this one, which other graphs of the stream use as well.
        """
        self._graph = torch.cuda.CUDAGraph(keep_graph=True)
        before = active_blocks()
        with no_garbage_collection(), torch.cuda.stream(stream):
            # torch has a NewType of its own for the handle, under a private name.
            self._graph.capture_begin(pool, capture_error_mode="thread_local")  # type: ignore[arg-type]
            begun = time.perf_counter()
            try:
                self.begin_blocks = tuple(block for block in active_blocks().items() if block[0] not in before)
                self.logits = step()
            except BaseException:
                # The step's own error says what happened; ending a broken capture raises a second one.
                with contextlib.suppress(RuntimeError):
                    self._graph.capture_end()
                raise
            self._graph.capture_end()
        self.capture_s = time.perf_counter() - begun
        self.pool_id = pool_name(tuple(self._graph.pool()))

    def instantiate(self) -> None:
        begun = time.perf_counter()
        self._graph.instantiate()
        self.instantiate_s = time.perf_counter() - begun

    def replay(self) -> None:
        self._graph.replay()

    def release(self) -> None:
        self._graph.reset()
        del self.logits

    def nodes_by_kind(self) -> dict[str, int] | None:
        return count_nodes(self._graph.raw_cuda_graph())


def count_nodes(raw_graph: int) -> dict[str, int] | None:
    """Kind -> number of nodes of a `cudaGraph_t`; None without cuda.bindings.

    Source: cudaGraphGetNodes (once for the count, once for the nodes) and cudaGraphNodeGetType.
    """
    try:
        from cuda.bindings import runtime
    except ImportError:
        return None
    error, _, count = runtime.cudaGraphGetNodes(raw_graph)
    if int(error) != 0:
        return None
    error, nodes, count = runtime.cudaGraphGetNodes(raw_graph, count)
    if int(error) != 0:
        return None
    kinds: Counter[str] = Counter()
    for node in nodes[:count]:
        error, kind = runtime.cudaGraphNodeGetType(node)
        kinds[_kind_name(kind.name) if int(error) == 0 else "unknown"] += 1
    return dict(kinds)


def pool_name(pool: tuple[int, ...]) -> str:
    """How a private pool is called everywhere; the default pool is "default"."""
    return "default" if not any(pool) else ".".join(str(part) for part in pool)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect now, then hold collection back; the state from before comes back even after an exception."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _kind_name(enum_name: str) -> str:
    return enum_name.removeprefix("cudaGraphNodeType").lower()
