"""Who owns which storage: the engine's register, read anew at each sample, so that nothing stale is ever counted.

Owners are given as functions that list the tensors they hold now. cuBLAS workspaces have no tensor: they are found by
provoking them (a small matrix product on the stream, and the block that is new after it).
"""

import gc
from collections.abc import Callable, Iterable

import torch

from ..events import Counters
from .devices import Device, RawBlock, RawSegment
from .memory import Owner, Processes, Sample, attribute, registered_only

Holdings = Callable[[], Iterable[tuple[str, torch.Tensor]]]
"""Lists (name, tensor) held now."""
ReadProcesses = Callable[[], Processes]
SAMPLE_RETRIES = 5
"""Readings of the processes that are tried until free memory is the same before and after one."""


class Ledger:
    """The register of one session, and the samples taken with it. For the GPU thread."""

    def __init__(self, device: Device, read_processes: ReadProcesses) -> None:
        self._device = device
        self._read_processes = read_processes
        self._holdings: dict[tuple[str, str], Holdings] = {}
        self._blocks: dict[int, tuple[Owner, int]] = {}

    def own(self, bucket: str, item: str, holdings: Holdings) -> None:
        """Register what `holdings` lists, now and at every later sample, in a bucket under one item."""
        self._holdings[bucket, item] = holdings

    def own_block(self, address: int, size: int, owner: Owner) -> None:
        """Register a block that no tensor of Python's holds, for as long as it is in use with this requested size."""
        self._blocks[address] = (owner, size)

    def disown(self) -> None:
        """Forget every owner of tensors; blocks without one, such as workspaces, may outlive them."""
        self._holdings.clear()

    def processes(self) -> Processes:
        """One reading of NVML's processes, now."""
        return self._read_processes()

    def driver_bytes(self) -> int | None:
        """This process in NVML minus what the allocator has reserved, now; None where NVML does not tell."""
        own, reserved = self._read_processes().own_bytes, self._device.counters().reserved
        return None if own is None or reserved is None else own - reserved

    def sample(self) -> Sample:
        """A full attribution now, after a synchronise."""
        self._device.synchronize()
        free_and_total = self._device.free_and_total()
        if free_and_total is None:
            return registered_only(self._owned_sizes(), "the CPU has no such counter")
        processes, free_and_total, settled = self._settled_processes(free_and_total)
        segments = self._device.snapshot()
        owners = self._owners(segments)
        reading = self._device.counters()
        return attribute(
            segments,
            owners,
            counters=Counters(requested=reading.requested, allocated=reading.allocated, reserved=reading.reserved),
            free_and_total=free_and_total,
            processes=processes,
            settled=settled,
            source="cudaMemGetInfo, NVML processes, allocator map",
        )

    def provoke_workspace(self, stream: torch.cuda.Stream | None, dtype: torch.dtype, where: str) -> int:
        """Have the libraries allocate their workspace for this thread and stream now; returns its bytes.

        0 if it was there already, or where there is no allocator to look into.
        """
        if self._device.kind != "cuda":
            return 0
        device = self._device.torch_device
        with self._device.on(stream):
            left = torch.ones(16, 16, device=device, dtype=dtype)
            out = torch.empty(16, 16, device=device, dtype=dtype)
        self._device.synchronize()
        known = {block.address for block in _active(self._device.snapshot())}
        with self._device.on(stream):
            torch.mm(left, left, out=out)
        self._device.synchronize()
        found = 0
        for block in _active(self._device.snapshot()):
            if block.address not in known:
                name = f"cuBLAS workspace of {where}"
                self.own_block(block.address, block.requested, Owner("cublas_workspace", name, name))
                found += block.requested
        return found

    def _settled_processes(self, first: tuple[int, int]) -> tuple[Processes, tuple[int, int], bool]:
        before = first
        for _ in range(SAMPLE_RETRIES):
            processes = self._read_processes()
            after = self._device.free_and_total() or before
            if after == before:
                return processes, after, True
            before = after
        return processes, before, False

    def _owned_tensors(self) -> Iterable[tuple[Owner, torch.UntypedStorage]]:
        for (bucket, item), holdings in self._holdings.items():
            for name, tensor in holdings():
                yield Owner(bucket, item, name), tensor.untyped_storage()

    def _owned_sizes(self) -> list[tuple[Owner, int]]:
        sizes: dict[int, tuple[Owner, int]] = {}
        for owner, storage in self._owned_tensors():
            sizes.setdefault(storage.data_ptr(), (owner, storage.nbytes()))
        return list(sizes.values())

    def _owners(self, segments: tuple[RawSegment, ...]) -> dict[int, Owner]:
        owners: dict[int, Owner] = {}
        active = {block.address: block for block in _active(segments)}
        for address, (owner, size) in list(self._blocks.items()):
            block = active.get(address)
            if block is None or block.requested != size:
                del self._blocks[address]
            else:
                owners[address] = owner
        tensors: dict[int, Owner] = {}
        for owner, storage in self._owned_tensors():
            tensors.setdefault(storage.data_ptr(), owner)
        owners |= tensors  # a tensor that lies where such a block was is a tensor
        unknown = [address for address in active if address not in owners]
        return owners | _found_tensors(unknown) if unknown else owners


def _active(segments: tuple[RawSegment, ...]) -> list[RawBlock]:
    return [block for segment in segments for block in segment.blocks if block.active]


def _found_tensors(addresses: list[int]) -> dict[int, Owner]:
    """Owners of blocks that nothing registered, by the live tensors of this process."""
    wanted = set(addresses)
    found: dict[int, Owner] = {}
    for candidate in gc.get_objects():
        kind = type(candidate)
        if not (kind is torch.Tensor or kind is torch.nn.Parameter):
            continue
        if candidate.device.type == "cuda" and candidate.layout is torch.strided:
            address = candidate.untyped_storage().data_ptr()
            if address in wanted:
                name = f"{str(candidate.dtype).removeprefix('torch.')} {list(candidate.shape)}"
                found[address] = Owner("other_tensors", "other live tensors", name)
    return found
