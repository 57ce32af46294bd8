"""How likely a record without a value should have had one: `abstention_risk`."""

from __future__ import annotations

from collections.abc import Mapping

from llmeval_sdk.heuristics.extraction._fit import expected_kinds
from llmeval_sdk.heuristics.extraction._missed import CHANCE
from llmeval_sdk.heuristics.extraction.risk import FULL_CUE, MAX_EXTRACTIONS
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.structure import has_no_fields
from llmeval_sdk.model.values import ABSTAINED
from llmeval_sdk.text.extraction import best_candidate, passages_of, values_of
from llmeval_sdk.text.stated import stated
from llmeval_sdk.text.values import abstained


NAME = "abstention_risk"
_EXTRACTED, _CANDIDATE, _CUE_ONLY = 0.9, 0.8, 0.25
"""How much an extraction with a value, a value of the right kind beside a cue, and a cue with
nothing of a known kind beside it count."""


def _abstention_risk(record: Record) -> Evaluation:
    """Score 0..1, near 1 where a value seems to have been there to be extracted.

    Only for records whose value is absent, empty or a refusal; all others have none. An extraction
    with a value that the aggregation dropped and a value under a label that names the field count
    most, then a value of the field's kind beside its cue words. Metadata: ``candidate``, with its
    ``value``, ``chunk_number`` and ``evidence``. An empty answer is neither good nor bad by itself,
    so no judge is asked about it unless an escalation names this score.
    """
    if values_of(record):
        return Evaluation(NAME, None, None, "the app gave a value")
    if record.extractions is None and record.retrieved_context is None:
        return Evaluation(NAME, None, None, "there is nothing in which a value could stand")
    extracted = next(
        (e for e in (record.extractions or ())[:MAX_EXTRACTIONS] if not abstained(e.value)), None
    )
    config = record.field_config if isinstance(record.field_config, Mapping) else {}
    candidate, cue = best_candidate(record, expected_kinds(config))
    near = min(1.0, cue / FULL_CUE)
    chance = (_CANDIDATE if candidate else _CUE_ONLY) * near
    passages = passages_of(record)
    labelled = stated(passages, config)
    if labelled is not None and chance < CHANCE:
        candidate, chance = passages.shown(*labelled), CHANCE
    if extracted is not None:
        chance = 1 - (1 - chance) * (1 - _EXTRACTED)
        why = "an extraction has a value, but the answer has none"
    elif candidate is not None:
        why = f"{candidate['value'][:60]!r} stands where the field's value could be"
    elif near:
        why = "the passages name the field, but hold nothing that looks like its value"
    elif record.retrieved_context or record.extractions:
        why = "nothing in the passages names the field"
    else:
        why = "nothing was retrieved"
    metadata = {"candidate": candidate} if candidate else {}
    return Evaluation(NAME, round(chance, 4), ABSTAINED, why, None, metadata)


abstention_risk = FunctionHeuristic(
    _abstention_risk,
    NAME,
    version="2",
    needs=("extractions|field_config", "retrieved_context|extractions"),
    applies=has_no_fields,
)
