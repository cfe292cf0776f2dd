"""Decoding as it was: what both caches hold behind the prompt, the inputs and the positions, kept and put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from .caches import dynamic_layers
from .devices import Device
from .steps import DynamicDecode, StaticDecode
from .workflow import Workflow

Restore = Callable[[], None]


@contextmanager
def decode_state_kept(workflow: Workflow, device: Device) -> Iterator[None]:
    """Let a measurement decode from the prompt's end on; afterwards decoding goes on as if nothing had been.

    What the caches hold behind the prompt is kept in host memory meanwhile. After an exception it is put back as far as
    the device allows, and the exception goes on.
    """
    restores: list[Restore] = []
    with device.on(workflow.stream):
        if workflow.static is not None:
            restores.append(_kept_static(workflow.static))
        if workflow.dynamic is not None:
            restores.append(_kept_dynamic(workflow.dynamic))
    device.synchronize()

    def restore() -> None:
        with device.on(workflow.stream):
            for put_back in restores:
                put_back()
        device.synchronize()

    try:
        yield
    except BaseException:
        with suppress(Exception):
            restore()
        raise
    restore()


def _kept_static(static: StaticDecode) -> Restore:
    cursor, ids = static.cursor, static.step.input_ids.clone()
    position, laps = cursor.position, cursor.laps
    written = slice(cursor.prompt_len, position)
    slots = [tensor[:, :, written].cpu() for tensor in static.kv.keys_and_values()]

    def restore() -> None:
        for tensor, slot in zip(static.kv.keys_and_values(), slots, strict=True):
            tensor[:, :, written].copy_(slot)
        static.kv.set_length(position)
        static.step.input_ids.copy_(ids)
        cursor.position, cursor.laps = position, laps

    return restore


def _kept_dynamic(dynamic: DynamicDecode) -> Restore:
    cursor, ids = dynamic.cursor, dynamic.step.input_ids.clone()
    position, laps, watched, moves = cursor.position, cursor.laps, dynamic.watched, dynamic.moves
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    if position > cursor.prompt_len:
        kept = [
            (layer.keys[:, :, cursor.prompt_len :].cpu(), layer.values[:, :, cursor.prompt_len :].cpu())
            for layer in dynamic_layers(dynamic.cache)
        ]

    def restore() -> None:
        cursor.rewind()
        for number, (keys, values) in enumerate(kept):
            device = dynamic_layers(dynamic.cache)[number].keys.device
            dynamic.cache.update(keys.to(device), values.to(device), number)
        dynamic.step.input_ids.copy_(ids)
        cursor.position, cursor.laps = position, laps
        dynamic.watched, dynamic.moves = watched, moves

    return restore
