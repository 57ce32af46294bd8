"""Whether extracted values are found in the text they are said to come from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from llmeval_sdk.heuristics._budget import Budget
from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics._reading import chunk_number, text_of
from llmeval_sdk.model import Evaluation, Record


if TYPE_CHECKING:
    from llmeval_sdk.heuristics.grounding.evidence import Evidence


PASS_SHARE = 0.5
MAX_VALUES = 500
"""Single values that are checked; the rest is cut, and said to be."""
MAX_DEPTH = 8
SHORT_WORDS = 12
"""A text of more words, or a sentence, is an answer in prose: a good one need not repeat its
sources word for word, and a refusal has none, so that without extractions it is not checked."""
_SENTENCE_WORDS = 3
_ABBREVIATION = 4
_SHOWN_VALUES = 5
_SHOWN_CHARACTERS = 80


def _semantic_validation(record: Record) -> Evaluation:
    """Check each extraction's value against its evidence, else against the chunk it cites.

    ``pass`` means grounded, not right: the value stands in the text, which may be the wrong text,
    or the wrong place of it. ``fail`` means that no such value was found there, which
    is also the fate of a value that was inferred: the name of a licence from its wording.

    Without extractions the record's value is checked against the retrieved chunks if it is short;
    an answer in prose is not applicable (``None``): `groundedness_risk` is for those. ``pass`` if
    at least half of the values are supported, ``skipped`` if there is nothing to check. A list or
    mapping is supported if all its items are. The metadata has the ``supported_share``, and in
    ``verdicts`` how each value was found, in the order of the extractions (``None``: not checked).
    """
    from llmeval_sdk.heuristics.grounding.evidence import Evidence

    if not record.extractions and _is_prose(record.value):
        return Evaluation("semantic_validation")
    budget = Budget()
    claims = list(_claims(record))
    budget.admit(sum(map(len, {text for _, text in claims})))
    texts: dict[str, Evidence] = {}
    verdicts: list[str | None] = []
    unsupported: list[Any] = []
    seen = 0
    for value, text in claims:
        items = list(islice(_items(value), MAX_VALUES + 1)) if text else []
        seen += len(items)
        verdict = None
        if items and seen <= MAX_VALUES:
            if (evidence := texts.get(text)) is None:
                evidence = texts[text] = Evidence(text, budget)
            verdict = _verdict(items, evidence)
        verdicts.append(verdict)
        if verdict == "unsupported":
            unsupported.append(value)
    checked = sum(verdict is not None for verdict in verdicts)
    metadata: dict[str, Any] = {"checked": checked, "verdicts": verdicts}
    if seen > MAX_VALUES:
        metadata["values_cut"] = True
    if not checked:
        return Evaluation("semantic_validation", "skipped", metadata=metadata)
    share = 1 - len(unsupported) / checked
    metadata["supported_share"] = round(share, 3)
    return Evaluation(
        "semantic_validation",
        "pass" if share >= PASS_SHARE else "fail",
        explanation=_explanation(unsupported),
        metadata=metadata,
    )


def _claims(record: Record) -> Iterator[tuple[Any, str]]:
    """Yield each value with the text that it has to be found in."""
    chunks = record.retrieved_context or ()
    if not record.extractions:
        text = "\n".join(chunk.content for chunk in chunks if isinstance(chunk.content, str))
        yield record.value, text
        return
    for extraction in record.extractions:
        text = extraction.evidence if isinstance(extraction.evidence, str) else ""
        if not text.strip():
            number = chunk_number(extraction.chunk_number) or 0
            content = chunks[number - 1].content if 0 < number <= len(chunks) else None
            text = content if isinstance(content, str) else ""
        yield extraction.value, text


def _items(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the single values in a value."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, (list, tuple, set, frozenset)):
        yield value
    elif depth < MAX_DEPTH:
        for item in value:
            yield from _items(item, depth + 1)


def _is_prose(value: Any) -> bool:
    """Say whether a value is long, or a sentence; ``Harbour Trading Ltd.`` is none."""
    if not isinstance(value, str):
        return False
    words = value.split(None, SHORT_WORDS)
    if len(words) > SHORT_WORDS:
        return True
    if len(words) < _SENTENCE_WORDS or words[-1][-1] not in ".!?。！？":
        return False
    last = words[-1].rstrip(".!?。！？")
    return len(last) > _ABBREVIATION or last.islower()


def _verdict(items: list[Any], evidence: Evidence) -> str | None:
    """Say how the values were found: the loosest way if there are several, or unsupported."""
    from llmeval_sdk.heuristics.grounding.support import WAYS, support

    found = [way for item in items if (way := support(item, evidence)) is not None]
    return max(found, key=WAYS.index, default=None)


def _explanation(unsupported: list[Any]) -> str | None:
    """Name the values that were not found."""
    if not unsupported:
        return None
    named = ", ".join(_shown(value) for value in unsupported[:_SHOWN_VALUES])
    more = len(unsupported) - _SHOWN_VALUES
    return f"not found in the evidence: {named}" + (f" and {more} more" if more > 0 else "")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…")
    return text_of(value)[:_SHOWN_CHARACTERS]


semantic_validation = FunctionHeuristic(
    _semantic_validation,
    "semantic_validation",
    needs=("extractions|value", "extractions|retrieved_context"),
    output=("pass", "fail", "skipped"),
)
