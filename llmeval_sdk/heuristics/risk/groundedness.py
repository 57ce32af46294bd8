"""`groundedness_risk`: how likely a response says what its context does not, without an LLM."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.heuristics.risk import _features, _text, _words
from llmeval_sdk.heuristics.risk._context import Context, context_of
from llmeval_sdk.heuristics.risk._features import Draft, Reference, Sentence, draft
from llmeval_sdk.heuristics.risk._words import STOP_WORDS, Additive, squashed
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.fields import TOOL_RESULTS
from llmeval_sdk.model.records import evidence_of
from llmeval_sdk.model.structure import has_no_fields
from llmeval_sdk.process.loading import loading
from llmeval_sdk.text.budget import TooLargeError, WorkBudget


NAME = "groundedness_risk"
FEATURES = _features.RESPONSE_FEATURES
"""What its model weighs, in this order."""
MAX_CHARACTERS = 10_000
MAX_TOKENS = 1_500
MAX_SENTENCES = 200
"""How many sentences of a response are read. The evaluation says so if there are more."""
_SAMPLE = 1_000
"""How many characters of an answer decide which language it is in."""
_PLACES = 24
"""How many of the sentences that have a word of the question are looked at."""
_MAX_SHOWN = 20
_DECLINED = 0.05
_UNCOPIED, _NOVEL, _USUAL = 0.4, 0.12, 0.6
"""Two continuous features are added to the logit of the trained steps: the share of word pairs that
are not side by side in the context, and the novel mass. Without them most short answers would share
one value. The weights were chosen by hand."""
_REFUSAL_WORDS = {True: 4, False: 8}
"""How many words of its own a sentence may have and still count as declining to answer. The limit
is lower in English, whose turns of phrase are mostly stop words, than in other languages."""


Weigh = Callable[[str, float, dict[str, float]], tuple[float, dict[str, Any]]]
"""Corrects a risk by its features: from language, risk and features to risk and metadata."""


def compare(
    request: str, passages: Sequence[str], answer: str, *, table: Mapping[str, float] | None = None
) -> Reference | None:
    """Return what an answer is compared with, or ``None`` if it is in another language.

    ``table`` replaces the shipped background table; training uses it.
    """
    context = context_of(passages)
    spoken = _text.language([_text.sample(_text.tokens(answer, 0, _SAMPLE))])
    written = context.language
    if not passages:
        english = spoken.english
    elif spoken.sure and written.sure and spoken.english != written.english:
        return None
    else:
        english = written.english and (spoken.english or not spoken.sure)
    if english != context.english:
        context = context_of(passages, english=english)
    weigh = _words.weigher(table, english=english)
    question = _text.question_stems(request, english=english)
    missing, places = _asked(question, context, weigh, english=english)
    by_capitals = written.names_by_capitals and spoken.names_by_capitals
    return Reference(context, question, weigh, english, by_capitals, places, missing)


def _asked(
    question: frozenset[str], context: Context, weigh: Callable[[str], float], *, english: bool
) -> tuple[float, frozenset[int]]:
    """Return the share of a question that the context lacks, and the sentence with most of it."""
    stop = STOP_WORDS if english else _words.OTHER_STOP_WORDS
    masses = {stem: weigh(stem) for stem in question if stem not in stop}
    places_of = context.where(set(masses))
    missing = math.fsum(mass for stem, mass in masses.items() if stem not in places_of)
    votes: dict[int, float] = {}
    for stem in sorted(places_of):  # a sum of floats depends on its order; sets have none
        places = places_of[stem]
        for place in places[:_PLACES]:
            votes[place] = votes.get(place, 0.0) + masses[stem] / len(places)
    best = max(sorted(votes), key=votes.__getitem__, default=None)
    return missing / (math.fsum(masses.values()) or 1.0), frozenset(() if best is None else (best,))


def sentences(answer: str, reference: Reference) -> list[Sentence]:
    """Compute the features of the sentences of an answer, up to three limits.

    The limits on characters, sentences and tokens keep the count of work within its budget, so that
    even a long record gets a value. The budget's limit on processor time still applies.
    """
    drafts: list[Draft] = []
    tokens = 0
    wanted: set[str] = set()
    for start, end in islice(_text.sentences(answer[:MAX_CHARACTERS]), MAX_SENTENCES):
        drafts.append(draft(answer, start, end, english=reference.english))
        wanted.update(drafts[-1].stems)
        tokens += len(drafts[-1].stems)
        if tokens >= MAX_TOKENS:
            break
    spelled = _text.SPELLED_OUT_NUMBERS[reference.english]
    numbers = [spelled[stem] for stem in spelled.keys() & wanted]
    for digits in numbers + [stem for stem in wanted if stem < ":"]:
        wanted |= {digits, *_text.SPELLED[reference.english].get(digits, ())}
    stop = STOP_WORDS if reference.english else _words.OTHER_STOP_WORDS
    postings = reference.context.where(wanted - stop)
    last = max(1, len(drafts) - 1)
    seen: set[str] = set()
    budget = WorkBudget()
    measured = []
    for at, made in enumerate(drafts):
        budget.spend(len(made.stems))
        measured.append(_features.sentence_features(made, reference, postings, seen, at / last))
    return measured


def score(
    measured: Sequence[Sentence], models: tuple[Additive, Additive]
) -> tuple[float, list[float], dict[str, float]]:
    """Return the risk of the response, the risks of its sentences, and the response's features.

    ``models`` are the one for sentences and the one for the whole response. A response that claims
    nothing has no risk and no features. One whose sentences all decline to answer has almost no
    risk, because its words are the question's or its own and claim nothing.
    """
    claims = [s for s in measured if s.features["content"]]
    risks = [models[0].risk(s.features) for s in measured]
    if not claims:
        return 0.0, risks, {}
    whole = _features.response_features(measured, risks)
    logit = models[1].logit(whole) + _UNCOPIED * (1 - whole["worst_bigrams"]) - _USUAL
    value = squashed(logit + _NOVEL * math.log1p(whole["novel_mass"]))
    return (_DECLINED * value if declines(claims) else value), risks, whole


def declines(claims: Sequence[Sentence]) -> bool:
    """Return whether every sentence says that the context has no answer, and little else."""
    return all(
        claim.features["refusal"]
        and not claim.numbers_absent
        and claim.own_words <= _REFUSAL_WORDS[claim.english]
        for claim in claims
    )


def evaluated(record: Record, weigh: Weigh | None = None) -> Evaluation | None:
    """Return how likely the response says something that its context does not support.

    The context are the retrieved chunks and what tools returned.

    The value lies between 0 and 1 and is near 1 if much of the response has no support. An answer
    that claims nothing, such as a refusal, is near 0. The value is ``None`` if response and context
    are in different languages.

    Formula: each sentence gets features (the share of its words, numbers, units and word pairs that
    the context lacks, and others), and a model made of one step function per feature gives its
    risk. A second model of the same kind gives the risk of the response from the features of its
    sentences. Both were fitted on human span labels (see ``benchmarks/quality/risk_train.py``), so
    compare ranks between applications and not values.

    Metadata: ``unsupported_spans`` ([start, end] characters of the response), ``numbers_absent``
    (as written), ``sentences`` (their number), ``language`` (``en``; ``other`` means that only
    features that hold in every language were used), and ``response_capped`` or ``context_capped``
    if the text was too long to be read to its end.
    """
    answer = record.response
    evidence = evidence_of(record)
    if not isinstance(answer, str) or evidence is None:
        return None
    reference = compare(_text.question(record), _text.passages(evidence), answer)
    if reference is None:
        why = "response and context are in different languages, so their words cannot be compared"
        return Evaluation(NAME, None, None, why, None, {"language": "other"})
    measured = sentences(answer, reference)
    metadata: dict[str, Any] = {
        "unsupported_spans": [],
        "numbers_absent": [],
        "sentences": len(measured),
        "language": "en" if reference.english else "other",
    }
    if reference.context.capped:
        metadata["context_capped"] = True
    if measured and measured[-1].end < len(answer.rstrip()):
        metadata["response_capped"] = True
    spoken = "english" if reference.english else "other"
    models = (
        _words.model("groundedness", f"{spoken}_sentence"),
        _words.model("groundedness", f"{spoken}_response"),
    )
    value, risks, features = score(measured, models)
    if weigh is not None and features:
        value, about = weigh(metadata["language"], value, features)
        metadata |= about
    claims = [claim for claim in measured if claim.features["content"]]
    if declines(claims):
        why = "the response declines to answer" if claims else "the response claims nothing"
        return Evaluation(NAME, round(value, 5), None, why, None, metadata)
    least = _words.data("groundedness")["span_threshold"]
    stated = _stated(answer, _text.passages(evidence)) if len(claims) == 1 else None
    if stated is not None:
        how = _HOW.get(stated, "in another form")
        why = f"the response is one value, which the context has {how}"
        return Evaluation(NAME, round(_DECLINED * value, 5), None, why, None, metadata)
    spans = [
        [claim.start, claim.end]
        for claim, risk in zip(measured, risks, strict=True)
        if risk >= (least / 2 if claim.numbers_absent else least)  # a missing figure is evidence
    ]
    absent = dict.fromkeys(number for claim in measured for number in claim.numbers_absent)
    metadata["unsupported_spans"] = spans[:_MAX_SHOWN]
    metadata["numbers_absent"] = list(absent)[:_MAX_SHOWN]
    uncompared = _uncompared(answer[:MAX_CHARACTERS])
    if uncompared:
        metadata["not_compared"] = uncompared[:_MAX_SHOWN]
    explanation = _explain(len(spans), len(measured), metadata["numbers_absent"], uncompared)
    return Evaluation(NAME, round(value, 5), None, explanation, None, metadata)


# An answer that is one value is looked for as the scores of extractions look for values, so that
# what they find in another form, such as a date, is not called absent here.

_MAX_VALUE, _MAX_VALUE_WORDS = 60, 6
_MAX_SEARCHED = 40_000
"""Characters of the context in which a value is looked for."""
_HOW = {
    "verbatim": "as it is", "aligned": "nearly as it is", "number": "as a number",
    "money": "as an amount", "unit": "as a quantity", "date": "as a date", "code": "by its name",
}  # fmt: skip


def _stated(answer: str, passages: Sequence[str]) -> str | None:
    """Return how the context has an answer that is one value; ``None`` for any other answer."""
    value = answer.strip().rstrip(".")
    if len(value) > _MAX_VALUE or value.count(" ") >= _MAX_VALUE_WORDS or "\n" in value:
        return None
    with loading:
        from llmeval_sdk.text.support import EvidenceText, find

    budget = WorkBudget()
    with suppress(TooLargeError):
        stated = find(value, EvidenceText("\n".join(passages)[:_MAX_SEARCHED], budget))
        return None if stated is None or stated.how == "unsupported" else stated.how
    return None


_WORD = re.compile(r"\w{2,6}[nN]['\u2019][tT]\b|\w+")
_UNCOMPARED = _words.words(
    """
    not no never none nobody nothing without cannot neither nor all every only always most
    nicht nie alle nur pas jamais tous toutes seulement nunca todos todas solamente
    mai tutti soltanto niet geen nooit alleen n\u00e3o
    """
)
_INFLECTED = re.compile(r"kein\w{0,2}|ning\w{2,4}|nenhum\w?|\w+['\u2019]t")
_INFLECTED_BEGIN = frozenset(("kei", "nin", "nen"))


def _uncompared(answer: str) -> list[str]:
    """Return its negations and quantifiers: words and figures are compared, not what they say."""
    words: dict[str, None] = {}
    for word in dict.fromkeys(_WORD.findall(answer)):
        plain = word.casefold()
        if plain in _UNCOMPARED or (
            (plain[:3] in _INFLECTED_BEGIN or not plain.isalnum()) and _INFLECTED.fullmatch(plain)
        ):
            words[word.lower()] = None
    return list(words)


def _explain(unsupported: int, count: int, absent: list[str], uncompared: list[str]) -> str:
    summary = f"{unsupported} of {count} sentences look unsupported by the context"
    if absent:
        summary += f"; numbers it does not have: {', '.join(absent[:5])}"
    if uncompared:
        summary += f"; not compared: {', '.join(map(repr, uncompared[:3]))}"
    return summary


groundedness_risk = FunctionHeuristic(
    evaluated,
    NAME,
    version="3",
    needs=("response", f"retrieved_context|{TOOL_RESULTS}"),
    applies=has_no_fields,
)
