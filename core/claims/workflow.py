"""The guide's workflow of six steps, and its summary."""

from collections.abc import Callable

from ..plurals import counted
from . import caches, phases, sizes, speed
from .cases import ANYWHERE, GUIDES_CASE
from .evidence import Evidence, Finding, judged, mib, not_measured, part
from .statement import Statement


def _prefill(seen: Evidence) -> Finding:
    size, hello = seen.items("prefill").get(caches.DYNAMIC_KV), seen.main.hello
    if seen.end("prefill") is None or hello is None:
        return not_measured("no prefill")
    asked = hello.settings
    prompt = f"a prompt of {counted(asked.prompt_len, 'token')}" if asked.prompt is None else "the prompt text"
    return judged(size is not None and size > 0, f"Eagerly, {prompt} filled a DynamicCache of {mib(size or 0)}.")


def _create(seen: Evidence) -> Finding:
    size, model = seen.items("static_cache").get(phases.KV), seen.model
    if size is None or model is None:
        return not_measured(phases.NO_CACHE)
    whole = model.static_cache_bytes
    return judged(size == whole, f"The StaticCache was allocated in full: {mib(size)} of {mib(whole)}.")


def _copy(seen: Evidence) -> Finding:
    if seen.end("copy_kv") is None or seen.delta("copy_kv", "requested") is None:
        return not_measured("the prompt's keys and values were not copied")
    grown, fixed = seen.delta("copy_kv", "requested") or 0, seen.main.addresses
    moved = f"; of {counted(len(fixed.fixed), 'fixed tensor')} {seen.moved:,} moved since" if fixed is not None else ""
    return judged(grown == 0 and not seen.moved, f"The copy allocated {mib(grown)}{moved}.")


def _warmup(seen: Evidence) -> Finding:
    run = seen.runs_with_warmup().get(3)
    if run is None:
        return not_measured("no run with three warmups came to a capture")
    if seen.use(run).phase("capture").status == "failed":
        return Finding("does_not_hold", "After three warmups the capture failed.")
    return Finding("holds", "Three warmups ran before the capture.")


def _capture(seen: Evidence) -> Finding:
    graph, row = seen.main.graph, seen.main.phase("capture")
    if row.status == "failed":
        return Finding("does_not_hold", "The capture of the decode step failed.")
    if row.status == "running":
        return not_measured("the capture has not ended")
    if graph is None:
        return not_measured(row.end.reason if row.end is not None and row.end.reason else "no capture")
    nodes = f"{graph.nodes:,} nodes" if graph.nodes is not None else "an unknown number of nodes"
    return judged(graph.nodes is None or graph.nodes > 0, f"One decode step was recorded as {nodes}.")


def _decode(seen: Evidence) -> Finding:
    decode, check = seen.main.decode_by_mode.get("graph"), seen.main.verification
    if decode is None or not decode.replays:
        return not_measured("no tokens decoded by replays, but for those of comparisons and checks")
    copied = (
        [tensor.name for tensor in seen.main.addresses.fixed if tensor.update == "copy_"] if seen.main.addresses else []
    )
    verdict = "not verified" if check is None else f"a replay {caches.AGREEMENT[check.verdict]}"
    replays = counted(decode.replays, "replay")
    if check is not None and check.verdict == "mismatch":
        return Finding("does_not_hold", f"{replays} ran, but their logits mismatch those of eager steps.")
    if copied:
        return Finding("holds", f"{replays}, each after updating {', '.join(copied)}; {verdict}.")
    return Finding(
        "other_reason",
        f"{replays}: the output is read, but the host updates no input, since the graph itself writes the next token "
        f"and the length; {verdict}.",
    )


def _both(first: Statement, second: Statement) -> Callable[[Evidence], Finding]:
    """A line of the summary that repeats two statements, each by its own runs: it stands as well as the weaker one."""

    def judge(seen: Evidence) -> Finding:
        findings = (first.verdict(seen), second.verdict(seen))
        order = ("does_not_hold", "not_measured", "other_reason", "holds")
        worst = min(findings, key=lambda finding: order.index(finding.verdict))
        return Finding(worst.verdict, " ".join(finding.sentence for finding in findings))

    return judge


def _again(name: str, text: str, of: Statement) -> Statement:
    """A line of the summary that repeats one statement."""
    return Statement(name, text, of.judge, of.case)


def _named(statements: tuple[Statement, ...], name: str) -> Statement:
    return next(statement for statement in statements if statement.id == name)


def _summary_capture(seen: Evidence) -> Finding:
    end = seen.end("capture")
    grown = seen.delta("capture", "allocated")
    if end is None or grown is None:
        return not_measured("no capture on a GPU")
    pool = part(seen.items("capture", "reserved"), "private pool")
    sequence = seen.main.graph.instantiate_driver_bytes if seen.main.graph is not None else None
    also = f", {mib(sequence)} by the driver" if sequence else ""
    cost = max(grown, pool) + (sequence or 0)
    near = abs(cost - phases.GUIDE_GROWTH_MIB * (1 << 20)) <= 2 * (1 << 20)
    return judged(near, f"Allocated grows by {mib(grown)}; {mib(pool)} are held in a pool{also}: {mib(cost)} in all.")


STATEMENTS = (
    Statement("workflow.prefill", "1. Prefill eagerly with a DynamicCache.", _prefill, ANYWHERE),
    Statement("workflow.create", "2. Create a StaticCache of max_cache_len.", _create, ANYWHERE),
    Statement("workflow.copy", "3. Copy the prompt's keys and values to the fixed addresses.", _copy, ANYWHERE),
    Statement("workflow.warmup", "4. Warm up three times.", _warmup),
    Statement("workflow.capture", "5. Capture the kernel sequence of a decode step.", _capture),
    Statement("workflow.decode", "6. Decode: update the input, replay, read the output.", _decode),
    _again("summary.speed", "Summary: about 2.8× decode throughput.", _named(speed.STATEMENTS, "speed.ratio")),
    Statement("summary.capture", "Summary: capture costs about 8 MB, very little.", _summary_capture, GUIDES_CASE),
    Statement(
        "summary.main",
        "Summary: the main overhead is the StaticCache, in proportion to its length.",
        _both(_named(phases.STATEMENTS, "phases.main"), _named(sizes.STATEMENTS, "lengths.linear")),
        ANYWHERE,
    ),
    _again("summary.replay", "Summary: replay allocates nothing.", _named(phases.STATEMENTS, "phases.replay")),
    _again("summary.addresses", "Summary: fixed addresses.", _named(caches.STATEMENTS, "addresses.fixed")),
)
