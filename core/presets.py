"""The model shapes that need no download: published Qwen3 configurations, filled with random weights.

A random model costs the same memory and time as the trained one of its shape. Source: the `config.json` of the
repositories Qwen/Qwen3-0.6B, -1.7B, -4B and -8B. `tiny` is no published model: it has the same architecture in a size
that a test can run on a CPU.
"""

import msgspec


class Qwen3Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A Qwen3 configuration; fields without a default differ from size to size. Lengths are in tokens.

    `head_dim` is a figure of its own, not `hidden_size / heads`.
    """

    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    vocab_size: int = 151_936
    tied_embeddings: bool = True
    """Whether the output layer is the embedding table itself."""
    max_positions: int = 40_960
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02
    """Standard deviation of random weights."""


PRESETS: dict[str, Qwen3Shape] = {
    "qwen3-0.6b": Qwen3Shape(hidden_size=1024, intermediate_size=3072, layers=28, heads=16, kv_heads=8),
    "qwen3-1.7b": Qwen3Shape(hidden_size=2048, intermediate_size=6144, layers=28, heads=16, kv_heads=8),
    "qwen3-4b": Qwen3Shape(hidden_size=2560, intermediate_size=9728, layers=36, heads=32, kv_heads=8),
    "qwen3-8b": Qwen3Shape(
        hidden_size=4096, intermediate_size=12_288, layers=36, heads=32, kv_heads=8, tied_embeddings=False
    ),
    "tiny": Qwen3Shape(
        hidden_size=32,
        intermediate_size=64,
        layers=4,
        heads=4,
        kv_heads=2,
        head_dim=16,
        vocab_size=256,
        tied_embeddings=False,
        initializer_range=0.2,
    ),
}
