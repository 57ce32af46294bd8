"""The settings of what all hosts share, and the address of a Redis, which may hold a password."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from llmeval_sdk.config.reading import JUDGES, Secret, Table, allows, secret, setting


class RedisAddress(Secret):
    """The address of a Redis, such as ``rediss://:password@host:6379/0``. Show only its `place`.

    Raises:
        ValueError: It is no address of a Redis. The message does not repeat it.
    """

    __slots__ = ("place",)

    def __init__(self, text: str) -> None:
        super().__init__(text.strip())
        try:
            parts = urlsplit(text.strip())
            port = parts.port or 6379
        except ValueError:
            raise ValueError("expected redis://host:port/0, and a number as its port") from None
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise ValueError("expected redis://host:port/0 or rediss://host:port/0")
        if not re.fullmatch(r"/?[0-9]*", parts.path):
            raise ValueError("expected redis://host:port/0; write / in a password as %2F")
        self.place = f"{parts.scheme}://{parts.hostname}:{port}{parts.path}"
        """The address without user, password and options."""


@allows("`redis://…` or, encrypted, `rediss://…`", is_secret=True)
def redis_address(value: object) -> RedisAddress:
    """Read the address of a Redis."""
    return value if isinstance(value, RedisAddress) else RedisAddress(secret(value).reveal())


class SharedSettings(Table):
    """Where all hosts share one budget."""

    shared: RedisAddress | None = setting(
        None,
        "LLMEVAL_SHARED",
        read=redis_address,
        closes=JUDGES,
        doc="A Redis through which all hosts share one judge budget, earlier verdicts, the scores "
        "behind escalation by share, and what is known of models that are down. Default: each host "
        "has its own.",
    )
