"""Verdicts of earlier judgements, so that the same question is not paid for twice.

Online they are kept in memory for a while, offline in a signed file (`verdict_file`). Both go by
one key and keep the same verdicts.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from llmeval_sdk._process.locks import Locked
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Record, Step
from llmeval_sdk.protocols import LLM, Judge


class VerdictKey(NamedTuple):
    """Identifies a judgement by judge, version, wording, model and what the judge reads."""

    digest: bytes
    lasts: bool
    """Whether the key means the same in another process. Where the model has no address it does
    not: only within a process is it known to be the same model."""


class EarlierVerdict(NamedTuple):
    """The answer to the question whether an identical judgement was made before."""

    verdict: Evaluation | None = None
    """Its verdict, marked ``cached`` and without a cost; ``None`` where there is none."""
    is_distrusted: bool = False
    """True where there is a verdict that our key did not sign: the judgement is made anew."""


class Verdicts(Protocol):
    """Keeps verdicts and finds them again."""

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on a judgement, if there is one that can be trusted."""

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict, if it is one that `is_final`."""


def is_final(verdict: Evaluation) -> bool:
    """Return whether a verdict may be used again: neither it nor a part of it failed."""
    return verdict.error is None and not verdict.metadata.get("failed")


def as_earlier(verdict: Evaluation) -> EarlierVerdict:
    """Return a verdict that was kept: marked ``cached``, and without a cost."""
    metadata = {**verdict.metadata, "cached": True}
    return EarlierVerdict(replace(verdict, metadata=metadata, usage=None, duration=None))


def key_of(judge: Judge, llm: LLM, record: Record) -> VerdictKey | None:
    """Identify a judgement; ``None`` where the record holds what is no plain data.

    ``llm`` is the model itself, not a view of it.
    """
    address = getattr(llm, "base_url", None)
    if not judge.needs_model:
        model, lasts = "", False
    elif address is None:
        model, lasts = f"{llm.model}#{id(llm)}", False
    else:
        model, lasts = f"{llm.model}@{address}", True
    digest = judgement_key(judge, f"{model} {_wording(judge)}", record)
    return None if digest is None else VerdictKey(digest, lasts)


def _wording(judge: Any) -> str:
    """Identify the wording of a judge of the app, which may change without a new version."""
    template = getattr(judge, "_template", None)
    if template is not None:
        text = f"{template.rubric}|{judge._form!r}|{judge._examples!r}"
        return blake2b(text.encode(), digest_size=12).hexdigest()
    code = getattr(getattr(judge, "function", None), "__code__", None)
    return "" if code is None else blake2b(_code(code), digest_size=12).hexdigest()


def _code(code: Any) -> bytes:
    inner = [_code(constant) for constant in code.co_consts if hasattr(constant, "co_code")]
    plain = [constant for constant in code.co_consts if not hasattr(constant, "co_code")]
    return repr((code.co_code, code.co_names, plain, inner)).encode()


_NO_CONTENT = (
    "request_id", "usage", "latency_seconds", "trace_id", "span_id", "span_name", "span_kind",
)  # fmt: skip
CONTENT = tuple(field.name for field in fields(Record) if field.name not in _NO_CONTENT)
"""What a judge may read of a Record: everything but its identity, usage and latency. Of records
that agree in all of it, one is judged."""
_ADDED = frozenset(("steps", "tools", "expected_trajectory", "abstained"))
"""Fields that a key leaves out where they are absent, so that it is the one of earlier releases."""

_PLACES = ("_ns", "span_id")
"""Fields that say when and where something was, and not what it was."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    kind: attrgetter(*(row.name for row in fields(kind) if not row.name.endswith(_PLACES)))
    for kind in (Chunk, Extraction, Step)
}


def judgement_key(judge: Judge, model: str, record: Record) -> bytes | None:
    """Identify a judgement by judge, version, model and what the judge may read of the record.

    The judge's ``needs`` would be too few: it may read more than it needs. The key is ``None`` when
    a value is no plain data, so that nothing can be said about its equality.
    """
    digest = blake2b(digest_size=16)
    is_plain = _feed(digest, (judge.name, judge.version, model))
    for name in CONTENT:
        content = getattr(record, name)
        if content is not None or name not in _ADDED:
            is_plain = is_plain and _feed(digest, (name, content))
    return digest.digest() if is_plain else None


class RecentVerdicts(Locked):
    """The latest verdicts, at most ``entries`` of them and none older than ``seconds``."""

    __slots__ = ("_clock", "_entries", "_seconds", "_verdicts")

    def __init__(
        self,
        *,
        entries: int = 1000,
        seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._verdicts: OrderedDict[bytes, tuple[float, Evaluation]] = OrderedDict()

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on an identical judgement, if there was one."""
        if key is None:
            return EarlierVerdict()
        with self._lock:
            made, verdict = self._verdicts.get(key.digest, (float("-inf"), None))
            if verdict is None:
                return EarlierVerdict()
            if self._clock() - made > self._seconds:
                del self._verdicts[key.digest]
                return EarlierVerdict()
            self._verdicts.move_to_end(key.digest)
        return as_earlier(verdict)

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict; failures are not kept."""
        if key is None or not is_final(verdict):
            return
        with self._lock:
            self._verdicts[key.digest] = (self._clock(), verdict)
            self._verdicts.move_to_end(key.digest)
            while len(self._verdicts) > self._entries:
                self._verdicts.popitem(last=False)


def _feed(digest: blake2b, value: Any) -> bool:  # noqa: PLR0911
    """Add a value to a digest, unambiguously; False when it holds anything but plain data."""
    kind = type(value)
    if kind in _PLAIN:
        digest.update(repr(value).encode())
        digest.update(b" ")
        return True
    if kind in (list, tuple):
        if _PLAIN.issuperset(map(type, value)):  # the usual case, at once
            digest.update(f"flat {tuple(value)!r}".encode())
            return True
        digest.update(b"list %d " % len(value))
        return all(_feed(digest, item) for item in value)
    if isinstance(value, Mapping) and all(type(key) in _PLAIN for key in value):
        digest.update(b"map %d " % len(value))
        return all(_feed(digest, (key, value[key])) for key in sorted(value, key=repr))
    if kind in _PARTS:
        parts = _PARTS[kind](value)
        digest.update(kind.__name__.encode())
        if _PLAIN.issuperset(map(type, parts)):
            digest.update(repr(parts).encode())
            return True
        return all(_feed(digest, part) for part in parts)
    return False
