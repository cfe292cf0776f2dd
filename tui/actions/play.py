"""Keys that steer a recording's player."""

from ...core.sources import RecordedSource
from ..base_app import BaseApp
from ..place_words import AT_THE_START, stop_words
from ..widgets.seek_bar import SeekBar


class PlayActions(BaseApp):
    """What acts on a recording; live, each says why it cannot."""

    def action_previous_phase(self) -> None:
        """Back to the stop before, and pause there."""
        if self.can("previous_phase") and isinstance(self.source, RecordedSource):
            player = self.source.player
            stop = player.previous_stop()
            self.tick()
            self.notice_here(stop_words(player, stop) if stop is not None else AT_THE_START)

    def action_step(self, events: int) -> None:
        """Some events on or back; it pauses."""
        if self.can("step") and isinstance(self.source, RecordedSource):
            player = self.source.player
            player.step(events)
            self.tick()
            kind = type(player.recording.events[player.index - 1]).__struct_config__.tag
            self.notice_here(f"event {player.index:,} of {len(player.recording.events):,}: {kind}")

    def action_speed(self, doublings: int) -> None:
        """Play twice or half as fast."""
        if self.can("speed") and isinstance(self.source, RecordedSource):
            player = self.source.player
            before = player.speed
            player.set_speed(before * 2.0**doublings)
            self.notice(f"×{player.speed:g}" + (", the limit" if player.speed == before else ""))
            self.tick()

    def action_seek(self, seconds: int) -> None:
        """Some seconds on or back."""
        if self.can("seek") and isinstance(self.source, RecordedSource):
            player = self.source.player
            before = player.position
            player.seek(before + seconds)
            self.tick()
            if player.position == before:
                self.notice_here("at the end" if seconds > 0 else "at the start")

    def on_seek_bar_sought(self, event: SeekBar.Sought) -> None:
        """To the place that was clicked."""
        if isinstance(self.source, RecordedSource):
            self.source.player.seek(event.place)
            self.tick()
