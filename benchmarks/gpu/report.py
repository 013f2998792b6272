"""Tables of outcomes, as Markdown, and the rows that failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from benchmarks.gpu.rows import Outcome


def summary(outcomes: Sequence[Outcome], asked: int) -> str:
    """One line: how many rows are right, and what is wrong with the others."""
    counts = Counter("right" if o["ok"] else "wrong" for o in outcomes)
    misses = sum(bool(o.get("miss")) for o in outcomes)
    fallbacks = sum("fallbacks" in o for o in outcomes)
    words = [f"{counts['right']} rows right, {counts['wrong']} failed, {misses} of them misses"]
    if fallbacks:
        words.append(f"{fallbacks} compiled in a plainer form")
    if asked > len(outcomes):
        words.append(f"{asked - len(outcomes)} not run")
    return ", ".join(words)


def tables(outcomes: Sequence[Outcome]) -> str:
    """All that is to be seen of a run, for docs/benchmarks.md."""
    lines: list[str] = []
    by_runtime: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_runtime[outcome.get("runtime", "?")].append(outcome)
    for runtime, part in by_runtime.items():
        lines += [f"## {runtime}", "", *_device(part), *_counts(part), *_timings(part)]
        lines += _failed(part)
    return "\n".join(lines)


def _device(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if outcome["row"] == "device/table" and outcome["ok"]:
            yield f"{outcome['kind']} ({outcome['features']}), xpr {outcome['xpr']}."
            yield ""


def _counts(outcomes: Sequence[Outcome]) -> Iterator[str]:
    groups: dict[str, Counter[bool]] = defaultdict(Counter)
    for outcome in outcomes:
        parts = outcome["row"].split("/")
        name = "/".join(parts[:2]) if parts[0] == "operations" else parts[0]
        groups[name][bool(outcome["ok"])] += 1
    yield "| rows | right | failed |"
    yield "| --- | --- | --- |"
    for name, count in groups.items():
        yield f"| {name} | {count[True]} | {count[False]} |"
    yield ""


def _timings(outcomes: Sequence[Outcome]) -> Iterator[str]:
    timed = [o for o in outcomes if o["row"].startswith("timings/") and "xpr ms" in o]
    if not timed:
        return
    yield "| program | xpr ms | JAX ms | PyTorch ms | TFLOPS | GB/s |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for outcome in timed:
        name = outcome["row"].split("/", 1)[1]
        times = " | ".join(str(outcome.get(f"{who} ms", "")) for who in ("xpr", "jax", "torch"))
        rates = " | ".join(str(outcome.get(f"xpr {unit}", "")) for unit in ("TFLOPS", "GB/s"))
        yield f"| {name} | {times} | {rates} |"
    yield ""


def _failed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    failed = [o for o in outcomes if not o["ok"]]
    if failed:
        yield "Failed:"
        yield ""
    for outcome in failed:
        failure = " ".join(str(outcome.get("failure", "")).split())[:400]
        yield f"- `{outcome['row']}`: {failure}"
        if "stablehlo" in outcome:
            yield f"  (its StableHLO: {outcome['stablehlo']})"
        if outcome.get("said"):
            yield f"  The process said: {' '.join(outcome['said'].split())[-300:]}"
    if failed:
        yield ""
