"""Which document a question asks about, where passages of several were retrieved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.text.extraction import MAX_CHUNKS, MAX_PASSAGE, Reading


NONE: frozenset[str] = frozenset()
_MAX_ASKED = 2_000
_MAX_IDENTIFIERS = 20
_IDENTIFIER = re.compile(r"(?=[^\s,;:!?\"']*\d)[^\s,;:!?\"'()]{3,60}")
_NAME = re.compile(
    r"[^\W\d_a-z][\w&.'’-]+(?: [^\W\d_a-z][\w&.'’-]+){1,4}|[\"“']([^\"”']{3,60})[\"”']"
)
_MIN_FIELDS, _MAJORITY = 4, 0.6
"""Fields that stand in one document each, and the share of them that one document has to have, so
that the others of the answer are expected in it too."""


def asked_documents(record: Record, chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the addresses of the documents that a question names; empty where it names none.

    It names one by its file, or by an identifier or a name that stands in the passages of some
    documents and not of all. What the record's attributes say counts like the question.
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
    """Return the addresses of the documents that a value stands in."""
    numbers = {reading.passages.number_at(start) for start, _ in reading.spans} - {0}
    return frozenset(_address(chunks[number - 1]) for number in numbers if number <= len(chunks))


def usual_document(readings: Iterable[Reading], chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the document that most fields of an answer come from, where most come from one."""
    if len({_address(chunk) for chunk in chunks[:MAX_CHUNKS]}) < 2:
        return NONE
    places = [documents_of_reading(reading, chunks) for reading in readings]
    single = Counter(next(iter(place)) for place in places if len(place) == 1)
    if single.total() < _MIN_FIELDS:
        return NONE
    address, count = single.most_common(1)[0]
    return frozenset((address,)) if address and count >= _MAJORITY * single.total() else NONE
