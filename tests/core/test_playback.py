"""A recording played under a clock that the test moves."""

import pytest

from cgtop.core.events import Event, PhaseBegin, Status
from cgtop.core.phases import PHASE_IDS
from cgtop.core.playback import SPEED_MAX, SPEED_MIN, Player
from cgtop.core.recording import Recording
from cgtop.core.state import RunState, fold
from tests.sample import hello, sample_run


class FakeClock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def player(clock: FakeClock) -> Player:
    return Player(Recording(sample_run(decode_events=20)), clock)


def test_it_plays_with_the_clock_and_stops_at_the_end(player: Player, clock: FakeClock) -> None:
    assert (player.position, player.index, player.playing) == (0.0, 1, True)
    clock.now += 2.0
    assert player.position == 2.0
    assert player.index == player.recording.index_at(2.0)
    assert player.state == player.recording.state_at(2.0)
    clock.now += 1000.0
    assert player.position == player.duration
    assert player.at_end
    assert not player.playing
    assert player.state.status is not None and player.state.status.state == "released"


def test_nothing_new_is_the_same_state(player: Player, clock: FakeClock) -> None:
    before = player.state
    clock.now += 0.1
    assert player.state is before


def test_a_pause_keeps_the_position_and_play_goes_on_from_there(player: Player, clock: FakeClock) -> None:
    clock.now += 1.0
    player.pause()
    clock.now += 100.0
    assert player.position == 1.0
    player.play()
    clock.now += 0.5
    assert player.position == 1.5


def test_play_at_the_end_starts_over(player: Player, clock: FakeClock) -> None:
    player.seek(player.duration)
    assert player.at_end
    player.play()
    assert player.position == 0.0
    assert player.playing
    clock.now += 1.0
    assert player.position == 1.0


def test_speed_counts_from_when_it_is_set_and_has_bounds(player: Player, clock: FakeClock) -> None:
    clock.now += 1.0
    player.set_speed(4.0)
    clock.now += 1.0
    assert player.position == 5.0
    player.set_speed(1e9)
    assert player.speed == SPEED_MAX
    player.set_speed(0.0)
    assert player.speed == SPEED_MIN


def test_seeking_stays_inside_and_goes_both_ways(player: Player, clock: FakeClock) -> None:
    for t, expected in ((7.3, 7.3), (-5.0, 0.0), (1e12, player.duration), (3.0, 3.0)):
        player.seek(t)
        assert player.position == expected
        assert player.state == player.recording.state_at(expected)


def test_steps_show_each_event_alone_even_those_of_one_moment(clock: FakeClock) -> None:
    events: list[Event] = [hello(), *(Status(t=1.0, state="idle", why=str(index)) for index in range(3))]
    player = Player(Recording(events), clock)
    seen = []
    state = RunState()
    for event in events:
        state = fold(state, event)
        assert player.state == state
        seen.append(player.position)
        player.step()
        clock.now += 10.0
    assert seen == [0.0, 1.0, 1.0, 1.0]
    assert not player.playing
    player.step(-2)
    assert player.state.status is not None and player.state.status.why == "0"
    player.step(-100)
    assert player.index == 1


def test_next_stop_visits_the_end_of_every_phase_with_its_figures_and_pauses_there(
    player: Player, clock: FakeClock
) -> None:
    ended = []
    while (stop := player.next_stop()) is not None:
        clock.now += 60.0
        assert (player.playing, player.position, player.index) == (False, stop.t, stop.index)
        assert player.state.running_phase is None or player.state.running_phase.id == "replay"
        ended += [row.id for row in player.state.phases if row.end is not None and row.id not in ended]
        assert all(phase in player.state.boundary_memory for phase in ended)
    assert tuple(ended) == PHASE_IDS
    assert player.at_end
    back = []
    while (stop := player.previous_stop()) is not None:
        back.append(stop)
    assert tuple(reversed(back)) == player.stops[:-1]  # the last is the end itself
    assert player.position == 0.0


def test_the_stop_just_passed_is_skipped_backwards_while_it_plays(player: Player, clock: FakeClock) -> None:
    player.seek(player.stops[3].t)
    clock.now += 0.3
    assert player.previous_stop() == player.stops[2]
    assert not player.playing


def test_a_clock_that_goes_back_does_not_move_it_back(player: Player, clock: FakeClock) -> None:
    clock.now += 2.0
    assert player.position == 2.0
    clock.now -= 10.0
    assert player.position == 2.0


def test_a_recording_of_one_moment_plays(clock: FakeClock) -> None:
    player = Player(Recording([hello(), PhaseBegin(t=0.0, phase="load")]), clock)
    assert player.at_end
    player.step()
    player.play()
    assert player.state.hello == hello()
