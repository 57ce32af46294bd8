"""The weighted sum of the features, and which of them speak loudest."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from math import log1p, log2
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from llmeval_sdk.heuristics._reading import chunk_number, key, number, side
from llmeval_sdk.heuristics.aggregated_confidence import (
    OTHERWISE,
    WORDS,
    aggregated_confidence,
    runs_code,
)
from llmeval_sdk.heuristics.extraction._answer import (
    IN_ROW,
    NONE,
    asked_documents,
    documents_of_reading,
    siblings,
    usual_document,
)
from llmeval_sdk.heuristics.extraction._fit import measure_fit
from llmeval_sdk.heuristics.extraction._missed import Items, Missed, missed
from llmeval_sdk.heuristics.extraction._sums import measure_sums
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Record
from llmeval_sdk.model.chat import parts_without_text
from llmeval_sdk.model.documents import sources_of
from llmeval_sdk.model.structure import (
    Field,
    Fields,
    config_of,
    fields_of,
    is_extraction,
    path_of_single,
    records_of_fields,
)
from llmeval_sdk.model.values import ABSTAINED, NOT_CHECKED
from llmeval_sdk.text.budget import TooLargeError, WorkBudget
from llmeval_sdk.text.cues import cues
from llmeval_sdk.text.extraction import (
    MAX_SHOWN,
    MAX_VALUES,
    Passages,
    Reading,
    passages_of,
    read,
    values_of,
)
from llmeval_sdk.text.labels import GROUPS
from llmeval_sdk.text.values import FREE_FORM, abstained, items, normal, text_of


# What the extractions say together: how many agree on the value, how surely, from where.

MAX_EXTRACTIONS = 200
_UNKNOWN = 0.7
"""Confidence of an extraction that does not say how sure it is."""
_ONE_VOTE = {"against": 0.0, "split": 0.5, "lone": 1.0, "few_sources": 0.5, "outvoted": 0.0}


def measure_votes(record: Record, reading: Reading, confidence: float) -> dict[str, float]:
    """Compare the extractions with the value that was settled on.

    ``confidence`` is the aggregated one. What is returned:
    ``against``: weighted share of the extractions that have another value. ``split``: how little
    the value leads the next one. ``lone``: there is one extraction, or none. ``few_sources``: the
    value comes from few chunks. ``outvoted``: another value has more weight. ``unsure``: 1 - the
    aggregated confidence. ``unsure_self``: 1 - the highest confidence of one with this value.
    """
    weights: dict[str, float] = {}
    sources: set[int] = set()
    mine, surest, count = 0.0, 0.0, 0
    for extraction in (record.extractions or ())[:MAX_EXTRACTIONS]:
        if abstained(extraction.value):
            continue
        count += 1
        sure = _confidence(extraction)
        if agrees(extraction, reading):
            mine += sure
            surest = max(surest, sure)
            cited = chunk_number(extraction.chunk_number)
            if cited is not None:
                sources.add(cited)
        else:
            other = normal(extraction.value)
            weights[other] = weights.get(other, 0.0) + sure
    features = {
        "unsure": 1 - confidence,
        "unsure_self": 1 - surest if count else 1 - _UNKNOWN,
    }
    if count <= 1:
        return {**features, **_ONE_VOTE}
    rest = sum(weights.values())
    total = mine + rest
    most = max(weights.values(), default=0.0)
    return {
        **features,
        "against": rest / total if total else 0.5,
        "split": 1 - max(0.0, mine - most) / total if total else 1.0,
        "lone": 0.0,
        "few_sources": 1 - min(1.0, log2(1 + len(sources)) / 2),
        "outvoted": float(most > mine),
    }


def agrees(extraction: Extraction, reading: Reading) -> bool:
    """Say whether an extraction has this value, alone or among the items of a list."""
    value = extraction.value
    if normal(value) == reading.form:
        return True
    is_single = value is None or isinstance(value, (str, int, float))
    return not is_single and any(normal(item) == reading.form for item in items(value))


def _confidence(extraction: Extraction) -> float:
    sure = number(extraction.confidence)
    if sure is not None:
        return min(max(sure, 0.0), 1.0)
    if isinstance(extraction.confidence, str):
        return WORDS.get(extraction.confidence.strip().upper(), _UNKNOWN)
    return _UNKNOWN


# Where a value comes from: the rank of its chunk, who found that, and the words on its line.

_QUALIFIERS = """
sub subtotal tax gst vat change cash tendered discount rounding adj adjustment deposit
paid previous former formerly old older deprecated dropped removed until unlike example
sample estimated approx except excluding excl net gross per each unit qty birth
draft amended superseded cancelled void not no never
"""
QUALIFIERS = frozenset(_QUALIFIERS.split())
"""Words beside a value that make it another value, unless the field itself has them."""
_BEFORE = 60
_UNKNOWN_RANK = 0.3
_EXACT = frozenset(
    ("date", "year", "money", "percent", "number", "quantity", "version", "code", "email")
)
"""Kinds of values that are found however the passages write them. A name may be spelt otherwise,
and a licence or a country be told by other words."""
_WORD_OF_LINE = re.compile(r"[^\W\d_]+")


def _measure_place(record: Record, reading: Reading) -> dict[str, float]:
    """Look at the chunk that a value comes from, and at its line.

    ``absent``: the value stands in no passage. ``absent_exact``: the same of a date, a number or
    another value that is found in any form. ``inexact``: the passages have most of its words, and
    not all or not in this spelling. ``uncited``: it stands in no chunk that its
    extractions cite, or only in what they quote. ``low_rank``: its chunk was ranked low.
    ``one_side``: only one retrieval method found that chunk although two took part. ``low_score``:
    its score beside the best of its method. ``qualified``: a word on its line, such as "subtotal",
    says that it is something else.
    """
    chunks = sources_of(record) or ()
    cited = {
        place
        for extraction in (record.extractions or ())[:MAX_EXTRACTIONS]
        if (place := chunk_number(extraction.chunk_number)) is not None
        and place <= len(chunks)
        and agrees(extraction, reading)
    }
    standing = {reading.passages.number_at(start) for start, _ in reading.spans}
    first = min(cited or standing - {0}, default=0)
    chunk = chunks[first - 1] if first else None
    is_absent = reading.is_checked and not reading.spans and bool(reading.passages.text)
    return {
        "absent": float(is_absent),
        "absent_exact": float(is_absent and reading.kind in _EXACT),
        "inexact": float(reading.is_inexact),
        "uncited": float(bool(chunks and standing) and not _meet(cited, standing, chunks)),
        "low_rank": min(1.0, (first - 1) / 10) if first else _UNKNOWN_RANK,
        "one_side": _one_side(chunk, chunks),
        "low_score": _low_score(chunk, chunks),
        "qualified": _qualified(record, reading),
    }


def _meet(cited: set[int], standing: set[int], chunks: Sequence[Chunk]) -> bool:
    """Say whether a cited chunk has the text of one in which the value stands."""
    if not cited:
        return any(0 < place <= len(chunks) for place in standing)
    texts = {key(chunks[place - 1].content) for place in standing if 0 < place <= len(chunks)}
    return any(key(chunks[at - 1].content) in texts for at in cited)


def _one_side(chunk: Chunk | None, chunks: Sequence[Chunk]) -> float:
    if chunk is None:
        return 0.0
    sides = {side(other.retrieval_method) for other in chunks} - {None}
    if len(sides) < 2:
        return 0.0
    own = {
        side(other.retrieval_method)
        for other in chunks
        if key(other.chunk_id) == key(chunk.chunk_id) and key(other.content) == key(chunk.content)
    }
    return float(len(own) == 1)


def _low_score(chunk: Chunk | None, chunks: Sequence[Chunk]) -> float:
    mine = number(chunk.score) if chunk is not None else None
    if chunk is None or mine is None:
        return 0.0
    method = key(chunk.retrieval_method)
    scores = (number(other.score) for other in chunks if key(other.retrieval_method) == method)
    best = max((score for score in scores if score is not None), default=0.0)
    return 1 - mine / best if 0 <= mine <= best and best > 0 else 0.0


def _qualified(record: Record, reading: Reading) -> float:
    if reading.best is None:
        return 0.0
    start = reading.best[0]
    lowered = reading.passages.lowered
    first = max(lowered.rfind("\n", 0, start) + 1, start - _BEFORE)
    if not lowered[first:start].strip():  # on a line of its own: its label stands above
        first = max(lowered.rfind("\n", 0, max(0, first - 1)) + 1, start - _BEFORE)
    beside = QUALIFIERS.intersection(_WORD_OF_LINE.findall(lowered[first:start]))
    own = [stem for stem, _ in cues(record.field_config, record.request)] if beside else []
    return float(any(not any(word.startswith(stem) for stem in own) for word in beside))


# How a value stands among its rivals: the cues beside each, their number, how often they stand.

FULL_CUE = 1.2
"""The cues beside a value seldom add up to more."""
_BESIDE = 60
"""Characters around a value in which a rival counts as beside it."""


def _measure_rivalry(reading: Reading) -> dict[str, float]:
    """Compare a value with the other values of its kind.

    ``rival_nearer``: how much more the field's cue words speak for the best rival than for the
    value; 0.5 is as much. ``no_cue``: no cue stands near the value. ``outnumbered``: a rival stands
    more often. ``opposed``: there is a rival; ``crowded``: there are many; ``crowded_line``: many
    stand beside the value.
    """
    rivals = reading.rivals
    has_cues = bool(reading.marks.starts)
    best = rivals[0].cue if rivals else 0.0
    lead = (best - reading.cue) / FULL_CUE if has_cues else 0.0
    if reading.kind in FREE_FORM:  # any capitalised word could be a name: their number says nothing
        return {
            "rival_nearer": 0.5 + max(-0.5, min(0.5, lead / 4)),
            "no_cue": 1 - min(1.0, reading.cue / FULL_CUE) if has_cues else 0.5,
        }
    often = max((rival.times for rival in rivals), default=0)
    return {
        "rival_nearer": 0.5 + max(-0.5, min(0.5, lead / 2)),
        "no_cue": 1 - min(1.0, reading.cue / FULL_CUE) if has_cues else 0.5,
        "outnumbered": often / (often + len(reading.spans)) if often else 0.0,
        "opposed": float(bool(rivals)),
        "crowded": min(1.0, log1p(len(rivals)) / 4),
        "crowded_line": min(1.0, log1p(_beside(reading)) / 2),
    }


def _beside(reading: Reading) -> int:
    if reading.best is None:
        return 0
    start, end = reading.best
    return sum(start - _BESIDE <= rival.start <= end + _BESIDE for rival in reading.rivals)


def _measure_label(reading: Reading) -> dict[str, float]:
    """Compare the label that a value stands under with what its field asks for.

    ``no_own_label``: a label of the passages names the field, and the value does not stand under
    it. ``other_label``: the value stands under a label that names another thing of its kind.
    ``rival_labelled``: another value of its kind stands under the field's label in its place.
    """
    is_period = reading.kind == "quantity" and reading.concept in GROUPS["date"]
    is_clause = reading.kind == "text" and reading.concept in _TYPED
    if reading.stands_under_own or is_period or is_clause:  # "for three years" may say when it ends
        return {}
    rivals = reading.rivals
    return {
        "no_own_label": float(reading.is_labelled),
        "other_label": float(reading.label is not None),
        "rival_labelled": float(bool(rivals) and rivals[0].label is not None),
    }


_TYPED = frozenset((*GROUPS["amount"], *GROUPS["date"], *GROUPS["count"]))
"""Concepts whose values are figures. What stands above a whole clause says nothing of those."""


def _measure_section(reading: Reading) -> dict[str, float]:
    """Compare the heading above a value with the headings of the other sections.

    ``other_section``: how much more another heading is about the field. ``foreign_section``: the
    heading above the value has no word of the field.
    """
    sections, scores = reading.marks.sections, reading.marks.headings
    if reading.best is None or not scores:
        return {}
    own = sections.at(reading.best[0])
    if own < 0 or not sections.headings[own]:
        return {}
    return {
        "other_section": max(scores) - scores[own],
        "foreign_section": float(not scores[own]),
    }


@dataclass(frozen=True)
class RiskModel:
    """What every feature weighs, and its mean over the labelled data."""

    bias: float
    weights: Mapping[str, float]
    means: Mapping[str, float]

    def weigh(self, features: Mapping[str, float], most: int = 4) -> tuple[float, list[str]]:
        """Return the probability, 0..1, that a value is wrong, and what raises it most.

        These are the features that add most to what is usual; one that is absent is 0.
        """
        weights, usual = self.weights, self._usual
        logit = self.bias
        raised = []
        for name, value in features.items():
            if value and name in weights:
                added = weights[name] * value
                logit += added
                if (by := added - usual[name]) > _RAISES:
                    raised.append((by, name))
        raised.sort(key=_strength, reverse=True)
        chance = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))
        return chance, [name for _, name in raised[:most]]

    @cached_property
    def _usual(self) -> Mapping[str, float]:
        """What each feature usually adds."""
        return {name: weight * self.means.get(name, 0.0) for name, weight in self.weights.items()}


_strength = itemgetter(0)
_RAISES = 0.05
"""A feature is named as a reason if it adds more than this to the logit."""


@lru_cache(None)
def shipped() -> RiskModel:
    """Read the weights that come with the package."""
    text = (files("llmeval_sdk.heuristics.extraction") / "data" / "extraction.json").read_text(
        encoding="utf-8"
    )
    data = json.loads(text)
    return RiskModel(data["bias"], data["weights"], data["means"])


def features(
    record: Record,
    reading: Reading,
    *,
    elsewhere: bool = False,
    together: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Compute the features of one extracted value.

    ``elsewhere`` says that it stands in another document than the one that was asked about, and
    ``together`` holds what the other fields of its answer say. Each lies between 0 and 1, and a
    high one is more common among wrong values.
    """
    confidence = aggregated_confidence(record)
    sure = confidence.value if isinstance(confidence.value, float) else OTHERWISE
    measured = {
        **measure_votes(record, reading, sure),
        **_measure_rivalry(reading),
        **_measure_label(reading),
        **_measure_section(reading),
        **measure_sums(reading),
        "other_document": float(elsewhere),
        "other_document_exact": float(elsewhere and reading.kind in _EXACT),
        **together,
        **measure_fit(record, reading, fits=confidence.metadata.get("format_valid")),
        **_measure_place(record, reading),
    }
    if reading.stands_under_own:
        measured |= {"no_cue": 0.0, "rival_nearer": min(measured["rival_nearer"], 0.5)}
    elif together.get(IN_ROW):
        measured |= {name: min(measured[name], 0.5) for name in ("no_cue", "rival_nearer")}
    return measured


NAME = "extraction_risk"


@dataclass(frozen=True)
class ExtractionRisk:
    """Score 0..1, near 1 where an extracted value is probably wrong.

    Reads what every record of an extraction has: whether the extractors agree and how sure they
    are, which other values of the same kind stand in the passages and whether the field's cue words
    stand nearer to one of those, how the value fits its field, where it comes from, and what the
    field's values usually look like in this app. The score is a chance where one value in ten is
    wrong; where the share is another one, compare ranks and not values.

    The cue words come from ``field_config`` (``name``, ``description``, and ``cues`` for more) and
    from the request. A list or table is as risky as its riskiest item. A record without a value has
    no risk: its label is ``abstained`` and `abstention_risk` says how likely a value was missed.

    A structured answer (`llmeval_sdk.model.structure`) is read field by field, with the names of
    its fields as cue words, and gets one score: that of its worst field. A field without a value
    is wrong with a chance of 0.9 where the passages state one under the field's label. What nothing
    could be compared with has no score but the label ``not_checked`` and the reason.

    Metadata: ``fields``, the worst one first, each with ``path``, ``value``, ``chance`` (``None``
    where it was not checked), ``reason``, ``kind``, and for the worst of them ``chunk_number``,
    ``start`` and ``end`` in that chunk, ``evidence`` and ``rival``; ``worst_field``,
    ``expected_wrong`` (the sum of the chances), ``fields_checked``, ``fields_not_checked`` and
    ``fields_cut``. Of the worst field also ``rival`` and ``rivals`` (the values that compete,
    strongest first, each with ``value``, ``chunk_number`` and ``evidence``), ``kind``, ``reasons``
    (the features that raise the risk most), ``value`` (the riskiest item of several), and
    ``values_cut`` or ``passages_cut`` where not everything was read.
    """

    weights: RiskModel | None = None
    """What takes the place of the shipped weights, for training."""
    kind: Literal["heuristic"] = "heuristic"
    name: str = NAME
    version: str = "3"
    needs: tuple[str, ...] = ("extractions|field_config|value|response",)
    inline: bool = False
    automatic: bool = True

    def applies(self, record: Record) -> bool:
        """Say whether the record holds what was extracted, and not only an answer in prose."""
        return is_extraction(record)

    def evaluate(self, record: Record, /) -> Evaluation:
        """Score one record."""
        fields = fields_of(record)
        if fields.fields:
            return self._evaluate_fields(record, fields)
        values = values_of(record)
        if not values:
            return Evaluation(NAME, None, ABSTAINED, "the app gave no value")
        sources = sources_of(record) or ()
        among = _Sources(sources, asked_documents(record, sources))
        readings = _read_asked(record, among.asked, _Joined())
        if not readings:
            return Evaluation(NAME, None, NOT_CHECKED, _nothing_to_compare(record))
        if len(record.extractions or ()) < 2:  # else they are compared with each other
            reason = _unchecked_reason(record, readings)
            if reason is not None:
                return Evaluation(NAME, None, NOT_CHECKED, reason)
            readings = [reading for reading in readings if reading.is_checked]
        measured = [self._measure(record, reading, among) for reading in readings]
        worst = max(measured, key=lambda one: one.chance)
        metadata = worst.described()
        if len(measured) > 1:
            metadata["value"] = worst.reading.value[:_SHOWN]
        if len(values) > MAX_VALUES:
            metadata["values_cut"] = True
        entry = worst.entry(path_of_single(record))
        metadata |= _summary([entry | ({"values_cut": True} if "values_cut" in metadata else {})])
        return Evaluation(NAME, worst.chance, None, worst.reason, None, metadata)

    def _measure(
        self,
        record: Record,
        reading: Reading,
        sources: _Sources,
        together: Mapping[str, float] = MappingProxyType({}),
    ) -> Measured:
        weights = self.weights or shipped()
        elsewhere = sources.elsewhere(reading)
        vector = features(record, reading, elsewhere=elsewhere is not None, together=together)
        chance, reasons = weights.weigh(vector)
        return Measured(reading, round(chance, 4), reasons, elsewhere)

    def _evaluate_fields(self, record: Record, fields: Fields) -> Evaluation:
        """Score each field of a structured answer as an answer of its own, in the same passages."""
        sources = sources_of(record) or ()
        if not sources:  # true of all answers of many an app: their fields would only take room
            count = {"fields_checked": 0, "fields_not_checked": len(fields.fields)}
            return Evaluation(NAME, None, NOT_CHECKED, _nothing_to_compare(record), None, count)
        asked = asked_documents(record, sources)
        budget = WorkBudget()
        entries: list[dict[str, Any]] = []
        readings: list[tuple[Field, Record, list[Reading]]] = []
        empty: list[tuple[Field, Record]] = []
        joined = _Joined(budget)
        singles = records_of_fields(record, fields.fields, sources)
        for one, single in zip(fields.fields, singles, strict=True):
            if abstained(one.value):
                empty.append((one, single))
                continue
            try:
                budget.spend(0)  # raises once it was overdrawn
                values = _read_asked(single, asked, joined)
                budget.spend(_UNITS_OF_FIELD + sum(_UNITS_OF_RIVAL * len(v.rivals) for v in values))
                reason = _unchecked_field_reason(record, values)
            except TooLargeError:  # from here on, so that no answer holds up those behind it
                values, reason = [], _TOO_MUCH
            if reason is None:
                readings.append((one, single, [value for value in values if value.is_checked]))
            else:
                entries.append(_unchecked(one, reason))
        if not asked:
            asked = usual_document((values[0] for _, _, values in readings), sources)
        among = _Sources(sources, asked)
        together = siblings([(one.path, values[0]) for one, _, values in readings])
        measured: list[tuple[str, Measured | Missed]] = [
            (one.path, self._worst(single, values, among, said))
            for (one, single, values), said in zip(readings, together, strict=True)
        ]
        if empty:
            measured += _missed_values(empty, readings, joined, asked)
            stated = {path for path, _ in measured}
            absent = (one for one, _ in empty if one.path not in stated)
            entries += [_unchecked(one, "the answer has no value") for one in absent]
        if not measured:
            reason = entries[0]["reason"] if entries else _nothing_to_compare(record)
            summary = _summary(entries, cut=fields.left_out)
            return Evaluation(NAME, None, NOT_CHECKED, reason, None, summary)
        measured.sort(key=lambda pair: -pair[1].chance)
        cut = {
            one.path
            for one, single, _ in readings
            if not isinstance(one.value, (str, float)) and len(values_of(single)) > MAX_VALUES
        }
        entries = [
            answer.entry(path, short=place >= _MAX_DETAILED)
            | ({"values_cut": True} if path in cut else {})
            for place, (path, answer) in enumerate(measured)
        ] + entries
        path, worst = measured[0]
        metadata = worst.described() | _summary(entries, cut=fields.left_out)
        why = f"{path}: {worst.reason}" if worst.reason else path
        return Evaluation(NAME, worst.chance, None, why, None, metadata)

    def _worst(
        self,
        record: Record,
        values: list[Reading],
        sources: _Sources,
        together: Mapping[str, float],
    ) -> Measured:
        """Return the value of a field that is most probably wrong."""
        measured = [self._measure(record, value, sources, together) for value in values]
        return max(measured, key=lambda one: one.chance)

    __call__ = evaluate

    def postponed(self, record: Record, /) -> bool:
        """Say whether the field's format is code of the app, which runs aside."""
        return runs_code(record)


_SHOWN = 200
_TOO_MUCH = "the answer and its passages take more work than one score may do"
_UNITS_OF_FIELD, _UNITS_OF_RIVAL = 3_000, 40
"""Work of scoring one field, and what each of its rivals adds, as `text.budget` counts it."""
_MAX_DETAILED = 30
"""The metadata give place and rival for so many fields of an answer, the worst ones."""


class Measured(NamedTuple):
    """The chance that a value is wrong, and the reasons."""

    reading: Reading
    chance: float
    reasons: list[str]
    elsewhere: str | None = None
    """A sentence about the other document in which the value stands, if it is in one."""

    @property
    def reason(self) -> str | None:
        """The most telling reason in a sentence."""
        if self.elsewhere is not None:
            return self.elsewhere
        telling = next((reason for reason in self.reasons if reason not in _GENERAL), None)
        return explain(telling or self.reasons[0], self.reading) if self.reasons else None

    def described(self) -> dict[str, Any]:
        """Return kind, reasons and rivals, as the metadata of a score have them."""
        metadata: dict[str, Any] = {"kind": self.reading.kind, "reasons": self.reasons}
        if self.reading.rivals:
            shown = [self.reading.shown(rival) for rival in self.reading.rivals[:MAX_SHOWN]]
            metadata |= {"rival": shown[0], "rivals": shown}
        if self.reading.passages.cut:
            metadata["passages_cut"] = True
        return metadata

    def entry(self, path: str, *, short: bool = False) -> dict[str, Any]:
        """Return what the metadata of a score say about one field."""
        reading = self.reading
        entry: dict[str, Any] = {
            "path": path,
            "value": reading.value[:_SHOWN],
            "chance": self.chance,
            "checked": reading.is_checked,
            "reason": self.reason,
            "kind": reading.kind,
        }
        if short:
            return entry
        if reading.best is not None:
            entry |= reading.passages.located(reading.value, *reading.best)
        if reading.rivals:
            rival = reading.rivals[0]
            entry["rival"] = reading.passages.located(rival.value, rival.start, rival.end)
        return entry


class _Joined:
    """The passages of an answer, joined once for all of its fields."""

    def __init__(self, budget: WorkBudget | None = None) -> None:
        self.budget = budget or WorkBudget()
        self._known: dict[tuple[str, frozenset[str]], Passages] = {}

    def of(self, record: Record, documents: frozenset[str]) -> Passages:
        """Return the passages of a field in some documents, or in all where none is named."""
        locale = config_of(record).get("locale")
        key = locale if isinstance(locale, str) else "", documents
        passages = self._known.get(key)
        if passages is None:
            passages = self._known[key] = passages_of(record, documents, self.budget)
        passages.spend_from(self.budget)  # another answer may have read the same passages
        return passages


def _read_asked(record: Record, asked: frozenset[str], joined: _Joined) -> list[Reading]:
    """Read values in the documents that were asked about, and in all documents where they fail.

    A value that stands in none of the former is read in the others, so that its place is known.
    """
    readings = read(record, passages=joined.of(record, asked))
    if asked and not all(reading.spans for reading in readings):
        pairs = zip(readings, read(record, passages=joined.of(record, NONE)), strict=True)
        readings = [other if not own.spans and other.spans else own for own, other in pairs]
    return readings


def _missed_values(
    empty: Sequence[tuple[Field, Record]],
    readings: Sequence[tuple[Field, Record, list[Reading]]],
    joined: _Joined,
    asked: frozenset[str],
) -> Iterator[tuple[str, Missed]]:
    """Yield what the passages state for fields without a value, with their paths."""
    claimed = {value.form for _, _, values in readings for value in values}
    items = Items([(one.path, values[0]) for one, _, values in readings])
    with suppress(TooLargeError):
        for one, single in empty:
            joined.budget.spend(_UNITS_OF_FIELD)
            value = missed(one, joined.of(single, asked), claimed, items)
            if value is not None:
                yield one.path, value


class _Sources(NamedTuple):
    """The passages of an answer, and the documents among them that it is expected from."""

    chunks: Sequence[Chunk]
    asked: frozenset[str]

    def elsewhere(self, reading: Reading) -> str | None:
        """Say which other document a value stands in; ``None`` if it is in one asked about."""
        if not self.asked or not reading.spans:
            return None
        documents = documents_of_reading(reading, self.chunks)
        if not documents or documents & self.asked:
            return None
        there, here = (
            " and ".join(sorted(map(repr, names))[:2])[:_SHOWN] for names in (documents, self.asked)
        )
        return f"it stands in {there}, and the question is about {here}"


def _unchecked_reason(answer: Record, values: Sequence[Reading]) -> str | None:
    """Return why none of some values can be checked in the passages; ``None`` if one can."""
    if not values or not values[0].passages.text:
        return _nothing_to_compare(answer)
    if any(reading.is_checked for reading in values):
        return None
    is_boolean = any(reading.kind == "boolean" for reading in values)
    return "no yes or no stands in the passages" if is_boolean else _TOO_MUCH


def _unchecked_field_reason(answer: Record, values: list[Reading]) -> str | None:
    """Return why a field of a structured answer cannot be checked; ``None`` if it can."""
    reason = _unchecked_reason(answer, values)
    if reason is not None:
        return reason
    checked = (reading for reading in values if reading.is_checked)
    is_prose = all(reading.kind == "text" and not reading.spans for reading in checked)
    return "it is free text in words of its own" if is_prose else None


def _unchecked(field: Field, reason: str) -> dict[str, Any]:
    value = text_of(field.value)[:_SHOWN]
    return {"path": field.path, "value": value, "chance": None, "checked": False, "reason": reason}


def _summary(entries: list[dict[str, Any]], *, cut: int = 0) -> dict[str, Any]:
    chances = [entry["chance"] for entry in entries if entry["chance"] is not None]
    summary = {
        "fields": entries,
        "expected_wrong": round(sum(chances), 4),
        "fields_checked": len(chances),
        "fields_not_checked": len(entries) - len(chances),
    }
    if chances:
        summary["worst_field"] = entries[0]["path"]
    if cut:
        summary["fields_cut"] = cut
    return summary


def _nothing_to_compare(record: Record) -> str:
    """Say why nothing could be compared with a value; images are named, since nobody reads them."""
    unread = parts_without_text(record.request)
    if unread:
        named = ", ".join(f"{count} {kind}" for kind, count in sorted(unread.items()))
        return (
            f"the request has parts that are not read ({named}), and no passage stands beside them"
        )
    return "there is neither a passage nor a second extraction to compare the value with"


_GENERAL = ("free_form", "opposed", "crowded", "lone")
"""True of many values of a field: told only where nothing more telling raises the risk."""
_WHY: Mapping[str, str] = {
    "against": "other extractions have another value",
    "split": "the extractions are divided",
    "lone": "only one extraction supports it",
    "few_sources": "it comes from few chunks",
    "outvoted": "another value has more votes",
    "unsure": "the aggregation is not sure of it",
    "unsure_self": "its extraction is not sure of it",
    "no_cue": "nothing near it names the field",
    "outnumbered": "another {kind} stands more often in the passages",
    "opposed": "there is another {kind} in the passages",
    "crowded": "the passages hold many values of its kind",
    "crowded_line": "other values of its kind stand right beside it",
    "wrong_format": "it does not have the format of its field",
    "wrong_kind": "a {kind} is not what the field's name calls for",
    "free_form": "it is free text, which nothing can check",
    "cut_off": "the source text continues after the value",
    "incomplete": "the text has more of it",
    "overlong": "another sentence came along with it",
    "has_label": "it begins with a label",
    "long": "it is longer than one value usually is",
    "common": "it is made of common words",
    "unrelated": "another address fits the request better",
    "absent": "it stands in none of the passages",
    "absent_exact": "it stands in none of the passages, in no form",
    "inexact": "the passages have it in other words or another spelling",
    "uncited": "it stands in no chunk that its extractions cite",
    "low_rank": "its chunk was ranked low",
    "one_side": "only one retrieval method found its chunk",
    "low_score": "its chunk scored far below the best",
    "qualified": "a word on its line says that it is something else",
    "shared": "another field has the same value, which stands in fewer places than fields have it",
    "shared_unlabelled": "another field has the same value, and no label here names this field",
    "does_not_add_up": "it does not add up with other fields of the answer",
    "exceeded": "other amounts of the document are greater",
    "no_sum": "it is no sum of other amounts of the document",
    "is_label": "it reads as a label and not as a name",
    "foreign_line": "a label, a date, a link or the number of a company came along with it",
    "no_legal_form": "it has no legal form of a company, and another line has one",
    "far_down": "it stands far from the top of the document",
    "no_address": "it has no figures, as an address has",
    "off_row": "it stands on another line than the other values of its item",
    "other_document": "it stands in another document than the one that was asked about",
    "other_document_exact": "it stands in another document than the one that was asked about",
    "no_own_label": "it does not stand under the label of its field",
    "other_section": "another section is about the field",
    "foreign_section": "the heading above it has no word of the field",
}
_KIND_WORDS = {"line": "line of text", "text": "passage", "money": "amount", "url": "address"}


def explain(reason: str, reading: Reading) -> str:
    """Say in a sentence what a feature means for this value."""
    kind = _KIND_WORDS.get(reading.kind, reading.kind)
    text = reading.passages.text
    if reason in ("other_label", "rival_labelled"):
        rival = reading.rivals[0] if reading.rivals else None
        stands = []
        if reason == "other_label" and (label := reading.label) is not None:
            stands.append(f"it stands under {text[label.start : label.end]!r}")
        if rival is not None and (label := rival.label) is not None:
            stands.append(f"{rival.value[:60]!r} stands under {text[label.start : label.end]!r}")
        return ", and ".join(stands)
    if reason == "other_section" and reading.best is not None:
        sections, scores = reading.marks.sections, reading.marks.headings
        own, best = sections.at(reading.best[0]), scores.index(max(scores))
        here, there = sections.headings[own], sections.headings[best]
        return f"it stands under the heading {here!r}, and {there!r} is about the field"
    if reason == "inexact" and reading.best is not None:
        written = " ".join(text[slice(*reading.best)].split())
        return f"the passages have it as {written[:60]!r}"
    if reason == "rival_nearer" and reading.rivals:
        rival = reading.rivals[0]
        word = reading.marks.word(rival.start, rival.end)
        nearer = "stands nearer to" if rival.cue > reading.cue else "stands as near to"
        shown = rival.value if len(rival.value) <= 60 else rival.value[:60] + "…"
        return f"another {kind}, {shown!r}, {nearer} {word!r}"
    return _WHY.get(reason, reason).format(kind=kind)


extraction_risk = ExtractionRisk()
