"""`multi_source_agreement` and `agreement_pattern`: whether several extractions agree."""

from __future__ import annotations

from llmeval_sdk.heuristics._reading import key
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Extraction, Record
from llmeval_sdk.process.loading import loading


VERSION = "2"


def _multi_source_agreement(record: Record) -> Evaluation | None:
    """Return how far the extractions agree on one value.

    The score lies between 0 and 1, rounded to 3 decimals: the number of extractions with the most
    common value, divided by the number of extractions that have a value. It is 1.0 if at most one
    has a value, and ``None`` if the record has no ``extractions``. Empty and false values do not
    count. Spellings of one value are the same, such as ``1 March 2026`` and ``2026-03-01``, or
    ``1,234.50`` and ``1.234,50 EUR``. Metadata: ``unique_values``, the number of different values.
    """
    if record.extractions is None:
        return None
    share, unique = _agreement(record.extractions)
    value, metadata = round(share, 3), {"unique_values": unique}
    name = "multi_source_agreement"
    return Evaluation(name, value, None, None, None, metadata, "heuristic", VERSION)


def _agreement_pattern(record: Record) -> Evaluation | None:
    """Return in a word how far the extractions agree.

    It is made from the unrounded score of `multi_source_agreement`: ``unanimous`` above 0.95,
    ``majority`` above 0.7, ``mixed`` above 0.4, else ``conflicting``.
    """
    if record.extractions is None:
        return None
    share, _ = _agreement(record.extractions)
    if share > 0.95:
        pattern = "unanimous"
    elif share > 0.7:
        pattern = "majority"
    elif share > 0.4:
        pattern = "mixed"
    else:
        pattern = "conflicting"
    name = "agreement_pattern"
    return Evaluation(name, pattern, None, None, None, {}, "heuristic", VERSION)


_last: tuple[object, tuple[float, int]] = ((), (1.0, 0))
"""The extractions that were counted last, and the result, which both scores of a record need."""


def _agreement(extractions: tuple[Extraction, ...]) -> tuple[float, int]:
    """Return the share of the most common value among the truthy ones, and how many differ."""
    global _last  # noqa: PLW0603
    last, counted = _last
    if last is not extractions or type(extractions) is not tuple:  # a tuple cannot change
        counted = _counted(extractions)
        _last = extractions, counted
    return counted


def _counted(extractions: tuple[Extraction, ...]) -> tuple[float, int]:
    global _has_tables  # noqa: PLW0603
    counts = _as_written(extractions)
    total = sum(counts.values())
    if 1 < len(counts) <= _MOST_DIFFERENT:
        counts = _by_form(counts)
        _has_tables = True
    return (max(counts.values()) / total if total > 1 else 1.0), len(counts)


_last_written: tuple[object, dict[object, int]] = ((), {})
"""The extractions whose values were counted last, as they are written, and the counts."""


def _as_written(extractions: tuple[Extraction, ...]) -> dict[object, int]:
    """Return how often each truthy value stands there."""
    global _last_written  # noqa: PLW0603
    last, counts = _last_written
    if last is extractions and type(extractions) is tuple:
        return counts
    counts = {}
    for extraction in extractions:
        value = extraction.value
        if type(value) is not str:
            value = key(value)
        if value:
            counts[value] = counts.get(value, 0) + 1
    _last_written = extractions, counts
    return counts


_MOST_DIFFERENT = 100
"""Where more values than this differ as written, other spellings of one are not looked for."""


def _by_form(counts: dict[object, int]) -> dict[object, int]:
    """Count values by the form that their spellings share; two currencies are two values."""
    with loading:
        from llmeval_sdk.text.values import currency_of, normal

    spellings: dict[str, list[object]] = {}
    for value in counts:
        spellings.setdefault(normal(value), []).append(value)
    forms: dict[object, int] = {}
    for form, values in spellings.items():
        currencies = {value: currency_of(value) for value in values} if len(values) > 1 else {}
        is_one = len({code for code in currencies.values() if code}) <= 1
        for value in values:
            one = (form if is_one else (form, currencies[value])) if form else value
            forms[one] = forms.get(one, 0) + counts[value]
    return forms


_has_tables = False
"""Whether this process has read the tables by which values are compared. That takes 70 ms, so the
worker does it."""


def _reads_tables(record: Record) -> bool:
    """Return whether the scores of a record would read the tables, for the first time."""
    return not _has_tables and len(_as_written(record.extractions or ())) > 1


def _several(record: Record) -> bool:
    return record.extractions is not None and len(record.extractions) > 1


multi_source_agreement = FunctionHeuristic(
    _multi_source_agreement,
    "multi_source_agreement",
    version=VERSION,
    needs=("extractions",),
    inline=True,
    applies=_several,
    postponed=_reads_tables,
)

agreement_pattern = FunctionHeuristic(
    _agreement_pattern,
    "agreement_pattern",
    version=VERSION,
    needs=("extractions",),
    inline=True,
    applies=_several,
    postponed=_reads_tables,
    output=("unanimous", "majority", "mixed", "conflicting"),
)
