"""Every statement of the guide, one by one, against what was measured.

`claims_of` is pure: states of runs in, a `Claim` for each statement out. A statement holds, does not hold, holds for
another reason than the guide gives, or was not measured; the finding is a sentence with the runs' numbers.
"""

from collections.abc import Sequence

from ..events import Claim
from ..state import RunState
from . import caches, phases, sizes, speed, warmups, workflow
from .evidence import Evidence
from .statement import Statement

STATEMENTS: tuple[Statement, ...] = (
    *speed.STATEMENTS,
    *phases.STATEMENTS,
    *warmups.STATEMENTS,
    *caches.STATEMENTS,
    *sizes.STATEMENTS,
    *workflow.STATEMENTS,
)


def claims_of(runs: Sequence[RunState], names: Sequence[str] = ()) -> tuple[Claim, ...]:
    """A claim for each statement of the guide, in the guide's order. Several runs complete each other.

    The phases are judged by the run that came furthest; runs with other warmups, sweeps and demonstrations are taken
    from whichever has them. `names`: what to call each run; where they differ, a finding says which it is from.
    """
    seen = Evidence(runs, names)
    claims = []
    for statement in STATEMENTS:
        verdict, sentence = statement.verdict(seen)
        claims.append(
            Claim(t=seen.main.t, id=statement.id, statement=statement.text, verdict=verdict, finding=sentence)
        )
    return tuple(claims)
