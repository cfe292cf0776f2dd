"""The report of a run as data: `report(state)` is pure, `..tables` draws it for a terminal or as Markdown."""

from .build import Origin, bench_report, check_report, mark, report, sweep_report
from .model import Column, Report, Row, Section, Table

__all__ = [
    "Column",
    "Origin",
    "Report",
    "Row",
    "Section",
    "Table",
    "bench_report",
    "check_report",
    "mark",
    "report",
    "sweep_report",
]
