"""Ids of users and sessions as keyed hashes, so that nothing that leaves the process holds them.

The key is the app's, so that every host makes the same hash of an id, and nobody without the key
can find an id by trying. A hash is never hashed again: it may come from another process by headers.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from secrets import token_hex
from typing import Any

from llmeval_sdk._process.shield import tell
from llmeval_sdk.config import Settings
from llmeval_sdk.config.identities import IdentitySettings


KEYS = frozenset(("user_id", "user.id", "session_id", "session.id"))
"""The tags, and the keys of a score's metadata, that hold such ids."""
MOST_CACHED = 4_096
"""Hashes that are remembered: one costs 1.5 µs, and a lookup a tenth of that."""
MAX_ID = 1_000
"""The most characters of an id; a span cuts a session's id there too."""
LONGEST_CACHED = 100
"""Longer ids are rare, and would take the memory of many."""
_HASHED = re.compile(r"hmac-[0-9a-f]{32}")


class Identities:
    """Hashes ids under one key.

    Args:
        key: what the hashes are made with.
    """

    def __init__(self, key: str) -> None:
        secret = key.encode("utf-8", "surrogatepass")

        def hashed(text: str) -> str:
            if _HASHED.fullmatch(text):
                return text
            digest = hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256")
            return f"hmac-{digest.hex()[:32]}"

        self._hashed = hashed
        self._remembered = lru_cache(MOST_CACHED)(hashed)

    def hashed(self, identifier: Any) -> str:
        """Return the hash of the first `MAX_ID` characters of an id; of a hash, itself."""
        text = str(identifier)[:MAX_ID]
        return self._remembered(text) if len(text) <= LONGEST_CACHED else self._hashed(text)

    def hide(self, span: Any) -> None:
        """Replace the session of a span of ours, and the ids among its tags."""
        if span.session_id is not None:
            span.session_id = self.hashed(span.session_id)
        if span._tags:
            span._tags = self.without(span._tags)

    def without(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return tags, or what belongs to a score, with hashes in the place of ids."""
        hidden = {
            name: self.hashed(item) if name in KEYS and item is not None else item
            for name, item in details.items()
        }
        for name in ("tags", "join_on"):
            if isinstance(inner := hidden.get(name), Mapping):
                hidden[name] = self.without(inner)
        person = hidden.get("submitter")
        if isinstance(person, Mapping) and person.get("id") is not None:
            hidden["submitter"] = {**person, "id": self.hashed(person["id"])}
        return hidden


def identities(settings: Settings, problems: Iterable[str] = ()) -> Identities | None:
    """Return what hashes ids; ``None`` where they stay as they are.

    A key that cannot be used is no permission to send ids: they are then hashed under a key that
    only this process knows.
    """
    key = settings.of(IdentitySettings).hash_ids
    if key is not None:
        return Identities(key.reveal())
    if any(problem.startswith("LLMEVAL_HASH_IDS") for problem in problems):
        tell("hash ids", "the key cannot be used: ids are hashed under one of this process alone")
        return Identities(token_hex())
    return None
