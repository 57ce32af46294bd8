"""How likely a response says what its context does not, for nothing: `groundedness_risk`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from llmeval_sdk.heuristics._budget import Budget
from llmeval_sdk.heuristics._function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import context as contexts
from llmeval_sdk.heuristics.risk import languages, reading, resources, response, sentence, text
from llmeval_sdk.heuristics.risk.additive import Additive, squashed
from llmeval_sdk.heuristics.risk.context import Context
from llmeval_sdk.heuristics.risk.draft import Draft, Sentence, Side, draft
from llmeval_sdk.heuristics.risk.words import STOP_WORDS
from llmeval_sdk.model import Evaluation, Record


NAME = "groundedness_risk"
MAX_CHARACTERS = 10_000
MAX_TOKENS = 1_500
MAX_SENTENCES = 200
"""Of a response; the rest of a longer one is not read, and the evaluation says so."""
_SAMPLE = 1_000
"""Characters of an answer that show its language."""
_PLACES = 24
"""Sentences with a word of the question that are looked at."""
_MOST_SHOWN = 20
_DECLINED = 0.05
_UNCOPIED, _NOVEL, _USUAL = 0.4, 0.12, 0.6
"""What the share of neighbours that are not side by side in the context, and the novel mass, add to
the logit of the trained steps: without them most short answers share one value. Chosen by hand."""
_REFUSAL_WORDS = {True: 4, False: 8}
"""Words of its own that a sentence may have and still count as declining to answer: in English,
whose turns of phrase are mostly stop words, and in other languages."""


def compare(
    asked: str, passages: Sequence[str], answer: str, *, table: Mapping[str, float] | None = None
) -> Side | None:
    """Set up what an answer is held against; ``None`` where the languages are not the same.

    ``table`` takes the place of the shipped background table, for training.
    """
    context = contexts.of(passages)
    spoken, written = text.language((text.tokens(answer, 0, _SAMPLE),)), context.language
    if not passages:
        english = spoken.english
    elif spoken.sure and written.sure and spoken.english != written.english:
        return None
    else:
        english = written.english and (spoken.english or not spoken.sure)
    if english != context.english:
        context = contexts.of(passages, english=english)
    weigh = resources.weigher(table, english=english)
    question = reading.question_stems(asked, english=english)
    missing, places = _asked(question, context, weigh, english=english)
    by_capitals = written.names_by_capitals and spoken.names_by_capitals
    return Side(context, question, weigh, english, by_capitals, places, missing)


def _asked(
    question: frozenset[str], context: Context, weigh: Callable[[str], float], *, english: bool
) -> tuple[float, frozenset[int]]:
    """Return what share of a question the context lacks, and the sentence that has most of it."""
    stop = STOP_WORDS if english else languages.STOP_WORDS
    masses = {stem: weigh(stem) for stem in question if stem not in stop}
    found = context.where(set(masses))
    missing = math.fsum(mass for stem, mass in masses.items() if stem not in found)
    votes: dict[int, float] = {}
    for stem in sorted(found):  # sums of floats depend on their order, and that of sets is chance
        places = found[stem]
        for place in places[:_PLACES]:
            votes[place] = votes.get(place, 0.0) + masses[stem] / len(places)
    best = max(sorted(votes), key=votes.__getitem__, default=None)
    return missing / (math.fsum(masses.values()) or 1.0), frozenset(() if best is None else (best,))


def sentences(answer: str, side: Side) -> list[Sentence]:
    """Measure the sentences of an answer, as far as the three limits allow.

    What is read is bounded first, so the budget's count of work is never used up, and a long record
    has a value; its bound on the processor time of a worker's thread holds here too.
    """
    drafts: list[Draft] = []
    tokens = 0
    wanted: set[str] = set()
    for start, end in islice(text.sentences(answer[:MAX_CHARACTERS]), MAX_SENTENCES):
        drafts.append(draft(answer, start, end, english=side.english))
        wanted.update(drafts[-1].stems)
        tokens += len(drafts[-1].stems)
        if tokens >= MAX_TOKENS:
            break
    spelled = text.SPELLED_OUT_NUMBERS[side.english]
    numbers = [spelled[stem] for stem in spelled.keys() & wanted]
    for digits in numbers + [stem for stem in wanted if stem < ":"]:
        wanted |= {digits, *text.SPELLED[side.english].get(digits, ())}
    stop = STOP_WORDS if side.english else languages.STOP_WORDS
    postings = side.context.where(wanted - stop)
    last = max(1, len(drafts) - 1)
    seen: set[str] = set()
    budget = Budget()
    measured = []
    for at, made in enumerate(drafts):
        budget.spend(len(made.stems))
        measured.append(sentence.measure(made, side, postings, seen, at / last))
    return measured


def score(
    found: Sequence[Sentence], models: tuple[Additive, Additive]
) -> tuple[float, list[float]]:
    """Return the risk of the response and of each sentence; ``models`` are for sentence and whole.

    A response that claims nothing has no risk, and one whose every sentence declines to answer has
    next to none: its words are the question's or its own, not claims.
    """
    claims = [each for each in found if each.features["content"]]
    risks = [models[0].risk(each.features) for each in found]
    if not claims:
        return 0.0, risks
    whole = response.measure(found, risks)
    logit = models[1].logit(whole) + _UNCOPIED * (1 - whole["worst_bigrams"]) - _USUAL
    value = squashed(logit + _NOVEL * math.log1p(whole["novel_mass"]))
    return (_DECLINED * value if declines(claims) else value), risks


def declines(claims: Sequence[Sentence]) -> bool:
    """Say whether every sentence says that the context says nothing, and little else."""
    return all(
        each.features["refusal"]
        and not each.numbers_absent
        and each.own_words <= _REFUSAL_WORDS[each.english]
        for each in claims
    )


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
        metadata["context_capped"] = True
    if found and found[-1].end < len(answer.rstrip()):
        metadata["response_capped"] = True
    spoken = "english" if side.english else "other"
    models = (
        resources.model("groundedness", f"{spoken}_sentence"),
        resources.model("groundedness", f"{spoken}_response"),
    )
    value, risks = score(found, models)
    claims = [each for each in found if each.features["content"]]
    if declines(claims):
        why = "the response declines to answer" if claims else "the response claims nothing"
        return Evaluation(NAME, round(value, 5), None, why, None, metadata)
    least = resources.data("groundedness")["span_threshold"]
    spans = [
        [each.start, each.end]
        for each, risk in zip(found, risks, strict=True)
        if risk >= (least / 2 if each.numbers_absent else least)  # a missing figure is evidence
    ]
    absent = dict.fromkeys(number for each in found for number in each.numbers_absent)
    metadata["unsupported_spans"] = spans[:_MOST_SHOWN]
    metadata["numbers_absent"] = list(absent)[:_MOST_SHOWN]
    explanation = _explain(len(spans), len(found), metadata["numbers_absent"])
    return Evaluation(NAME, round(value, 5), None, explanation, None, metadata)


def _explain(unsupported: int, count: int, absent: list[str]) -> str:
    said = f"{unsupported} of {count} sentences look unsupported by the context"
    return f"{said}; numbers it does not have: {', '.join(absent[:5])}" if absent else said


groundedness_risk = FunctionHeuristic(
    _groundedness_risk, NAME, version="2", needs=("response", "retrieved_context")
)
