"""The closed forms against published figures and against each other; `engine/test_models.py` has the real tensors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgtop.core import sizing
from cgtop.core.presets import PRESETS, Qwen3Shape
from cgtop.core.settings import PRESET_NAMES, SettingsError
from cgtop.core.sizing import KvShape

MIB = 1 << 20
FOUR_B = PRESETS["qwen3-4b"]
NO_CONFIG = ""

kv_shapes = st.builds(
    KvShape,
    layers=st.integers(3, 80),
    kv_heads=st.integers(1, 64),
    head_dim=st.integers(1, 256),
    sliding_windows=st.lists(st.integers(1, 5000), max_size=3).map(tuple),
)
lengths = st.integers(1, 100_000)
batches = st.integers(1, 64)
dtypes = st.sampled_from(sorted(sizing.DTYPE_BYTES))


@pytest.fixture(autouse=True)
def _no_workspace_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def fitting(free_bytes: int, *, batch_size: int = 1, max_cache_len: int = 1024) -> str:
    return sizing.largest_fitting_preset(
        free_bytes, capability="9.0", batch_size=batch_size, max_cache_len=max_cache_len, dtype="bfloat16"
    )


def test_presets_are_those_of_the_settings() -> None:
    assert tuple(PRESETS) == PRESET_NAMES


def test_qwen3_4b_has_the_published_parameter_count() -> None:
    assert sizing.parameter_count(FOUR_B) == 4_022_468_096
    assert sizing.parameter_bytes(FOUR_B, "bfloat16") == 8_044_936_192
    assert sizing.buffer_bytes(FOUR_B) == 512


def test_static_cache_of_qwen3_4b_is_144_mib_for_1024_tokens() -> None:
    kv = sizing.kv_shape(FOUR_B)
    assert sizing.static_cache_bytes(kv, batch_size=1, max_cache_len=1024, dtype="bfloat16") == 150_994_944
    assert sizing.counter_bytes(kv) == 36 * 8


def test_prompt_of_32_tokens_takes_4_5_mib_of_dynamic_cache() -> None:
    kv = sizing.kv_shape(FOUR_B)
    assert sizing.dynamic_cache_bytes(kv, batch_size=1, tokens=32, dtype="bfloat16") == 4.5 * MIB


@given(kv=kv_shapes, length=lengths, batch_size=batches, dtype=dtypes)
def test_a_full_dynamic_cache_is_as_large_as_the_static_one(
    kv: KvShape, length: int, batch_size: int, dtype: str
) -> None:
    dynamic = sizing.dynamic_cache_bytes(kv, batch_size=batch_size, tokens=length, dtype=dtype)
    assert dynamic == sizing.static_cache_bytes(kv, batch_size=batch_size, max_cache_len=length, dtype=dtype)


@given(kv=kv_shapes, length=lengths, batch_size=batches, dtype=dtypes)
def test_cache_bytes_are_linear_in_batch_size_and_monotonic_in_length(
    kv: KvShape, length: int, batch_size: int, dtype: str
) -> None:
    one = sizing.static_cache_bytes(kv, batch_size=1, max_cache_len=length, dtype=dtype)
    longer = sizing.static_cache_bytes(kv, batch_size=1, max_cache_len=length + 1, dtype=dtype)
    assert sizing.static_cache_bytes(kv, batch_size=batch_size, max_cache_len=length, dtype=dtype) == batch_size * one
    growing_layers = kv.layers - sum(window <= length for window in kv.sliding_windows)
    assert longer - one == growing_layers * sizing.kv_token_bytes(kv, dtype)


@pytest.mark.parametrize(
    ("capability", "config", "expected"),
    [
        ("8.6", NO_CONFIG, 8_519_680),
        ("8.9", NO_CONFIG, 8_519_680),
        ("9.0", NO_CONFIG, 33_554_432),
        ("10.0", NO_CONFIG, 33_554_432),
        ("12.0", NO_CONFIG, 33_554_432),
        (None, NO_CONFIG, 33_554_432),
        ("9.0", ":4096:8", 4096 * 1024 * 8),
        ("8.6", ":4096:2:16:8", 8_519_680),
        ("9.0", ":16:8", 16 * 1024 * 8),
        ("9.0", ":0:0", 0),
        ("8.6", "4096", 8_519_680),
    ],
)
def test_cublas_workspace_follows_capability_unless_configured(
    capability: str | None, config: str, expected: int
) -> None:
    assert sizing.cublas_workspace_bytes(capability, config) == expected


def test_cublas_workspace_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":1024:4")
    assert sizing.cublas_workspace_bytes("9.0") == 4 * MIB


def test_default_preset_is_4b_where_it_fits_and_never_8b() -> None:
    assert fitting(140 * 1024 * MIB) == "qwen3-4b"
    assert fitting(8 * 1024 * MIB) == "qwen3-1.7b"
    assert fitting(4 * 1024 * MIB) == "qwen3-0.6b"
    assert fitting(1200 * MIB) == "tiny"


def test_a_longer_cache_leads_to_a_smaller_preset() -> None:
    free = 12 * 1024 * MIB
    assert fitting(free) == "qwen3-4b"
    assert fitting(free, batch_size=16, max_cache_len=2048) != "qwen3-4b"


def test_no_preset_fits_says_what_is_free_and_what_is_needed() -> None:
    with pytest.raises(SettingsError, match=r"300 MiB are free .* needs 1,\d\d\d MiB .*--max-cache-len"):
        fitting(300 * MIB)


@given(free=st.integers(1100 * MIB, 40_000 * MIB))
def test_the_chosen_preset_fits_and_the_next_larger_does_not(free: int) -> None:
    name = fitting(free)

    def need(preset: str) -> int:
        return sizing.needed_bytes(
            PRESETS[preset], capability="9.0", batch_size=1, max_cache_len=1024, dtype="bfloat16"
        )

    assert need(name) <= free
    larger = sizing.FALLBACK_ORDER[: sizing.FALLBACK_ORDER.index(name)]
    assert all(need(preset) > free for preset in larger)


def test_a_step_with_tied_embeddings_reads_every_parameter_once() -> None:
    assert sizing.weight_read_bytes(FOUR_B, batch_size=4, dtype="bfloat16") == 8_044_936_192


def test_a_step_with_untied_embeddings_reads_one_input_row_a_sequence() -> None:
    shape = PRESETS["qwen3-8b"]
    table = shape.vocab_size * shape.hidden_size * 2
    read = sizing.weight_read_bytes(shape, batch_size=3, dtype="bfloat16")
    assert read == sizing.parameter_bytes(shape, "bfloat16") - table + 3 * shape.hidden_size * 2


def test_a_masked_step_reads_the_whole_static_cache() -> None:
    kv = sizing.kv_shape(FOUR_B)
    weights = sizing.weight_read_bytes(FOUR_B, batch_size=1, dtype="bfloat16")
    static = sizing.decode_read_bytes(weights, kv, batch_size=1, tokens=1024, dtype="bfloat16")
    dynamic = sizing.decode_read_bytes(weights, kv, batch_size=1, tokens=33, dtype="bfloat16")
    assert static == 8_044_936_192 + 150_994_944
    assert static - dynamic == (1024 - 33) * 36 * 2 * 8 * 128 * 2


@given(batch_size=st.integers(1, 1000))
def test_never_more_weights_are_read_than_there_are(batch_size: int) -> None:
    shape = Qwen3Shape(
        hidden_size=8, intermediate_size=8, layers=1, heads=1, kv_heads=1, vocab_size=50, tied_embeddings=False
    )
    assert sizing.weight_read_bytes(shape, batch_size=batch_size, dtype="float32") <= sizing.parameter_bytes(
        shape, "float32"
    )
