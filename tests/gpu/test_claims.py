"""`cgtop claims` on a real GPU: what only a real capture can decide."""

import subprocess
import sys

from cgtop.core.events import Claim, decode_event


def test_a_live_run_decides_what_needs_a_real_graph() -> None:
    command = (sys.executable, "-m", "cgtop.tui.cli", "claims", "--quick", "--model", "qwen3-0.6b", "--json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert result.returncode == 0, result.stderr
    events = [decode_event(line.encode()) for line in result.stdout.splitlines()]
    found = {event.id: event for event in events if isinstance(event, Claim)}
    decided = {
        "speed.faster": "holds",
        "phases.formula": "holds",
        "phases.replay": "holds",
        "phases.replay_reason": "holds",
        "addresses.fixed": "holds",
        "addresses.copy": "does_not_hold",
        "caches.addresses": "holds",
        "caches.graph": "other_reason",
        "workflow.decode": "other_reason",
    }
    assert {name: found[name].verdict for name in decided} == decided, {name: found[name].finding for name in decided}
