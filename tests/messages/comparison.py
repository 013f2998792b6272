"""What xpr raises where JAX does: compared by class and by first words.

    python -m tests.messages.comparison

writes the differences that there are into differences.json, for a diff to be read before it is
committed. Each of them has to have a reason in `reasons.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import xpr
from tests.messages.calls import calls, find, raised
from tests.messages.reasons import NOT_CHECKED_BY_JAX

HERE = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((HERE / "golden.json").read_text())
SHORT = 8
"""First words of fewer characters say nothing."""
MANY = 20
"""As many characters tell that two messages are one sentence about two functions."""


class Difference(NamedTuple):
    kind: str
    """`class`, `name` (a function's, of which the words are the same), `words`, `accepted` or
    `refused` (by xpr alone), or `missing`."""
    jax: str
    """JAX's class and first words."""
    name: str
    label: str
    found: str
    """What xpr raised."""


def by_function() -> dict[str, dict[str, tuple[str, str] | None]]:
    """For each function and call JAX's class and first words, or None where it raises nothing."""
    found: dict[str, dict[str, tuple[str, str] | None]] = {n: {} for n in GOLDEN["functions"]}
    for name, labels in GOLDEN["accepted"].items():
        found[name].update(dict.fromkeys(labels.split()))
    for kind, rows in GOLDEN["raised"].items():
        for words, functions in rows.items():
            for name, labels in functions.items():
                for label in labels.split():
                    found[name][label] = kind, words.replace("{}", name.split(".")[-1])
    return found


EXPECTED = by_function()


def groups() -> dict[str, list[str]]:
    """The functions by the module they are in."""
    found: dict[str, list[str]] = {}
    for name in EXPECTED:
        module = name.rpartition(".")[0]
        key = module if module in ("numpy", "lax", "random", "Array") else module.split(".")[0]
        found.setdefault(key or "xpr", []).append(name)
    return found


def differences(names: list[str]) -> Iterator[Difference]:
    """All differences of these functions."""
    key = xpr.random.key(0)
    for name in names:
        try:
            function = find(xpr, name)
        except (AttributeError, ImportError) as error:
            yield Difference("missing", "there", name, "all", str(error))
            continue
        count, named = GOLDEN["functions"][name]
        for label, args, kwargs in calls(name, count, named, key):
            expected = EXPECTED[name][label]
            found = raised(xpr, function, args, kwargs)
            difference = compared(expected, found)
            if difference is not None:
                said = f"{expected[0]}: {expected[1]}" if expected else "accepted"
                text = f"{found[0][0]}: {found[1]}" if found else "accepted"
                yield Difference(difference, said, name, label, text)


def compared(expected: tuple[str, str] | None, found: Any) -> str | None:
    """In what the two differ; where JAX's error is an accident, only whether there is one."""
    if expected is None:
        return None if found is None else "refused"
    if found is None:
        return "accepted"
    kind, words = expected
    classes, message = found
    if len(words) < SHORT or NOT_CHECKED_BY_JAX.search(f"{kind}: {words}"):
        return None
    if kind not in classes:
        return "class"
    if message.startswith(words):
        return None
    # Of "add requires ndarray or scalar arguments" and the like only the name is another one.
    of_jax, of_xpr = (text.partition(" ")[2] for text in (words, message))
    return "name" if len(of_jax) > MANY and of_xpr.startswith(of_jax) else "words"


def main() -> None:
    rows: dict[str, dict[str, dict[str, list[str]]]] = {}
    for names in groups().values():
        for d in differences(names):
            rows.setdefault(d.kind, {}).setdefault(d.jax, {}).setdefault(d.name, []).append(d.label)
    joined = {
        kind: {said: {n: " ".join(v) for n, v in names.items()} for said, names in group.items()}
        for kind, group in rows.items()
    }
    text = json.dumps(joined, indent=0, separators=(",", ":"), sort_keys=True)
    (HERE / "differences.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
