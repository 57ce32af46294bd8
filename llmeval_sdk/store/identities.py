"""Ids of users and sessions as keyed hashes, so that nothing that leaves the process holds them.

The key is the app's, so that every host makes the same hash of an id, and nobody without the key
can find an id by trying. A hash is never hashed again: it may come from another process by headers.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.config.settings import IdentitySettings
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.store._schema import MAY_BE_TURN


KEYS = frozenset(("user_id", "user.id", "session_id", "session.id"))
"""The tags, and the keys of a score's metadata, that hold such ids."""
MOST_CACHED = 4_096
"""Hashes that are remembered: one costs 1.5 µs, and a lookup a tenth of that."""
MAX_ID_LENGTH = 1_000
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
        import hmac

        secret = key.encode("utf-8", "surrogatepass")

        def hashed(text: str) -> str:
            if _HASHED.fullmatch(text):
                return text
            digest = hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256")
            return f"hmac-{digest.hex()[:32]}"

        self._hashed = hashed
        self._remembered = lru_cache(MOST_CACHED)(hashed)

    def hashed(self, identifier: Any) -> str:
        """Return the hash of the first `MAX_ID_LENGTH` characters of an id; of a hash, itself."""
        text = str(identifier)[:MAX_ID_LENGTH]
        return self._remembered(text) if len(text) <= LONGEST_CACHED else self._hashed(text)

    def hide(self, span: Any) -> None:
        """Replace the session of a span of ours, and the ids among its tags."""
        if span.session_id is not None:
            span.session_id = self.hashed(span.session_id) or None
        if span._tags:
            span._tags = self.without(span._tags)

    def without(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Return tags, or what belongs to a score, with hashes in the place of ids."""
        hidden = {
            name: item if item is None or name not in KEYS else self.hashed(item)
            for name, item in details.items()
        }
        hidden = {name: item for name, item in hidden.items() if item != "" or name not in KEYS}
        for name in ("tags", "join_on"):
            if isinstance(inner := hidden.get(name), Mapping):
                hidden[name] = self.without(inner)
        person = hidden.get("submitter")
        if isinstance(person, Mapping) and person.get("id") is not None:
            hidden["submitter"] = {**person, "id": self.hashed(person["id"]) or None}
        return hidden


class NoIdentities(Identities):
    """Leaves all ids out, as long as what should hash them cannot be read or made."""

    def __init__(self) -> None:
        """Need nothing."""

    def hashed(self, identifier: Any) -> str:
        """Return an empty text: no form of an id leaves."""
        return ""


def identities(settings: Settings) -> Identities | None:
    """Return what hashes ids; ``None`` where they stay as they are.

    A key that cannot be read is no permission to send ids: they are then left out.
    """
    if config.IDS in settings.closed:
        return NoIdentities()
    key = settings.of(IdentitySettings).hash_ids
    try:
        return None if key is None else Identities(key.reveal())
    except Exception as error:
        if not swallow("hash_ids", error, f"ids are left out: {registry.why_of(error)}"):
            raise
        return NoIdentities()


# How a store holds an id of a user or a session that a person typed.
#
# Where ids are hashed, a store may hold both forms: the id as it is, from before the key was
# set, and its hash. Without the key, nobody can tell whose the hashes are.

UNREADABLE = (
    "the store holds hashed ids of users or sessions, and without their key nobody can tell whose"
    " they are: set LLMEVAL_HASH_IDS to the key that the app has, or pass the hash itself (hmac-…)"
)


def forms(identifier: str, settings: Settings | None = None) -> tuple[str, ...]:
    """Return the forms that a store may hold an id in: the id itself, and its hash if it has one.

    Args:
        identifier: what somebody typed; a hash is its only form.
        settings: those that name the key; by default those of the environment.
    """
    known = identities(settings or config.from_environment(problems=[]))
    as_hash = (str(known.hashed(identifier)),) if known else ()
    return tuple(form for form in dict.fromkeys((identifier, *as_hash)) if form)


def sessions_of(
    connection: sqlite3.Connection, identifier: str, settings: Settings
) -> tuple[str, ...]:
    """Return those forms of a session's id that spans of a store have."""
    return tuple(
        form
        for form in forms(identifier, settings)
        if connection.execute(_OF_SESSION, (form,)).fetchone()
    )


def unreadable(
    connection: sqlite3.Connection, *identifiers: str | None, settings: Settings | None = None
) -> bool:
    """Say whether a store may hold ids as hashes that cannot be made here for lack of the key.

    An identifier that is ``None`` or a hash itself needs no key.
    """
    if _has_key(settings) or all(_is_hash(each) for each in identifiers if each):
        return False
    return any(connection.execute(sql).fetchone() for sql in (_HASHED_SESSION, _HASHED_USER))


def _has_key(settings: Settings | None) -> bool:
    """Say whether the settings, by default the environment's, name a key for hashes."""
    return len(forms("any", settings)) > 1


def _is_hash(identifier: str) -> bool:
    return identifier.startswith("hmac-")


_OF_SESSION = "SELECT 1 FROM spans WHERE session_id = ? LIMIT 1"
_HASHED_SESSION = f"""
SELECT 1 FROM main.spans WHERE {MAY_BE_TURN}
  AND session_id >= 'hmac-' AND session_id < 'hmac.' LIMIT 1
"""  # noqa: S608 - constants
_HASHED_USER = """
SELECT 1 FROM main.spans INDEXED BY spans_summed WHERE instr(tags, ':"hmac-') AND json_valid(tags)
  AND (json_extract(tags, '$.user_id') GLOB 'hmac-*'
    OR json_extract(tags, '$."user.id"') GLOB 'hmac-*') LIMIT 1
"""
