"""What the phases need of a device: allocator counters, its map, streams, time, and graphs where there are any.

`CudaDevice` is the real one. `CpuDevice` runs the same phases as far as a CPU has them: every counter that it does not
have is None, never 0.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from .graphs import CapturedStep, CudaCapturedStep, PoolHandle

StepFunction = Callable[[], torch.Tensor]
"""Enqueues one decode step and returns its logits, [batch, vocab]."""


class AllocatorCounters(NamedTuple):
    """One reading of the caching allocator; a field is None where the platform does not count it."""

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    peak_allocated: int | None = None
    allocations: int | None = None
    """Blocks handed out since the process began."""
    device_allocations: int | None = None
    """`cudaMalloc` calls since the process began."""


class RawBlock(NamedTuple):
    """A block of the allocator's map; `active` ones are in use."""

    address: int
    size: int
    requested: int
    active: bool


class RawSegment(NamedTuple):
    """A segment of the allocator's map. `pool` is (0, 0) for the default pool."""

    address: int
    size: int
    pool: tuple[int, int]
    stream: int
    blocks: tuple[RawBlock, ...]


class Marker(ABC):
    """A point in a stream that the host can wait for."""

    @abstractmethod
    def record(self) -> None:
        """Place it behind everything enqueued so far on the current stream."""

    @abstractmethod
    def wait(self) -> None:
        """Block the host until the stream has reached it."""


class Device(ABC):
    """A device as the engine drives it. All methods are for the one GPU thread."""

    kind: str
    torch_device: torch.device
    capture_refusal: str | None = None
    """Why this device cannot capture graphs; None if it can."""

    @abstractmethod
    def open(self) -> None:
        """Make the first call, which creates the context. Allocates no tensor."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work on the device."""

    @abstractmethod
    def counters(self) -> AllocatorCounters:
        """The caching allocator's counters now."""

    @abstractmethod
    def reset_peak(self) -> None:
        """Start `peak_allocated` anew."""

    @abstractmethod
    def snapshot(self) -> tuple[RawSegment, ...]:
        """The allocator's map; empty where there is none."""

    @abstractmethod
    def free_and_total(self) -> tuple[int, int] | None:
        """`cudaMemGetInfo` in bytes, or None."""

    @abstractmethod
    def empty_cache(self) -> None:
        """Give the allocator's unused segments back to the driver."""

    @abstractmethod
    def new_stream(self) -> torch.cuda.Stream | None:
        """A stream of its own; None where there are no streams."""

    @abstractmethod
    def on(self, stream: torch.cuda.Stream | None) -> contextlib.AbstractContextManager[None]:
        """Enqueue on this stream inside the `with`; on the default stream for None. Ordered after what came before."""

    @abstractmethod
    def marker(self) -> Marker:
        """A new marker."""

    @abstractmethod
    def host_buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Host memory that device copies can go to without waiting."""

    @abstractmethod
    def capture(
        self, step: StepFunction, stream: torch.cuda.Stream | None, pool: PoolHandle | None = None
    ) -> CapturedStep:
        """Record one step without running it, on `stream`, into a private pool. Not yet instantiated.

        `pool`: share this one with the graphs captured into it before; None: a pool of its own.
        """

    def new_pool(self) -> PoolHandle | None:
        """A pool that several graphs may share; None where there are none."""
        return None

    @abstractmethod
    def clear_workspaces(self) -> None:
        """Give the libraries' workspaces back, where there are any."""

    def write_snapshot(self, path: str) -> bool:
        """Write torch's own memory snapshot; False where there is none to write."""
        return False


class CudaDevice(Device):
    """One CUDA device, by its index as this process sees it."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.index = index
        self.torch_device = torch.device("cuda", index)

    def open(self) -> None:
        torch.cuda.set_device(self.index)
        torch.cuda.synchronize(self.index)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.index)

    def counters(self) -> AllocatorCounters:
        stats = torch.cuda.memory_stats(self.index)
        return AllocatorCounters(
            requested=stats.get("requested_bytes.all.current"),
            allocated=stats.get("allocated_bytes.all.current"),
            reserved=stats.get("reserved_bytes.all.current"),
            peak_allocated=stats.get("allocated_bytes.all.peak"),
            allocations=stats.get("allocation.all.allocated"),
            device_allocations=stats.get("num_device_alloc"),
        )

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.index)

    def snapshot(self) -> tuple[RawSegment, ...]:
        return tuple(
            RawSegment(
                address=segment["address"],
                size=segment["total_size"],
                pool=tuple(segment.get("segment_pool_id", (0, 0))),
                stream=segment["stream"],
                blocks=tuple(
                    RawBlock(
                        address=block["address"],
                        size=block["size"],
                        requested=block.get("requested_size", block["size"]),
                        active=block["state"] == "active_allocated",
                    )
                    for block in segment["blocks"]
                ),
            )
            for segment in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
            if segment["device"] == self.index
        )

    def free_and_total(self) -> tuple[int, int] | None:
        free, total = torch.cuda.mem_get_info(self.index)
        return free, total

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def new_stream(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.index)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def on(self, stream: torch.cuda.Stream | None) -> Iterator[None]:
        stream = stream or torch.cuda.default_stream(self.index)
        stream.wait_stream(torch.cuda.current_stream(self.index))
        with torch.cuda.stream(stream):
            yield
        torch.cuda.current_stream(self.index).wait_stream(stream)

    def marker(self) -> Marker:
        return _CudaMarker()

    def host_buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, pin_memory=True)

    def capture(
        self, step: StepFunction, stream: torch.cuda.Stream | None, pool: PoolHandle | None = None
    ) -> CapturedStep:
        if stream is None:
            raise ValueError("a graph is captured on a stream of its own, never on the default one")
        return CudaCapturedStep(step, stream, self._active_blocks, pool)

    def new_pool(self) -> PoolHandle | None:
        first, second = torch.cuda.graph_pool_handle()
        return first, second

    def _active_blocks(self) -> dict[int, int]:
        return {
            block.address: block.requested for segment in self.snapshot() for block in segment.blocks if block.active
        }

    def clear_workspaces(self) -> None:
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()

    def write_snapshot(self, path: str) -> bool:
        torch.cuda.memory._dump_snapshot(path)  # type: ignore[no-untyped-call]
        return True


class CpuDevice(Device):
    """The CPU: real models and caches, no allocator counters, no streams and no graphs."""

    kind = "cpu"
    capture_refusal: str | None = "CUDA graphs need CUDA; this run is on the CPU"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")

    def open(self) -> None:
        """A CPU has no context."""

    def synchronize(self) -> None:
        """CPU work is done when its call returns."""

    def counters(self) -> AllocatorCounters:
        return AllocatorCounters()

    def reset_peak(self) -> None:
        """No peak is counted."""

    def snapshot(self) -> tuple[RawSegment, ...]:
        return ()

    def free_and_total(self) -> tuple[int, int] | None:
        return None

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def new_stream(self) -> torch.cuda.Stream | None:
        return None

    @contextlib.contextmanager
    def on(self, stream: torch.cuda.Stream | None) -> Iterator[None]:
        yield

    def marker(self) -> Marker:
        return _HostMarker()

    def host_buffer(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    def capture(
        self, step: StepFunction, stream: torch.cuda.Stream | None, pool: PoolHandle | None = None
    ) -> CapturedStep:
        raise RuntimeError(self.capture_refusal)

    def clear_workspaces(self) -> None:
        """There are none."""


class _CudaMarker(Marker):
    def __init__(self) -> None:
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def record(self) -> None:
        self._event.record()

    def wait(self) -> None:
        self._event.synchronize()


class _HostMarker(Marker):
    def record(self) -> None:
        """The work is done already."""

    def wait(self) -> None:
        """The work is done already."""


def now() -> float:
    """Seconds on the host's monotonic clock."""
    return time.perf_counter()
