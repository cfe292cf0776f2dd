"""A made-up comparison: its shape is a real one's, its figures are nobody's measurement."""

from cgtop.core.events import ArmResult, Comparison


def comparison(*, final: bool = True, rounds: int = 12) -> Comparison:
    return Comparison(
        arms=(
            ArmResult(
                mode="eager", rounds=rounds, tokens=rounds * 64, tok_s=20.5, tok_s_low=18.9, tok_s_high=22.4,
                step_ms_p50=48.7, step_ms_p99=60.1, allocations_per_token=2338.0, launches_per_token=2372.0,
                gb_s=167.0, share_of_copy=0.039, share_of_datasheet=0.035,
            ),
            ArmResult(
                mode="graph", rounds=rounds, tokens=rounds * 64, tok_s=115.2, tok_s_low=114.9, tok_s_high=115.6,
                step_ms_p50=8.68, step_ms_p99=8.9, allocations_per_token=0.0, launches_per_token=1.0,
                gb_s=943.0, share_of_copy=0.222, share_of_datasheet=0.196,
            ),
        ),
        rounds=rounds, rounds_wanted=12, final=final, ratio=5.62, ratio_low=5.15, ratio_high=6.08, prefill_ms=35.2,
        prompt_len=32, copy_bytes_s=4.25e12, datasheet_bytes_s=4.8e12, sm_mhz=1980, memory_mhz=2619, power_w=350.0,
        throttled=(), steady=True, verdict="identical",
    )  # fmt: skip
