"""What a Record's texts are, as sections of a judge's prompt."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk._chat import as_text, split_request
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.model import Chunk, Record


__all__ = ["as_text", "context", "expected", "request", "response", "split_request"]


def request(record: Record) -> list[Section]:
    """Return the request's section, after one with the earlier turns where there are any."""
    query, history = split_request(record.request)
    found = [Section("request", query)]
    if history:
        told = "\n".join(f"{role}: {text}" for role, text in history)
        found.insert(0, Section("earlier conversation", told))
    return found


def context(chunks: Sequence[Chunk] | None) -> list[Section]:
    """Return one section per chunk that has text, numbered by rank from 1."""
    return [
        Section(f"chunk {rank}", chunk.content)
        for rank, chunk in enumerate(chunks or (), 1)
        if chunk.content
    ]


def response(record: Record) -> list[Section]:
    """Return the section of what the app answered."""
    return [Section("response", record.response or "")]


def expected(record: Record) -> list[Section]:
    """Return the section of the expected facts, or of the expected response."""
    if record.expected_facts is not None:
        facts = "\n".join(f"{n}. {fact}" for n, fact in enumerate(record.expected_facts, 1))
        return [Section("expected facts", facts)]
    return [Section("expected response", record.expected_response or "")]
