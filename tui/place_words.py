"""What is said of a place in a recording that a key went to."""

from ..core.playback import Player
from ..core.stops import Stop

AT_THE_END = "no stop after this one: at the end; space plays from the start"
AT_THE_START = "no stop before this one: at the start; space plays"


def stop_words(player: Player, stop: Stop) -> str:
    """`stop 3 of 15, Prefill: done`; at the last one, what goes on from there."""
    if stop != player.stops[-1]:
        return f"stop {player.stops.index(stop) + 1:,} of {len(player.stops):,}, {stop.what}"
    return f"last stop, {stop.what}; space plays {'from the start' if player.at_end else 'on'}"
