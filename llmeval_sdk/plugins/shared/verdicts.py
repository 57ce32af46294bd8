"""Verdicts of identical judgements that any host made, so that no two hosts pay for one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llmeval_sdk.evaluation.verdicts import (
    EarlierVerdict,
    RecentVerdicts,
    VerdictKey,
    as_earlier,
    is_final,
)
from llmeval_sdk.model import Evaluation
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse


if TYPE_CHECKING:
    from redis import Redis


SECONDS = 600.0
MAX_BYTES = 64 << 10
"""The longest verdict that is shared, and that is read."""


class SharedVerdicts:
    """The verdicts of this process, and those of all hosts where the model has an address.

    A verdict is plain data: JSON of bounded length, read like a row of the store. One that cannot
    be read is no verdict, and counted.
    """

    def __init__(self, link: RedisThread, *, seconds: float = SECONDS) -> None:
        self._own = RecentVerdicts(seconds=seconds)
        self._link = link
        self._milliseconds = int(seconds * 1000)

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict that this process has on an identical judgement."""
        return self._own.get(key)

    async def find(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict of any host on an identical judgement; see `RedisThread.heard`."""
        own = self._own.get(key)
        if own.verdict is not None or key is None or not key.lasts:
            return own
        name = _name(key)
        text: Any = await self._link.heard(
            self._link.ask(lambda redis: redis.getrange(name, 0, MAX_BYTES))
        )
        verdict = self._read(text) if text else None
        if verdict is None:
            return own
        self._link.counts.add("verdicts found")
        self._own.put(key, verdict)
        return as_earlier(verdict)

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict here and for all hosts; nobody waits for that."""
        self._own.put(key, verdict)
        if key is None or not key.lasts or not is_final(verdict):
            return
        text = (dumps(sparse(verdict)) or "").encode()
        if not text or len(text) > MAX_BYTES:
            return
        name = _name(key)

        def send(redis: Redis) -> None:
            redis.set(name, text, px=self._milliseconds)
            self._link.counts.add("verdicts shared")

        self._link.ask(send)

    def _read(self, text: bytes) -> Evaluation | None:
        try:
            plain: Any = json.loads(text) if len(text) <= MAX_BYTES else None
            verdict = evaluation_from(plain)
            if not isinstance(verdict.name, str) or type(verdict.value) not in _VALUES:
                raise TypeError(verdict)  # noqa: TRY301 - whatever is wrong, it is one case
        except Exception:  # whatever stands there, it was not written by us
            self._link.counts.add("verdicts not understood")
            return None
        return verdict


_VALUES = (float, bool, str, type(None))


def _name(key: VerdictKey) -> str:
    return f"{KEYS}{{shared}}.verdict.{key.digest.hex()}"
