"""Weights counted by the headers of safetensors files; no tensor is read.

A file is 8 bytes of header length (little-endian), the header as JSON with dtype, shape and place of each tensor, then
the data. Source: https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from pathlib import Path

from .settings import SettingsError

HEADER_BYTES_MAX = 100_000_000
"""The format's own limit."""
INDEX = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")
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
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if start == b"version ":
                raise TensorFileError(f"{path.name} is a Git LFS pointer, not the file itself")
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > HEADER_BYTES_MAX or 8 + length > size:
                raise TensorFileError(f"{path.name} is cut short, or no safetensors file")
            header = json.loads(file.read(length))
        tensors = {
            name: (str(entry["dtype"]), math.prod(int(side) for side in entry["shape"]))
            for name, entry in header.items()
            if name != "__metadata__"
        }
        end = max(
            (int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"), default=0
        )
    except OSError as error:
        raise TensorFileError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        if isinstance(error, TensorFileError):
            raise
        raise TensorFileError(f"{path.name} is no safetensors file") from error
    if size < 8 + length + end:
        raise TensorFileError(f"{path.name} is cut short: {size:,} of {8 + length + end:,} bytes")
    return tensors


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        names = sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TensorFileError(f"{INDEX} cannot be read") from error
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise TensorFileError(f"{len(missing)} of {len(names)} weight files are missing, such as {missing[0]}")
    return [folder / name for name in names]
