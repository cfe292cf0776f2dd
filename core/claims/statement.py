"""A statement of the guide with the function that judges it, and the runs that it may be judged by."""

from collections.abc import Callable
from typing import NamedTuple

from .cases import ON_GPU, Case
from .evidence import Evidence, Finding, not_measured


class Statement(NamedTuple):
    """`text` is the guide's statement in English; `judge` is pure and sees only the runs that `case` covers."""

    id: str
    text: str
    judge: Callable[[Evidence], Finding]
    case: Case = ON_GPU

    def verdict(self, seen: Evidence) -> Finding:
        """By the runs that can tell it, and naming those that its figures are of where there are several."""
        able = seen.only(self.case.covers)
        if seen.runs and all(run.hello is None for run in seen.runs):
            return not_measured("the run has not begun")
        if not able.runs:
            return not_measured(f"it takes {self.case.what}")
        found = self.judge(able)
        names = able.names_used() if found.verdict != "not_measured" and seen.has_several_names else ()
        return Finding(found.verdict, f"{found.sentence} From {' and '.join(names)}.") if names else found
