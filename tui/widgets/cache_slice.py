"""What is known of the two caches of a run, taken out of its state."""

import msgspec

from ...core.events import Caches, Decode, DynamicCapture, ModelInfo, PhaseId, Verification
from ...core.settings import Mode
from ...core.state import RunState
from ..refusals import why_no_capture


class CacheSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What the view of the caches shows. Sizes in bytes, positions in tokens of each sequence."""

    sample: Caches | None = None
    static_bytes: int | None = None
    dynamic_bytes: int | None = None
    dynamic_where: str = ""
    """Where `dynamic_bytes` comes from if it is no live sample."""
    static_position: int | None = None
    dynamic_position: int | None = None
    capacity: int | None = None
    prompt_in_use: float | None = None
    """Share of the StaticCache that the prompt takes, 0 to 1; null where its length is not known."""
    token_bytes: int | None = None
    """Keys and values of one more token of every sequence, by the closed form."""
    by_mode: dict[Mode, Decode] = {}
    verification: Verification | None = None
    capture: DynamicCapture | None = None
    no_capture: str = ""
    """Why nothing can be captured here, if so."""
    recorded: bool = False

    @property
    def static_in_use(self) -> float | None:
        """Share of the StaticCache that holds tokens, 0 to 1."""
        if self.static_position is None or not self.capacity:
            return None
        return min(1.0, self.static_position / self.capacity)

    @property
    def dynamic_in_use(self) -> float | None:
        """Share of the DynamicCache's bytes that its tokens need, 0 to 1."""
        if not self.dynamic_bytes or self.dynamic_position is None or self.token_bytes is None:
            return None
        return min(1.0, self.dynamic_position * self.token_bytes / self.dynamic_bytes)

    @property
    def watched_steps(self) -> int:
        """Steps on the DynamicCache of which it is known whether they moved it."""
        return self.sample.dynamic_steps if self.sample is not None else 0

    @property
    def moved_steps(self) -> int | None:
        """In how many of these the first layer's keys came to another address; null if none was watched."""
        return self.sample.dynamic_moves if self.sample is not None and self.watched_steps else None

    @property
    def static_moves(self) -> int | None:
        """Tensors of the StaticCache that moved since copy KV."""
        return self.sample.static_moves if self.sample is not None else None

    def allocations_per_token(self, mode: Mode) -> float | None:
        """Blocks that the allocator handed out for each token since the mode was last entered."""
        figures = self.by_mode.get(mode)
        return None if figures is None else figures.allocations_per_step

    @classmethod
    def of(cls, state: RunState, *, recorded: bool = False) -> "CacheSlice":
        """The slice of a run; before the first sample, figures of phase boundaries."""
        sample = state.caches[-1] if state.caches else None
        model = state.hello.model if state.hello is not None else None
        capacity = state.hello.settings.max_cache_len if state.hello is not None else None
        static = sample.static_bytes if sample is not None else None
        dynamic = sample.dynamic_bytes if sample is not None else None
        prefill = _boundary(state, "prefill", "kv_dynamic") if dynamic is None else None
        return cls(
            sample=sample,
            static_bytes=static if static is not None else _boundary(state, "static_cache", "kv_static"),
            dynamic_bytes=dynamic if dynamic is not None else prefill,
            dynamic_where="after prefill" if prefill is not None else "",
            static_position=_static_position(sample, state.decode),
            dynamic_position=sample.dynamic_position if sample is not None else None,
            capacity=capacity,
            prompt_in_use=_prompt_in_use(state),
            token_bytes=_token_bytes(model, capacity),
            by_mode=state.decode_by_mode,
            verification=state.verification,
            capture=state.dynamic_capture,
            no_capture=why_no_capture(state),
            recorded=recorded,
        )


def _prompt_in_use(state: RunState) -> float | None:
    settings = state.hello.settings if state.hello is not None else None
    if settings is None or settings.prompt is not None or state.hello is None or state.hello.model is None:
        return None
    return min(1.0, settings.prompt_len / settings.max_cache_len)


def _boundary(state: RunState, phase: PhaseId, bucket: str) -> int | None:
    """A bucket at the end of a phase; 0 there means that it was never filled, and is no figure of a cache."""
    memory = state.boundary_memory.get(phase)
    return (memory.buckets.get(bucket) or None) if memory is not None else None


def _static_position(sample: Caches | None, decode: Decode | None) -> int | None:
    """By whichever is newer: decoding tells its place ten times a second, and once more when it rests."""
    told = sample.static_position if sample is not None else None
    if decode is None or decode.mode == "dynamic" or (told is not None and sample is not None and sample.t > decode.t):
        return told
    return decode.position


def _token_bytes(model: ModelInfo | None, capacity: int | None) -> int | None:
    return model.static_cache_bytes // capacity if model is not None and capacity else None
