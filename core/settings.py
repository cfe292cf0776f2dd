"""What a run is asked to do, validated before anything is started."""

from typing import Literal

import msgspec

Mode = Literal["eager", "dynamic", "graph"]
Dtype = Literal["auto", "bfloat16", "float16", "float32"]
MODES: tuple[Mode, ...] = ("eager", "dynamic", "graph")
PRESET_NAMES = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b", "tiny")
WARMUPS_MAX = 100
VERIFY_STEPS_MAX = 4096
PROMPT_BYTES_MAX = 100_000
"""As JSON: settings go to the worker on its command line, of which Linux takes 128 KiB an argument."""


class SettingsError(ValueError):
    """A setting that cannot work; the message is for the person who chose it."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one run. Lengths are in tokens. Validate with `validated()`."""

    model: str | None = None
    """A preset, a checkpoint folder or a hub id; null: the largest preset up to 4b that fits."""
    device: str = "auto"
    """"auto", "cpu", "cuda" or "cuda:N"."""
    dtype: Dtype = "auto"
    """auto: bf16, fp16 below sm_80, fp32 on CPU; a checkpoint's own dtype is used on a GPU if it has one."""
    attention: str = "sdpa"
    batch_size: int = 1
    prompt_len: int = 32
    """Used where no prompt text is given."""
    prompt: str | None = None
    max_cache_len: int = 1024
    warmup: int = 3
    mode: Mode = "graph"
    """The decode mode that goes on after the replay phase has been measured."""
    tokens: int = 512
    """Steps over which the replay phase is measured; decoding goes on after them until told to stop."""
    verify_steps: int = 64
    """0 leaves the verification out."""
    seed: int = 0
    trust_remote_code: bool = False
    guide_streams: bool = False
    """Warm up on the default stream and capture on another, as the guide's script does."""
    memory_snapshot: str | None = None
    """Where to write torch's own memory snapshot after capture."""
    inject_fault: Literal["none", "corrupt_replay"] = "none"
    """For demonstrations and tests: spoil the KV between the eager and the replayed steps of a verification."""

    def validated(self) -> "RunSettings":
        """These settings, or `SettingsError` naming the first that cannot work and what would."""
        _at_least("batch size", self.batch_size, 1)
        _at_least("prompt length", self.prompt_len, 1)
        _at_least("tokens", self.tokens, 1)
        _at_least("verification steps", self.verify_steps, 0)
        if self.verify_steps > VERIFY_STEPS_MAX:
            raise SettingsError(f"verification takes at most {VERIFY_STEPS_MAX} steps, not {self.verify_steps}")
        if not 0 <= self.seed < 1 << 63:
            raise SettingsError(f"seed must be 0 to {(1 << 63) - 1}, not {self.seed}")
        self._check_prompt()
        if self.verify_steps and self.verify_steps < 64:
            raise SettingsError(f"verification needs at least 64 steps (0 leaves it out), not {self.verify_steps}")
        if not 0 <= self.warmup <= WARMUPS_MAX:
            raise SettingsError(f"warmup must be 0 to {WARMUPS_MAX} steps, not {self.warmup}")
        if self.prompt is None and self.max_cache_len <= self.prompt_len:
            raise SettingsError(
                f"a cache of {self.max_cache_len} tokens has no room to decode after a prompt of {self.prompt_len}: "
                f"choose --max-cache-len {self.prompt_len + 1} or more"
            )
        _at_least("cache length", self.max_cache_len, 2)
        if self.device not in ("auto", "cpu", "cuda") and not (
            self.device.startswith("cuda:") and self.device[5:].isdecimal()
        ):
            raise SettingsError(f"device must be auto, cpu, cuda or cuda:N, not {self.device!r}")
        if self.prompt is not None and (self.model is None or self.model in PRESET_NAMES):
            raise SettingsError("--prompt needs a checkpoint with a tokenizer: presets have random weights and none")
        return self

    def _check_prompt(self) -> None:
        if self.prompt is None:
            return
        try:
            size = len(msgspec.json.encode(self.prompt))
        except UnicodeEncodeError as error:
            raise SettingsError(f"the prompt is not UTF-8 text: {error.reason}") from None
        if size > PROMPT_BYTES_MAX:
            raise SettingsError(f"the prompt has {size:,} bytes; at most {PROMPT_BYTES_MAX:,} are taken")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise SettingsError(f"{name} must be {least} or more, not {value}")
