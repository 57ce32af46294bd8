"""`semantic_validation`: whether extracted values stand in the text that they were taken from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from llmeval_sdk.heuristics._reading import chunk_number, text_of
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.model.documents import sources_of
from llmeval_sdk.model.structure import fields_of, has_value, is_only_said, is_structured
from llmeval_sdk.process.loading import loading
from llmeval_sdk.text.budget import WorkBudget


if TYPE_CHECKING:
    from llmeval_sdk.text.support import EvidenceText


PASS_SHARE = 0.5
MAX_VALUES = 500
"""How many single values are checked. The evaluation says so if there are more."""
MAX_DEPTH = 8
SHORT_WORDS = 12
"""A text of more words than this, or a sentence, is an answer in prose. A good answer need not
repeat its sources word for word, and a refusal has no source, so prose is checked only in
extractions."""
_SENTENCE_WORDS = 3
_ABBREVIATION = 4
_SHOWN_VALUES = 5
_SHOWN_CHARACTERS = 80


def _semantic_validation(record: Record) -> Evaluation:
    """Return whether the extracted values stand in the text that they were taken from.

    The value is ``pass`` if at least half of the values are supported, ``fail`` if fewer are,
    and ``skipped`` if there is nothing to check. The value of an extraction is looked for in its
    evidence, or else in the chunk that it cites. A list or mapping is supported if all its items
    are. Numbers, amounts and dates may be written in another way but must be equal.

    ``pass`` means that the value is grounded and not that it is right, because the text may be the
    wrong one or the wrong place in it. ``fail`` means that the value was not found, which is also
    what happens to an inferred value, such as the name of a licence inferred from its wording.

    Without extractions, the record's value is looked for in the retrieved chunks if it is short, or
    in the documents of the prompt where nothing was retrieved; a structured answer is read field by
    field. An answer in prose gives ``None``, since `groundedness_risk` is made for those. So does a
    short one of a chat, such as "Thanks!", which was taken from no text. Therefore it attaches by
    itself only where something says that there is a value: extractions, a ``field_config``, a
    structured answer, or an annotated value other than the response.

    Metadata: ``supported_share``, and ``verdicts``, which holds how each value was found in the
    order of the extractions (``None`` if it was not checked).
    """
    with loading:
        from llmeval_sdk.text.support import EvidenceText

    if not record.extractions and (_is_prose(record.value) or _is_chat(record)):
        return Evaluation("semantic_validation")
    config = record.field_config
    locale = config.get("locale") if isinstance(config, Mapping) else None
    budget = WorkBudget()
    claims = list(_claims(record))
    budget.admit(sum(map(len, {text for _, text in claims})))
    texts: dict[str, EvidenceText] = {}
    verdicts: list[str | None] = []
    unsupported: list[object] = []
    seen = 0
    for value, text in claims:
        items = list(islice(_items(value), MAX_VALUES + 1)) if text else []
        seen += len(items)
        verdict = None
        if items and seen <= MAX_VALUES:
            if (evidence := texts.get(text)) is None:
                evidence = texts[text] = EvidenceText(text, budget, locale=locale)
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


def _claims(record: Record) -> Iterator[tuple[object, str]]:
    """Yield each value with the text in which it has to be found."""
    chunks = sources_of(record) or ()
    if not record.extractions:
        text = "\n".join(chunk.content for chunk in chunks if isinstance(chunk.content, str))
        fields = fields_of(record).fields
        if not fields:
            yield record.value, text
        for field in fields:
            if is_answer(field.value) and not _is_prose(field.value):
                yield field.value, text
        return
    for extraction in record.extractions:
        text = extraction.evidence if isinstance(extraction.evidence, str) else ""
        if not text.strip():
            number = chunk_number(extraction.chunk_number) or 0
            content = chunks[number - 1].content if 0 < number <= len(chunks) else None
            text = content if isinstance(content, str) else ""
        yield extraction.value, text


def _items(value: object, depth: int = 0) -> Iterator[object]:
    """Yield the single values in a value."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, (list, tuple, set, frozenset)):
        yield value
    elif depth < MAX_DEPTH:
        for item in value:
            yield from _items(item, depth + 1)


def _is_prose(value: object) -> bool:
    """Return whether a value is long or a sentence; ``Harbour Trading Ltd.`` is neither."""
    if not isinstance(value, str):
        return False
    words = value.split(None, SHORT_WORDS)
    if len(words) > SHORT_WORDS:
        return True
    if len(words) < _SENTENCE_WORDS or words[-1][-1] not in ".!?。！？":
        return False
    last = words[-1].rstrip(".!?。！？")
    return len(last) > _ABBREVIATION or last.islower()


def _is_chat(record: Record) -> bool:
    """Say whether the value is only what a model or an agent said, and no value of the app."""
    return record.span_kind in _CHATS and is_only_said(record) and not is_structured(record)


_CHATS = ("llm", "agent")


def _verdict(items: list[object], evidence: EvidenceText) -> str | None:
    """Return the loosest of the ways in which the values were found, or ``unsupported``."""
    with loading:
        from llmeval_sdk.text.support import WAYS, support

    found = [way for item in items if (way := support(item, evidence)) is not None]
    return max(found, key=WAYS.index, default=None)


def _explanation(unsupported: list[object]) -> str | None:
    """Name the values that were not found."""
    if not unsupported:
        return None
    named = ", ".join(_shown(value) for value in unsupported[:_SHOWN_VALUES])
    more = len(unsupported) - _SHOWN_VALUES
    return f"not found in the evidence: {named}" + (f" and {more} more" if more > 0 else "")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…")
    return text_of(value)[:_SHOWN_CHARACTERS]


semantic_validation = FunctionHeuristic(
    _semantic_validation,
    "semantic_validation",
    version="4",
    needs=("extractions|value", "extractions|retrieved_context|request"),
    applies=has_value,
    output=("pass", "fail", "skipped"),
)
