"""Weights counted by the headers of safetensors files; no tensor is read.

A file is 8 bytes of header length (little-endian), the header as JSON with dtype, shape and place of each tensor, then
the data. Source: https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from pathlib import Path
from typing import cast

from .paths import is_file, is_there
from .settings import SettingsError

HEADER_BYTES_MAX = 100_000_000
"""The format's own limit."""
INDEX = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")
VALUE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""Others are taken as their place in the file says."""
SIDE_MAX, SIDES_MAX = 1 << 48, 64
OUTPUT, INPUT = "lm_head.weight", "embed_tokens.weight"
NOT_LOADED = ("rotary_emb.inv_freq",)
"""Buffers that old checkpoints carry; the model makes its own."""


class TensorFileError(SettingsError):
    """A weight file that is missing, cut short or something else."""


def read_parameter_count(folder: Path, *, tied: bool) -> int | None:
    """Parameters of a checkpoint folder, tied embeddings once; null where it has no safetensors files.

    Raises `TensorFileError` for missing or broken files, and for quantised weights.
    """
    sizes: dict[str, int] = {}
    for path in _files(folder):
        for name, (dtype, count) in read_header(path).items():
            if name.endswith(NOT_LOADED):
                continue
            if dtype not in FLOATS:
                raise TensorFileError(f"{path.name} holds {dtype} weights ({name}): a plan is for bf16, fp16 and fp32")
            sizes[name] = count
    if not sizes:
        return None
    if tied and OUTPUT in sizes and any(name.endswith(INPUT) for name in sizes):
        del sizes[OUTPUT]
    return sum(sizes.values())


def read_header(path: Path) -> dict[str, tuple[str, int]]:
    """Tensor name -> (dtype, number of elements). Raises `TensorFileError`."""
    tensors: dict[str, tuple[str, int]] = {}
    try:
        if is_there(path) and not is_file(path):  # a pipe could be waited for without end
            raise TensorFileError(f"{path.name} is no file")
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if start == b"version ":
                raise TensorFileError(f"{path.name} is a Git LFS pointer, not the file itself")
            if len(start) < 8:
                raise TensorFileError(f"{path.name} is empty or cut short")
            length = struct.unpack("<Q", start)[0]
            if length > HEADER_BYTES_MAX or 8 + length > size:
                raise TensorFileError(f"{path.name} is cut short, or no safetensors file")
            header = json.loads(file.read(length))
        end = 0
        for name, entry in header.items():
            if name != "__metadata__":
                dtype, count, last = _tensor(entry)
                tensors[name] = dtype, count
                end = max(end, last)
    except OSError as error:
        raise TensorFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, TensorFileError):
            raise
        raise TensorFileError(f"{path.name} is no safetensors file") from error
    if size < 8 + length + end:
        raise TensorFileError(f"{path.name} is cut short: {size:,} of {8 + length + end:,} bytes")
    return tensors


def shard_names(index: Path) -> list[str]:
    """The weight files that an index names. Raises `TensorFileError` for one that cannot be read."""
    try:
        return sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TensorFileError(f"{index.name} cannot be read") from error


def _tensor(entry: dict[str, object]) -> tuple[str, int, int]:
    """(dtype, number of elements, end in the data) of an entry, whose place in the file must be as long as they are.

    Raises `ValueError`, `TypeError` or `KeyError` for one that is none.
    """
    dtype, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(place, list):
        raise TypeError("no tensor")
    sides, (begin, end) = _sizes(shape), _sizes(place)
    count = math.prod(sides)
    if begin > end or count * VALUE_BYTES.get(dtype, 0) not in (0, end - begin):
        raise ValueError("another length than its place in the file")
    return dtype, count, end


def _sizes(values: list[object]) -> list[int]:
    if len(values) > SIDES_MAX or not all(type(value) is int and 0 <= value <= SIDE_MAX for value in values):
        raise ValueError("no sizes")
    return cast("list[int]", values)


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    names = shard_names(index)
    missing = [name for name in names if not is_file(folder / name)]
    if missing:
        raise TensorFileError(f"{len(missing)} of {len(names)} weight files are missing, such as {missing[0]}")
    return [folder / name for name in names]
