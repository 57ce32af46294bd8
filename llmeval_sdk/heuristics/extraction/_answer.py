"""What stands around one value of an answer: the document asked about, and the other fields."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from llmeval_sdk.heuristics.extraction._sums import contradictions
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.text.extraction import MAX_CHUNKS, MAX_PASSAGE, Reading


NONE: frozenset[str] = frozenset()
_MAX_ASKED = 2_000
_MAX_IDENTIFIERS = 20
_IDENTIFIER = re.compile(r"(?=[^\s,;:!?\"']{0,60}\d)[^\s,;:!?\"'()]{3,60}")
_NAME = re.compile(
    r"[^\W\d_a-z][\w&.'’-]{1,60}(?: [^\W\d_a-z][\w&.'’-]{1,60}){1,4}|[\"“']([^\"”']{3,60})[\"”']"
)
_MIN_FIELDS, _MAJORITY = 4, 0.6
"""How many fields have to stand in one document only, and how many of these in the same one, before
the other fields of the answer are expected there too."""


def asked_documents(record: Record, chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the ``doc_uri`` of each document that a question names; none where it names no one.

    A question names a document by its file, or by an identifier or a name that some of the
    documents have and others have not. The record's attributes count like the question.
    """
    addresses = dict.fromkeys(_address(chunk) for chunk in chunks[:MAX_CHUNKS])
    if len(addresses) < 2 or "" in addresses:
        return NONE
    asked = f"{bounded_question(record.request)}\n{_said(record.attributes)}"[:_MAX_ASKED]
    lowered = asked.lower()
    named = frozenset(address for address in addresses if _is_named(address, lowered))
    if named:
        return named if len(named) < len(addresses) else NONE
    texts: dict[str, str] = dict.fromkeys(addresses, "")
    for chunk in chunks[:MAX_CHUNKS]:
        if isinstance(chunk.content, str):
            texts[_address(chunk)] += f"\n{chunk.content[:MAX_PASSAGE].lower()}"
    votes: Counter[str] = Counter()
    for identifier in _identifiers(asked):
        having = [address for address, text in texts.items() if identifier in text]
        if len(having) < len(texts):
            votes.update(having)
    most = max(votes.values(), default=0)
    return frozenset(address for address, count in votes.items() if count == most)


def _address(chunk: Chunk) -> str:
    return chunk.doc_uri if isinstance(chunk.doc_uri, str) else ""


def _said(attributes: object) -> str:
    values = attributes.values() if isinstance(attributes, Mapping) else ()
    return "\n".join(value[:200] for value in values if isinstance(value, str))


def _is_named(address: str, asked: str) -> bool:
    file = address.rstrip("/").rsplit("/", 1)[-1].lower()
    stem = file.rsplit(".", 1)[0] if "." in file else file
    return len(stem) >= 3 and re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", asked) is not None


def _identifiers(asked: str) -> Iterable[str]:
    names = (match[1] or match[0] for match in _NAME.finditer(asked))
    codes = (match[0].strip(".-/") for match in _IDENTIFIER.finditer(asked))
    every = dict.fromkeys(word.lower() for word in (*codes, *names) if len(word) >= 3)
    return list(every)[:_MAX_IDENTIFIERS]


def documents_of_reading(reading: Reading, chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the ``doc_uri`` of each document in which a value stands."""
    numbers = {reading.passages.number_at(start) for start, _ in reading.spans} - {0}
    return frozenset(_address(chunks[number - 1]) for number in numbers if number <= len(chunks))


def usual_document(readings: Iterable[Reading], chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the ``doc_uri`` of the document that most fields of an answer come from, if any."""
    if len({_address(chunk) for chunk in chunks[:MAX_CHUNKS]}) < 2:
        return NONE
    places = [documents_of_reading(reading, chunks) for reading in readings]
    single = Counter(next(iter(place)) for place in places if len(place) == 1)
    if single.total() < _MIN_FIELDS:
        return NONE
    address, count = single.most_common(1)[0]
    return frozenset((address,)) if address and count >= _MAJORITY * single.total() else NONE


# What the fields of one answer say about each other.

IN_ROW = "in_row"
"""The key that is 1 for a value on one line with others of its item, as in a table. What names its
field stands far away there, at the head of the column."""


def siblings(fields: Sequence[tuple[str, Reading]]) -> list[dict[str, float]]:
    """Compare the fields of an answer, given by path and reading; one mapping of features for each.

    ``shared``: more fields have this value than there are places where it stands, so that at least
    one of them took a neighbour's. ``shared_unlabelled``: the same, and it is not this field that
    the place's label names. ``off_row``: the value of an item stands on no line on which most of
    the item's other values stand. ``does_not_add_up``: sums or dates of the answer contradict it.
    """
    claims = Counter(reading.form for _, reading in fields)
    rows = rows_of(fields)
    wrong = contradictions(fields)
    made = []
    for path, reading in fields:
        shared = bool(reading.spans) and claims[reading.form] > len(reading.spans)
        row, own = rows.get(item_of(path)), _lines(reading)
        has_row = bool(own) and row is not None
        made.append(
            {
                "shared": float(shared),
                "shared_unlabelled": float(shared and not reading.stands_under_own),
                "does_not_add_up": float(path in wrong),
                "off_row": float(has_row and row not in own),
                IN_ROW: float(has_row and row in own),
            }
        )
    return made


def rows_of(fields: Sequence[tuple[str, Reading]]) -> Mapping[str, int]:
    """Find the row of each item: the line that holds most of its values, by where it begins.

    An item has a row if two or more of its values stand on one line.
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for path, reading in fields:
        item = item_of(path)
        if item:
            votes[item].update(_lines(reading))
    usual = {item: lines.most_common(1) for item, lines in votes.items()}
    return {item: most[0][0] for item, most in usual.items() if most and most[0][1] > 1}


def item_of(path: str) -> str:
    """Return the item of a list that a field belongs to: ``lines[2]`` of ``lines[2].amount``."""
    return path[: path.rfind("]") + 1]


def _lines(reading: Reading) -> set[int]:
    text = reading.passages.text
    return {text.rfind("\n", 0, start) + 1 for start, _ in reading.spans}
