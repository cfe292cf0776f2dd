"""Whether a torch wheel has code for a GPU.

A binary `sm_XY` runs on capabilities of the same major and the same or a higher minor; PTX `compute_XY` is compiled by
the driver for that and every later capability (CUDA C++ Programming Guide, "Compute capabilities"). A suffix "a" binds
code to one capability, "f" to one family. Binaries for discrete and integrated GPUs of one major do not run on each
other, as torch's own check has it: 5.3, 6.2, 7.2, 8.7 and 10.1 stand alone.
"""

import re
from collections.abc import Iterable
from typing import Final

INTEGRATED: Final = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1)})


def supported(capability: tuple[int, int], architectures: Iterable[str]) -> bool:
    """Whether any of `torch.cuda.get_arch_list()` runs on a GPU of this capability. Unknown names do not."""
    return any(_runs(capability, architecture) for architecture in architectures)


def _runs(capability: tuple[int, int], architecture: str) -> bool:
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", architecture.strip())
    if match is None:
        return False
    built = (int(match[2]), int(match[3]))
    if match[4] == "a":
        return capability == built
    if match[1] == "compute" and not match[4]:
        return capability >= built
    same_kind = capability == built or not ({capability, built} & INTEGRATED)
    return same_kind and capability[0] == built[0] and capability[1] >= built[1]
