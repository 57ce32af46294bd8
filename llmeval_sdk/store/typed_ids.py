"""How the store holds an id of a user or a session that a person typed."""

from __future__ import annotations

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings


def hashed(identifier: str, settings: Settings | None = None) -> str:
    """Return the hash of an id where ids are hashed, by default as the environment says."""
    make = registry.part("llmeval_sdk.redaction.identities:identities")
    identities = make and make(settings or config.from_environment(problems=[]))
    return str(identities.hashed(identifier)) if identities else identifier


def forms(identifier: str) -> list[str]:
    """Return the hash of an id and the id itself, which spans of before that setting may hold."""
    return list(dict.fromkeys((hashed(identifier), identifier)))
