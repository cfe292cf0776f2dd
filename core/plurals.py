"""A number with the thing that it counts."""


def counted(number: int, thing: str) -> str:
    """As in "1 warmup", "3 warmups", "1,024 tokens"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
