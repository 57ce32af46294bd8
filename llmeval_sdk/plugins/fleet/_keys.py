"""The names of everything that a fleet keeps in Redis, and the types of what stands there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from llmeval_sdk.plugins.shared.client import KEYS


QUEUE = "judgements"
"""The name of Celery's queue; its key has the prefix, as all keys of Celery's transport have."""
QUEUE_KEY = f"{KEYS}{QUEUE}"
JUDGEMENT = f"{KEYS}judgement."
"""Begins the key of each judgement's state."""
MESSAGE = f"{KEYS}message."
"""The prefix of the keys that hold copies of messages that no worker has answered yet."""
OPEN = f"{KEYS}open"
"""The judgements that have no outcome yet, by the time at which they were asked for."""
DEAD = f"{KEYS}dead"
"""The list of what stood in the queue and was no message: the newest entries, cut short."""
ACCOUNT = f"{KEYS}account"
WORKERS = f"{KEYS}workers"
RESULTS = f"{KEYS}results."
"""Begins the key of the outcomes that return to a host."""
READER = f"{KEYS}reader."
"""Begins the key that says which process of a host reads them."""
TYPES = {
    QUEUE_KEY: "list",
    f"{KEYS}unacked": "hash",
    f"{KEYS}unacked_index": "zset",
    f"{KEYS}unacked_mutex": "string",
    f"{KEYS}_kombu.binding.{QUEUE}": "set",
    OPEN: "zset",
    DEAD: "list",
    ACCOUNT: "hash",
    WORKERS: "hash",
}
"""The types of the keys that all workers share, those of Celery's transport among them."""


def wrong_types(redis: Any) -> list[str]:
    """Return a sentence for each key that holds something of another type, and so serves nobody.

    Raises an error of the library where Redis does not answer.
    """
    pipe = redis.pipeline(transaction=False)
    for key in TYPES:
        pipe.type(key)
    found = [kind.decode() for kind in pipe.execute()]
    return [
        f"{key} is a {kind}, and a fleet keeps a {TYPES[key]} there: somebody else wrote it. "
        f"Delete it: redis-cli DEL {key}"
        for key, kind in zip(TYPES, found, strict=True)
        if kind not in ("none", TYPES[key])
    ]


def trouble(error: Exception, redis: Any) -> str:
    """Say what an error of the library means: which keys are wrong, or else the error itself."""
    wrong = []
    if type(error).__name__ == "ResponseError":
        with suppress(Exception):  # it is away by now
            wrong = wrong_types(redis)
    return ("; ".join(wrong) or f"{type(error).__name__}: {error}")[:500]
