"""NVML, opened once: the cards of this machine, and which of them a CUDA device index means.

Nothing here makes a CUDA context or imports torch, and nothing raises: without NVML there are no cards and a reason.
"""

import os
import threading
import warnings
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import msgspec

from ..events import DeviceInfo
from .nvml_card import Card
from .nvml_library import NO_PERMISSION, Library, Reading, as_int, as_text
from .visible_devices import CardId, Resolved, parse_pci, resolve, same_card

T = TypeVar("T")


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The card of a CUDA device, or None and the reason."""

    card: Card | None = None
    by: str | None = None
    """"uuid", "pci" or "only card"; None without a match."""
    reason: str = ""
    candidates: tuple[Card, ...] = ()
    """The cards that it may be: what they agree on is known even without a match."""
    visible: bool | None = None
    """Whether CUDA can see such a device; None where that cannot be told."""

    def free_bytes(self) -> int | None:
        """What is free on the card by NVML, before any context: the least of the candidates, None if unknown."""
        readings = [card.memory().value for card in self.candidates]
        sizes = [reading.free_bytes for reading in readings if reading is not None]
        return min(sizes) if sizes and len(sizes) == len(readings) else None

    def capability(self) -> tuple[int, int] | None:
        """The compute capability, if all candidates have the same."""
        found = {card.capability().value for card in self.candidates}
        return found.pop() if len(found) == 1 else None


class Nvml:
    """NVML of this process. Make it with `open_nvml`, or take the shared one with `shared_nvml`."""

    def __init__(self, library: Library | None, reason: str, environ: Mapping[str, str]) -> None:
        self.reason = reason
        """Why there is no NVML; empty if there is one."""
        self.cards: tuple[Card, ...] = ()
        self.mig_cards: tuple[Card, ...] = ()
        self._library = library
        self._environ = environ
        self._announced: dict[int, Match] = {}
        if library is not None:
            self._find_cards(library)

    def driver_version(self) -> str | None:
        """As in "580.159.04"."""
        return as_text(self._system("nvmlSystemGetDriverVersion")).value

    def cuda_version(self) -> tuple[int, int] | None:
        """The newest CUDA that the driver supports, as (13, 0)."""
        reading = self._system("nvmlSystemGetCudaDriverVersion_v2")
        if reading.value is None:
            reading = self._system("nvmlSystemGetCudaDriverVersion")
        number = as_int(reading).value
        return (number // 1000, number % 1000 // 10) if number else None

    def match(self, index: int | None = None, *, uuid: str | None = None, pci: str | None = None) -> Match:
        """The card of a CUDA device, for certain or not at all.

        `uuid` (with or without "GPU-") and `pci` ("domain:bus:device.function") are CUDA's own, from a context; with
        neither, `index` is looked up in what was announced, then resolved from the environment.
        """
        if self.reason:
            return Match(reason=self.reason)
        if uuid is not None:
            return self._named(uuid)
        if pci is not None:
            return self._on_bus(pci)
        if index is None:
            return Match(reason="no device was named")
        if index in self._announced:
            return self._announced[index]
        whole, migs = [card.identity for card in self.cards], [card.identity for card in self.mig_cards]
        return self._match_of(resolve(index, whole, migs, self._environ))

    def announce(self, index: int, *, uuid: str | None = None, pci: str | None = None) -> Match:
        """Say that this process has a context on CUDA device `index`, whose UUID or PCI id CUDA gave.

        From then on `match(index)` gives this card, to every thread, and `has_context(index)` is true.
        """
        match = self.match(index, uuid=uuid)
        if match.card is None and pci is not None:
            match = self.match(index, pci=pci)
        self._announced[index] = match
        return match

    def has_context(self, index: int) -> bool:
        """Whether a context on this device was announced."""
        return index in self._announced

    def device_info(self, index: int) -> DeviceInfo | None:
        """What NVML knows of a device before there is a context; None if it can be no card that NVML sees.

        Without a certain match, only what all candidates agree on, and the least free memory.
        """
        match = self.match(index)
        if not match.candidates:
            return None
        capability = match.capability()
        readings = [card.memory().value for card in match.candidates]
        return DeviceInfo(
            kind="cuda",
            name=_same([card.name().value for card in match.candidates]) or "NVIDIA GPU",
            index=index,
            uuid=match.card.uuid if match.card is not None else None,
            capability=f"{capability[0]}.{capability[1]}" if capability is not None else None,
            total_bytes=_same([reading.total_bytes if reading is not None else None for reading in readings]),
            free_bytes=match.free_bytes(),
            integrated=_same([card.integrated() for card in match.candidates]),
            driver_version=self.driver_version(),
            memory_bandwidth_bytes_s=_same([card.bandwidth().value for card in match.candidates]),
        )

    def _system(self, name: str) -> Reading[object]:
        return self._library.call(name) if self._library is not None else Reading(reason=self.reason)

    def _find_cards(self, library: Library) -> None:
        count = as_int(library.call("nvmlDeviceGetCount"))
        if count.value is None:
            self.reason = count.reason
            return
        cards: list[Card] = []
        migs: list[Card] = []
        for index in range(count.value):
            opened = library.call("nvmlDeviceGetHandleByIndex", index)
            if opened.code == NO_PERMISSION:  # Another container's card, say: CUDA does not see it either.
                continue
            if opened.value is None:  # Lost: CUDA's numbers may or may not count it, so it stays and leaves them open.
                cards.append(Card(library, None, CardId(), broken=opened.reason))
                continue
            card = Card(library, opened.value, _identity(library, opened.value))
            cards.append(card)
            if card.identity.mig_enabled:
                migs += _instances(library, opened.value, card)
        self.cards, self.mig_cards = tuple(cards), tuple(migs)

    def _match_of(self, resolved: Resolved) -> Match:
        everything = (*self.cards, *self.mig_cards)
        candidates = tuple(everything[i] for i in resolved.candidates)
        return Match(
            card=candidates[0] if resolved.by is not None else None,
            by=resolved.by,
            reason=resolved.reason,
            candidates=candidates,
            visible=resolved.visible,
        )

    def _named(self, uuid: str) -> Match:
        found = [card for card in (*self.cards, *self.mig_cards) if same_card(uuid, card.identity)]
        return _certain(found, "uuid", "NVML has no card of CUDA's UUID")

    def _on_bus(self, pci: str) -> Match:
        place = parse_pci(pci)
        found = [card for card in self.cards if place is not None and card.identity.pci == place]
        return _certain(found, "pci", "NVML has no card of CUDA's PCI id")


def open_nvml(module: object | None = None, environ: Mapping[str, str] | None = None) -> Nvml:
    """Open NVML: through `module` if given (a fake, say), else through the package nvidia-ml-py."""
    environ = os.environ if environ is None else environ
    if module is None:
        try:
            module = _import_pynvml()
        except Exception as error:
            return Nvml(
                None, f"the package nvidia-ml-py cannot be imported ({error}): pip install nvidia-ml-py", environ
            )
    library = Library(module)
    begun = library.call("nvmlInit")
    return Nvml(None, begun.reason, environ) if begun.reason else Nvml(library, "", environ)


def shared_nvml() -> Nvml:
    """The one NVML of this process, opened on first use."""
    with _opening:
        return _shared()


def hush_pynvml_warning() -> None:
    """Keep torch's import quiet where the package pynvml is installed beside nvidia-ml-py (`cgtop doctor` names it)."""
    warnings.filterwarnings("ignore", message="The pynvml package is deprecated")


_opening = threading.Lock()


@cache
def _shared() -> Nvml:
    return open_nvml()


def _import_pynvml() -> object:
    hush_pynvml_warning()
    import pynvml

    module: object = pynvml
    return module


def _identity(library: Library, handle: object) -> CardId:
    mig = library.call("nvmlDeviceGetMigMode", handle).value
    pci = library.call("nvmlDeviceGetPciInfo", handle).value
    place = [number for part in ("domain", "bus", "device") if isinstance(number := getattr(pci, part, None), int)]
    return CardId(
        uuid=as_text(library.call("nvmlDeviceGetUUID", handle)).value,
        pci=(place[0], place[1], place[2]) if len(place) == 3 else None,
        mig_enabled=isinstance(mig, list | tuple) and bool(mig) and mig[0] == 1,
    )


def _instances(library: Library, handle: object, parent: Card) -> list[Card]:
    most = as_int(library.call("nvmlDeviceGetMaxMigDeviceCount", handle)).value or 0
    found = (library.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index).value for index in range(most))
    return [
        Card(library, mig, CardId(uuid=as_text(library.call("nvmlDeviceGetUUID", mig)).value), parent)
        for mig in found
        if mig is not None
    ]


def _certain(found: list[Card], by: str, missing: str) -> Match:
    if len(found) != 1:
        return Match(reason=missing)
    if found[0].identity.mig_enabled:
        return Match(candidates=(found[0],), reason="MIG is on, and which instance this is is not known", visible=True)
    return Match(card=found[0], by=by, candidates=(found[0],), visible=True)


def _same(values: list[T | None]) -> T | None:
    return values[0] if values and all(value == values[0] for value in values) else None
