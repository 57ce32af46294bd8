"""The recent scores behind escalation by share, of all hosts: which records are the riskiest."""

from __future__ import annotations

import json
import random
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Any

from llmeval_sdk.evaluation.admission import Admitted, Refused
from llmeval_sdk.evaluation.escalation import Evaluations, JudgeGate, score_of
from llmeval_sdk.model import DAY_SECONDS, Record
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread


if TYPE_CHECKING:
    from redis import Redis


STREAM = f"{KEYS}{{shared}}.scores"
MAX_ENTRIES = 50
"""Messages with scores that Redis keeps."""
MAX_READ = 10
"""Messages that a process reads with a beat, the newest ones: as many as fill a window."""
MAX_SENT = 50
"""Scores in a message. Of more since the latest beat, a process sends a sample."""
_MAX_NAME = 200
_BEGINNING = b"0-0"


class SharedGate(JudgeGate):
    """A gate that ranks scores among those of all hosts.

    What a stream is owed stays with each process: where each holds its share, all of them do.
    """

    __slots__ = ("_link", "_new", "_read", "_seen", "_self")

    def __init__(self, gate: JudgeGate, link: RedisThread) -> None:
        super().__init__()
        self._rules, self._escalations = gate._rules, gate._escalations
        self._link = link
        self._new: deque[tuple[str, str, str, float]] = deque()
        self._seen = 0
        self._read = _BEGINNING
        self._self = _random_name()
        link.join(self)

    def decide(
        self, judge: Judge, record: Record, evaluations: Evaluations, **options: Any
    ) -> Admitted | Refused:
        """Decide once per judge and record; see `JudgeGate`."""
        decision = super().decide(judge, record, evaluations, **options)
        for name, by in self.shares:
            score = score_of(evaluations.get(by)) if name == judge.name else None
            if score is not None and isfinite(score):
                self._seen += 1
                self._sample((name, (record.span_name or "")[:_MAX_NAME], by, score))
        self._link.start()
        return decision

    def _sample(self, entry: tuple[str, str, str, float]) -> None:
        """Keep a uniform sample of what was decided since the latest beat."""
        if len(self._new) < MAX_SENT:
            self._new.append(entry)
        elif (place := random.randrange(self._seen)) < MAX_SENT:  # noqa: S311 - no secret
            self._new[place] = entry

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Send the new scores, and rank among those that others sent meanwhile."""
        entries, self._new, self._seen = self._new, deque(), 0
        if entries:
            text = json.dumps(list(entries))
            redis.xadd(STREAM, {"by": self._self, "scores": text}, maxlen=MAX_ENTRIES)
            redis.pexpire(STREAM, int(DAY_SECONDS * 1_000))
        news: Any = redis.xrevrange(STREAM, "+", b"(" + self._read, count=MAX_READ)
        news.reverse()
        for number, fields in news:
            self._read = number
            if fields.get(b"by", b"").decode("utf-8", "replace") != self._self:
                self._take_in(fields.get(b"scores", b""))

    def _take_in(self, text: bytes) -> None:
        """Rank among the scores of another process; whatever else stands there is left out."""
        try:
            entries = json.loads(text)
            scores = [
                (str(judge), str(span) or None, str(by), float(score))
                for judge, span, by, score in entries[:MAX_SENT]
            ]
        except (ValueError, TypeError, KeyError):
            self._link.counts.add("scores not understood")
            return
        for judge, span, by, score in scores:
            if (judge, by) in self.shares:
                self.warm(judge, span, by, [score])

    def forked(self) -> None:
        """Read the scores anew: the parent goes on with its own."""
        self._new, self._seen = deque(), 0
        self._read, self._self = _BEGINNING, _random_name()


def _random_name() -> str:
    return f"{random.getrandbits(64):016x}"
