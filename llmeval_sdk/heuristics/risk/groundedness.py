"""How likely a response says what its context does not, for nothing: `groundedness_risk`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import context as contexts
from llmeval_sdk.heuristics.risk import reading, resources, response, sentence, text
from llmeval_sdk.heuristics.risk.sentence import Sentence, Side
from llmeval_sdk.model import Evaluation, Record


NAME = "groundedness_risk"
MAX_RESPONSE = 8_000
"""Characters; the rest of a longer response is not read, and the evaluation says so."""
_MOST_SHOWN = 20


def compare(
    asked: str, passages: Sequence[str], answer: str, *, table: Mapping[str, float] | None = None
) -> Side | None:
    """Set up what an answer is held against; ``None`` where the languages are not the same.

    ``table`` takes the place of the shipped background table, for training.
    """
    context = contexts.of(passages)
    spoken, written = text.language(answer), context.language
    if not passages:
        english = spoken.english
    elif spoken.sure and written.sure and spoken.english != written.english:
        return None
    else:
        english = written.english and (spoken.english or not spoken.sure)
    if english != written.english:
        context = contexts.of(passages, english=english)
    weigh = resources.weigher(table, english=english)
    return Side(context, reading.question_stems(asked, english=english), weigh, english)


def sentences(answer: str, side: Side) -> list[Sentence]:
    """Measure every sentence of an answer, as far as `MAX_RESPONSE`."""
    answer = answer[:MAX_RESPONSE]
    spans = list(text.sentences(answer))
    seen: set[str] = set()
    last = max(1, len(spans) - 1)
    return [
        sentence.measure(answer, span, side, seen, position=at / last)
        for at, span in enumerate(spans)
    ]


def _groundedness_risk(record: Record) -> Evaluation | None:
    """Score 0..1, near 1 where much of the response has no support in the context.

    Fitted on human span labels (see ``benchmarks/quality/risk_train.py``): compare ranks, not
    values, between applications. An answer that claims nothing, such as a refusal, is near 0.

    Metadata: ``unsupported_spans`` ([start, end] characters of the response), ``numbers_absent``
    (as written), ``sentences``, ``language`` (``en``, or ``other`` where only what holds in every
    language was used), and ``response_capped`` or ``context_capped`` where not all was read.
    """
    answer = record.response
    if not isinstance(answer, str) or record.retrieved_context is None:
        return None
    side = compare(reading.question(record), reading.passages(record), answer)
    if side is None:
        why = "response and context are in different languages, so their words cannot be compared"
        return Evaluation(NAME, None, None, why, None, {"language": "other"})
    found = sentences(answer, side)
    metadata: dict[str, Any] = {
        "unsupported_spans": [],
        "numbers_absent": [],
        "sentences": len(found),
        "language": "en" if side.english else "other",
    }
    if side.context.capped:
        metadata["context_capped"] = contexts.MAX_CHARACTERS
    if len(answer) > MAX_RESPONSE:
        metadata["response_capped"] = MAX_RESPONSE
    if not any(each.features["content"] for each in found):
        return Evaluation(NAME, 0.0, None, "the response claims nothing", None, metadata)
    model = resources.model("groundedness", "sentence")
    risks = [model.risk(each.features) for each in found]
    value = resources.model("groundedness", "response").risk(response.measure(found, risks))
    least = resources.data("groundedness")["span_threshold"]
    spans = [[s.start, s.end] for s, risk in zip(found, risks, strict=True) if risk >= least]
    absent = dict.fromkeys(
        answer[token.start : token.end] for each in found for token in each.numbers_absent
    )
    metadata["unsupported_spans"] = spans[:_MOST_SHOWN]
    metadata["numbers_absent"] = list(absent)[:_MOST_SHOWN]
    explanation = _explain(len(spans), len(found), metadata["numbers_absent"])
    return Evaluation(NAME, round(value, 4), None, explanation, None, metadata)


def _explain(unsupported: int, count: int, absent: list[str]) -> str:
    said = f"{unsupported} of {count} sentences look unsupported by the context"
    return f"{said}; numbers it does not have: {', '.join(absent[:5])}" if absent else said


groundedness_risk = FunctionHeuristic(
    _groundedness_risk, NAME, version="1", needs=("response", "retrieved_context")
)
