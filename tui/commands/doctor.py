"""`cgtop doctor`: versions, device, and what works here and why not, found by a process that may import torch."""

import subprocess
import sys

from ...core.doctor_report import decode_report
from ..report.doctor import doctor_sections
from ..tables import print_report
from .failures import CommandError

TIMEOUT_S = 120


def doctor(*, as_json: bool) -> None:
    """Run the checks and write them. What they find is no failure; `CommandError` if they could not be run."""
    command = [sys.executable, "-m", "cgtop.core.engine.doctor"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"the checks could not be run: {error}") from error
    if answer.returncode != 0:
        last = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise CommandError("the checks could not be run", "\n".join(last))
    if as_json:
        sys.stdout.buffer.write(answer.stdout.strip() + b"\n")
        return
    try:
        found = decode_report(answer.stdout)
    except ValueError as error:
        raise CommandError(f"the checks gave no report: {error}") from error
    print_report(doctor_sections(found), sys.stdout)
