"""In which phase a block of the allocator's map first appeared, told from one map to the next."""

from collections.abc import Mapping

from .events import PhaseId, Segments


def first_seen(known: Mapping[int, PhaseId], before: Segments | None, now: Segments) -> dict[int, PhaseId]:
    """Address of every block in use -> phase at whose end it was first there with its size and bucket.

    `known` is what this gave for `before`, the map that came before `now`. Blocks that are gone are forgotten, so it
    stays as small as the map. Maps come at phase boundaries: a block freed and handed out again for the same bucket and
    size between two of them counts as the same. A map of no phase dates nothing new.
    """
    was = _in_use(before) if before is not None else {}
    found: dict[int, PhaseId] = {}
    for address, kind in _in_use(now).items():
        phase = known.get(address) if was.get(address) == kind else now.phase
        if phase is not None:
            found[address] = phase
    return found


def _in_use(segments: Segments) -> dict[int, tuple[int, str]]:
    return {
        segment.address + block.offset: (block.size, block.bucket)
        for segment in segments.segments
        for block in segment.blocks
        if block.bucket is not None
    }
