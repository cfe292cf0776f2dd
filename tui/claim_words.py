"""The verdicts on the guide's statements in words, and the titles of their groups; for the report and the screen."""

WORDS = {
    "holds": "holds",
    "does_not_hold": "DOES NOT HOLD",
    "other_reason": "other reason",
    "not_measured": "not measured",
}
TITLES = {
    "speed": "Speed",
    "phases": "Memory of the phases",
    "warmup": "The three warmups",
    "addresses": "Fixed addresses",
    "caches": "StaticCache against DynamicCache",
    "lengths": "Cache length and memory",
    "batches": "Graphs for several batch sizes",
    "workflow": "The workflow",
    "summary": "The summary",
}


def group_of(claim_id: str) -> str:
    """The title of a claim's group, by its id."""
    group = claim_id.partition(".")[0]
    return TITLES.get(group, group)
