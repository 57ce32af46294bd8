"""The setting that hides the ids of users and sessions."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import long_secret


@dataclass(frozen=True, kw_only=True)
class IdentitySettings:
    """Whether ids of users and sessions leave the process as they are."""

    hash_ids: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_HASH_IDS",
        read=long_secret,
        doc="A key, the same on every host: `user_id` and `session_id` are then kept, sent and "
        "carried to other services only as their HMAC-SHA-256 under it. Arguments, metadata and "
        "tags of other names stay as the app wrote them.",
    )
