"""How a store holds an id of a user or a session that a person typed.

Where ids are hashed, a store may hold both forms: the id as it is, from before the key was set, and
its hash. Without the key, nobody can tell whose the hashes are.
"""

from __future__ import annotations

import sqlite3

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.store._schema import MAY_BE_TURN


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
    make = registry.part("llmeval_sdk.redaction.identities:identities")
    identities = make and make(settings or config.from_environment(problems=[]))
    as_hash = (str(identities.hashed(identifier)),) if identities else ()
    return tuple(dict.fromkeys((identifier, *as_hash)))


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
SELECT 1 FROM spans WHERE {MAY_BE_TURN} AND session_id >= 'hmac-' AND session_id < 'hmac.' LIMIT 1
"""  # noqa: S608 - constants
_HASHED_USER = """
SELECT 1 FROM spans INDEXED BY spans_summed WHERE instr(tags, ':"hmac-') AND json_valid(tags)
  AND (json_extract(tags, '$.user_id') GLOB 'hmac-*'
    OR json_extract(tags, '$."user.id"') GLOB 'hmac-*') LIMIT 1
"""
