"""The phase catalogue: the guide's workflow, each phase one step on the screen.

`what` and `why` are written for a student, and `look` names the figure to look at. Guide values are of its RTX 3090
with Qwen3-4B in bf16 and a cache of 1024; its only counter was `torch.cuda.memory_allocated()`, printed in MiB and
called MB.
"""

import msgspec

from .events import PhaseId


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase. `guide_allocated_mib` and `guide_delta_mib` are null where the guide's table has no such row."""

    id: PhaseId
    title: str
    short: str
    """For narrow columns."""
    what: str
    why: str
    look: str
    guide_allocated_mib: float | None = None
    guide_delta_mib: float | None = None
    guide_says: str = ""
    correction: str = ""
    """Where the guide's reason is not what its number is made of."""
    needs_cuda: bool = False


PHASES: tuple[Phase, ...] = (
    Phase(
        id="context",
        title="CUDA context",
        short="context",
        what="The first CUDA call makes a context: the driver's own memory for this process, before any tensor exists.",
        why="Nothing of it is the model's. PyTorch's counters cannot see it; NVML can, so it stands under driver.",
        look="Driver grows by hundreds of MiB while allocated stays 0.",
    ),
    Phase(
        id="load",
        title="Model load",
        short="load",
        what="The weights are put on the device, once, and stay at their addresses.",
        why="A decode step reads all of them: their bytes over the memory bandwidth bound the speed at batch size 1.",
        look="Requested is the sum of the parameters' bytes, exactly. Allocated is more: large blocks are not split.",
        guide_allocated_mib=7672,
        guide_delta_mib=7672,
        guide_says="model weights",
    ),
    Phase(
        id="prefill",
        title="Prefill (eager, DynamicCache)",
        short="prefill",
        what="The whole prompt goes through the model at once; a DynamicCache grows to hold its keys and values.",
        why="Prompts differ in length, and a graph has fixed shapes: so prefill runs eagerly.",
        look="KV bytes of the prompt only, one cuBLAS workspace, and modules that the driver loads lazily.",
    ),
    Phase(
        id="static_cache",
        title="StaticCache allocation",
        short="static cache",
        what="Keys and values for max_cache_len tokens are allocated now, in full, at addresses that stay.",
        why="A graph replays the same kernels on the same addresses: the cache may not grow or move.",
        look="layers × 2 × batch × KV heads × max_cache_len × head_dim × bytes per value, plus a counter a layer.",
        guide_allocated_mib=7816,
        guide_delta_mib=144,
        guide_says="the main overhead",
    ),
    Phase(
        id="copy_kv",
        title="Copy the prompt's KV",
        short="copy KV",
        what="The DynamicCache's keys and values are copied to the fixed addresses, and the length moves with them.",
        why="Without the length, decoding would start at slot 0 and overwrite the prompt.",
        look="0 bytes on every counter. The addresses are recorded now, to be compared before every replay.",
    ),
    Phase(
        id="warmup",
        title="Warmup (eager decode steps)",
        short="warmup",
        what="A few eager decode steps on the capture stream, after which the length is set back in place.",
        why="Libraries allocate and load kernels on first use: in a capture that may fail or stay in the graph's pool.",
        look="With one stream: nothing new. Each further stream that multiplies a matrix costs a cuBLAS workspace.",
        guide_allocated_mib=7825,
        guide_delta_mib=8,
        guide_says="activation buffers",
        correction="The guide's +8 MiB are one cuBLAS workspace (8,519,680 B) and one logits tensor, not activations.",
    ),
    Phase(
        id="capture",
        title="Graph capture",
        short="capture",
        what="One decode step is recorded instead of run, into a private pool; then it is instantiated for launch.",
        why="A replay launches all its kernels at once, so the CPU no longer limits the speed.",
        look="The logits stay in the pool. The kernel sequence itself is driver memory, which allocated cannot see.",
        guide_allocated_mib=7833,
        guide_delta_mib=8,
        guide_says="stores the kernel sequence",
        correction="The guide's +8 MiB are a cuBLAS workspace for the capture stream and logits; the kernel sequence "
        "lives in driver memory.",
        needs_cuda=True,
    ),
    Phase(
        id="replay",
        title="Graph replay",
        short="replay",
        what="Each token is one launch of the graph: same kernels, same addresses, new values.",
        why="This is what the capture was for: the next token is written to the static input inside the graph.",
        look="0 allocations, 0 device allocations, 0 driver bytes, and no address moved.",
        guide_allocated_mib=7833,
        guide_delta_mib=0,
        guide_says="zero extra allocation",
        needs_cuda=True,
    ),
    Phase(
        id="release",
        title="Release",
        short="release",
        what="Graph, caches and model are dropped, and the allocator's free segments go back to the driver.",
        why="It shows what really comes back: context and modules stay until the process ends, cuBLAS workspaces until "
        "they are cleared.",
        look="What is left when no tensor of the run exists any more.",
    ),
)
PHASE_IDS: tuple[PhaseId, ...] = tuple(phase.id for phase in PHASES)
PHASE_BY_ID: dict[PhaseId, Phase] = {phase.id: phase for phase in PHASES}
