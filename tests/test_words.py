"""Pages are written in plain English: a few patterns that make prose hard to read are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Pages that keep the rules. Add a page when it has been rewritten; none is ever taken off.
CLEAN: tuple[str, ...] = (
    "README.md",
    "docs/command_line.md",
    "docs/deploy_browser.md",
    "docs/deploy_c.md",
    "docs/faq.md",
    "docs/glossary.md",
    "docs/howto/errors/ArrayDeleted.md",
    "docs/howto/errors/ConcretizationTypeError.md",
    "docs/howto/errors/FloatingPointError.md",
    "docs/howto/errors/InconclusiveDimensionOperation.md",
    "docs/howto/errors/JaxRuntimeError.md",
    "docs/howto/errors/JaxprTypeError.md",
    "docs/howto/errors/KeyReuseError.md",
    "docs/howto/errors/NonConcreteBooleanIndexError.md",
    "docs/howto/errors/OutOfMemoryError.md",
    "docs/howto/errors/ShardingTypeError.md",
    "docs/howto/errors/TracerArrayConversionError.md",
    "docs/howto/errors/TracerBoolConversionError.md",
    "docs/howto/errors/TracerIntegerConversionError.md",
    "docs/howto/errors/TypePromotionError.md",
    "docs/howto/errors/UnexpectedTracerError.md",
    "docs/howto/errors/index.md",
    "docs/howto/extending.md",
    "docs/howto/index.md",
    "docs/howto/speed.md",
    "docs/index.md",
    "docs/inside/index.md",
    "docs/primitives.md",
    "docs/settings.md",
    "docs/sharp_bits.md",
    "docs/stability.md",
    "docs/start/choosing_a_device.md",
    "docs/start/first_program.md",
    "docs/start/from_jax.md",
    "docs/start/from_numpy.md",
    "docs/start/index.md",
    "docs/start/install.md",
    "docs/support_table.md",
    "docs/transformations/custom_jvp.md",
    "docs/transformations/custom_vmap.md",
    "docs/transformations/grad.md",
    "docs/transformations/jacobians.md",
    "docs/transformations/jit.md",
    "docs/transformations/jvp_vjp.md",
    "docs/transformations/shard_map.md",
    "docs/transformations/vmap.md",
    "docs/tutorials/bayesian_inference.md",
    "docs/tutorials/control_flow.md",
    "docs/tutorials/deploying.md",
    "docs/tutorials/derivatives.md",
    "docs/tutorials/finding_a_nan.md",
    "docs/tutorials/index.md",
    "docs/tutorials/pytrees.md",
    "docs/tutorials/random_numbers.md",
    "docs/tutorials/simulating_waves.md",
    "docs/tutorials/training_a_network.md",
    "docs/tutorials/vmap.md",
)
MOST_WORDS = 35
REFUSED = {
    "a headless What": r"^What (?![^?]*\?)",
    "is no (write: is not a)": r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b)",
    "of which, by which, in whose": r"\b(?:(?:of|by) which|in whose)\b",
    "nobody, whoever, somebody": r"\b(?:nobody|whoever|somebody)\b",
    "told of (write: reported)": r"\b(?:is|are) told\b",
    "goes by (write: depends on)": r"\bgoes by\b",
    "mended (write: fixed)": r"\bmend(?:ed|s)?\b",
    "as it is, at the end": r"\bas (?:it is|they are)[.!]?$",
}


def sentences(text: str) -> list[str]:
    """Sentences of a page's prose, without code, tables, headings and directives."""
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *(?:\||#|:{3,}|:\w+:|!\[|\[!).*$", "\n", text, flags=re.MULTILINE)
    # Items of lists, and definitions, are paragraphs of their own.
    text = re.sub(r"^ *(?:[-*:]|\d+\.) +", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "code", text)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return [s for part in paragraphs for s in re.split(r"(?<=[.?!:;])\s+(?=\S)", part) if s]


def complaints(text: str) -> list[str]:
    """A line for each sentence that breaks a rule: the rule, then the sentence."""
    report = []
    for sentence in sentences(text):
        for rule, pattern in REFUSED.items():
            if re.search(pattern, sentence, flags=re.IGNORECASE if rule[0] != "a" else 0):
                report.append(f"{rule}: {sentence}")
        if len(sentence.split()) > MOST_WORDS:
            report.append(f"more than {MOST_WORDS} words: {sentence}")
    return report


@pytest.mark.parametrize("page", CLEAN)
def test_pages_are_plain(page: str) -> None:
    assert complaints((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "What failed is listed here.",
        "A list is no array.",
        "Programs of which one fails.",
        "Nobody reads it.",
        "The error is told.",
        "It goes by size.",
        "The fault was mended.",
        "It stays as it is.",
        "word " * 36 + ".",
    ],
)
def test_a_breach_is_reported(text: str) -> None:
    assert len(complaints(text)) == 1


def test_questions_code_and_tables_are_not_prose() -> None:
    text = "What is a jaxpr? It is no longer here.\n\n```python\nis no x\n```\n\n| nobody | x |\n"
    assert complaints(text) == []
