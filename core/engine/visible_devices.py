"""Which card a CUDA device index means, worked out from the environment alone: no CUDA call, no context.

CUDA numbers the devices that `CUDA_VISIBLE_DEVICES` lists, in its order, and stops at the first entry that names
nothing. An entry is the beginning of a UUID, which names a card, or a number, which counts in CUDA's own order: by
default "fastest first", a heuristic that leaves the order of equal cards unspecified, or with
`CUDA_DEVICE_ORDER=PCI_BUS_ID` the order on the bus (CUDA C++ Programming Guide, "CUDA environment variables"). So a
number names a card only in bus order, or where there is only one card: else it is left open, even among cards of one
model, since figures of the neighbour would be shown as this run's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec


class CardId(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies one card. `uuid` as NVML spells it ("GPU-…" or "MIG-…"), `pci` as (domain, bus, device)."""

    uuid: str | None = None
    pci: tuple[int, int, int] | None = None
    mig_enabled: bool = False


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """`candidates`: positions in the cards given that the index may mean; one of them is a match."""

    candidates: tuple[int, ...] = ()
    by: str | None = None
    """What named the card: "uuid", "pci" or "only card"; None without a match."""
    visible: bool | None = None
    """Whether CUDA can see a device of this index at all; None where that cannot be told."""
    reason: str = ""
    """Why there is no match."""


def resolve(index: int, cards: Sequence[CardId], migs: Sequence[CardId], environ: Mapping[str, str]) -> Resolved:
    """What CUDA device `index` means among `cards` (whole GPUs) followed by `migs` (MIG instances).

    Candidates index into `[*cards, *migs]`.
    """
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return _by_number(index, cards, environ, f"there is no GPU {index}: NVML sees {_count(len(cards))}")
    entries = _entries(value)
    if not value.strip():
        return Resolved(visible=False, reason="CUDA_VISIBLE_DEVICES is empty: it hides every GPU")
    chosen: list[Resolved] = []
    for entry in entries:
        one = _by_uuid(entry, cards, migs) if isinstance(entry, str) else _by_number(entry, cards, environ)
        if one.visible is False:
            break
        chosen.append(one)
    if len(set(entries)) < len(entries) or _repeats(chosen):
        return Resolved(visible=False, reason=f"CUDA_VISIBLE_DEVICES={value!r} names a GPU twice: CUDA then sees none")
    if isinstance(entries[0], str) and entries[0].startswith("MIG-"):
        chosen = chosen[:1]  # CUDA uses one MIG instance a process.
    if index < len(chosen):
        return chosen[index]
    reason = f"CUDA_VISIBLE_DEVICES={value!r} leaves {_count(len(chosen))} visible, so there is no device {index}"
    return Resolved(visible=False, reason=reason)


def same_card(uuid: str, card: CardId) -> bool:
    """Whether a UUID, with or without its prefix, is this card's."""
    return card.uuid is not None and _bare(uuid) == _bare(card.uuid)


def parse_pci(text: str) -> tuple[int, int, int] | None:
    """(domain, bus, device) of "00000000:17:00.0", with or without domain and function; None for anything else."""
    match = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-7])?", text.strip().lower())
    return (int(match[1] or "0", 16), int(match[2], 16), int(match[3], 16)) if match else None


_UUID_PREFIXES: Final = ("GPU-", "MIG-")


def _entries(value: str) -> list[str | int]:
    """The entries up to the first that cannot name anything; a UUID list ends at the first number, and the reverse.

    Spaces around an entry are passed over: if CUDA did not do so, there would be no such device to match.
    """
    parts = [part.strip() for part in value.split(",")]
    uuids = parts[0].startswith(_UUID_PREFIXES)
    entries: list[str | int] = []
    for part in parts:
        if uuids != part.startswith(_UUID_PREFIXES):
            break
        number = re.match(r"\+?[0-9]{1,9}", part)  # As strtoul reads it: "1gpu" is 1, "-1" ends the list.
        if uuids:
            entries.append(part)
        elif number:
            entries.append(int(number[0]))
        else:
            break
    return entries or [-1]


def _by_uuid(prefix: str, cards: Sequence[CardId], migs: Sequence[CardId]) -> Resolved:
    everything = [*cards, *migs]
    if any(card.uuid is None for card in everything):
        return Resolved(reason="NVML does not give the UUID of every card")
    found = [i for i, card in enumerate(everything) if card.uuid and card.uuid.lower().startswith(prefix.lower())]
    if len(found) != 1:
        what = "no GPU" if not found else f"{len(found)} GPUs"
        return Resolved(visible=False, reason=f"{prefix!r} in CUDA_VISIBLE_DEVICES names {what}")
    if everything[found[0]].mig_enabled:
        return Resolved(candidates=tuple(found), reason=_MIG)
    return Resolved(candidates=tuple(found), by="uuid", visible=True)


def _by_number(number: int, cards: Sequence[CardId], environ: Mapping[str, str], missing: str = "") -> Resolved:
    if not 0 <= number < len(cards):
        return Resolved(visible=False, reason=missing)
    everyone = tuple(range(len(cards)))
    if any(card.mig_enabled for card in cards):
        return Resolved(candidates=everyone, reason=_MIG)
    if len(cards) == 1:
        return Resolved(candidates=(0,), by="only card", visible=True)
    if environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return Resolved(candidates=everyone, visible=True, reason=_UNORDERED)
    order = sorted(((card.pci, i) for i, card in enumerate(cards) if card.pci is not None))
    if len(order) < len(cards):
        return Resolved(candidates=everyone, visible=True, reason="NVML does not give the PCI id of every card")
    return Resolved(candidates=(order[number][1],), by="pci", visible=True)


_UNORDERED: Final = (
    "which card CUDA's number means is known once there is a context (or with CUDA_DEVICE_ORDER=PCI_BUS_ID, or a UUID "
    "in CUDA_VISIBLE_DEVICES)"
)
_MIG: Final = "MIG is on: name the instance in CUDA_VISIBLE_DEVICES (MIG-…; nvidia-smi -L lists them)"


def _repeats(chosen: Sequence[Resolved]) -> bool:
    certain = [one.candidates for one in chosen if one.by is not None]
    return len(set(certain)) < len(certain)


def _bare(uuid: str) -> str:
    return uuid.strip().lower().removeprefix("gpu-").removeprefix("mig-")


def _count(n: int) -> str:
    return "no GPU" if n == 0 else "1 GPU" if n == 1 else f"{n} GPUs"
