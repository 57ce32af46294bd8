"""The messages between apps and workers: versioned JSON, signed, bounded, with no address inside.

A message names judges; what a name stands for is decided by what the worker configured when it
started. The head, with the version and the ids, stays the same in all versions, so that a worker
can refuse by id what it cannot read.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from time import time
from typing import Any
from uuid import uuid4

from llmeval_sdk.config import Secret
from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.model import EvaluationEvent, NotRun, Record, SpanData, Target
from llmeval_sdk.model.plain import UnreadableError, built, is_noun, plain
from llmeval_sdk.pipeline.judging import Job
from llmeval_sdk.plugins.fleet._judgement_store import QUEUE
from llmeval_sdk.process.shield import swallow


# Records and outcomes as JSON: what stands in the messages between apps and workers.

_KINDS: Mapping[str, type] = {
    "evaluation": EvaluationEvent, "span": SpanData, "not_run": NotRun
}  # fmt: skip
_WORDS = {kind: word for word, kind in _KINDS.items()}


def written(value: object) -> str:
    """Write a value as JSON; of what is no plain data only the name of its type is left."""
    try:
        return _encode(value)
    except (TypeError, RecursionError):  # a key that is no text, or a list that holds itself
        return _encode(_keyed(value, 0))


def _default(value: object) -> object:
    return plain(value) if is_noun(value) else f"<{type(value).__name__}>"


_encode = json.JSONEncoder(default=_default, separators=(",", ":"), check_circular=False).encode
_MAX_DEPTH = 40


def _keyed(value: object, depth: int) -> object:
    if depth > _MAX_DEPTH:
        return "<too deep>"
    if is_noun(value):
        value = plain(value)
    if isinstance(value, Mapping):
        return {str(key): _keyed(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_keyed(item, depth + 1) for item in value]
    return value


def parsed(text: str | bytes) -> Any:
    """Read JSON; raises `UnreadableError` for anything else, such as ten thousand brackets."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no JSON: {type(error).__name__}") from None


def _items_as_plain(items: list[object]) -> list[object]:
    """Return what a judgement emits as plain data."""
    return [[_WORDS[type(item)], item] for item in items]


def _items_of(plain_items: object) -> list[object]:
    """Make what a judgement emits; raises `UnreadableError` where it is nothing of that kind."""
    if type(plain_items) is not list:
        raise UnreadableError("no list")
    items: list[object] = []
    for pair in plain_items:
        if type(pair) is not list or len(pair) != 2 or pair[0] not in _KINDS:
            raise UnreadableError("no evaluation, span or reason")
        items.append(built(_KINDS[pair[0]], pair[1]))
    return items


VERSION = 1
TASK = "llmeval.judge"
MAX_JUDGEMENTS = 32
MAX_JUDGEMENT_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 4 << 20
_HEAD_BYTES = 4096
MAX_ENTRY_BYTES = MAX_MESSAGE_BYTES + _HEAD_BYTES
"""The largest entry of the queue: a message in its envelope."""
FULL_BYTES = MAX_MESSAGE_BYTES * 3 // 4 - MAX_JUDGEMENT_BYTES - _HEAD_BYTES
"""Text with which a message takes no further judgement; with less, there is room for the largest,
in base 64 and with the head."""
_BODY = "<body>"
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_ID = re.compile(r"[0-9a-f]{32}")
_HOST = re.compile(r"[0-9a-f]{16,32}")
_MAX_NAME = 200
_END_OF_TIME = 1e11


@dataclass(frozen=True, slots=True)
class Asked:
    """One judgement as a message asks for it."""

    id: str
    judge: str
    record: Record
    target: Target
    admitted: Admitted


@dataclass(frozen=True, slots=True)
class FleetMessage:
    """A message that was read.

    Those of its judgements that cannot be read are in ``unreadable`` by id.
    """

    host: str | None
    """The host to which outcomes return; ``None`` where they go to the worker's exporters."""
    sent: float
    """When it was signed, in seconds since 1970, by the clock of the app's host."""
    asked: tuple[Asked, ...]
    unreadable: tuple[str, ...] = ()


class RefusedError(Exception):
    """A message that is refused whole.

    ``reason`` is what the account counts, and ``ids`` are its judgements where they can be known.
    """

    def __init__(self, reason: str, ids: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ids = tuple(ids)


def judgement_id(judge: str, target: Target) -> str:
    """Identify the judgement of a span by a judge, the same in every process and at every time."""
    marks = (f"{key}={mark}" for key, mark in target.marks)  # one verdict for each of them
    text = "\0".join((target.trace_id or "", target.span_id or "", judge, *marks))
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def judgement_text(job: Job, serial: str) -> str:
    """Write one judgement with its id.

    Raises:
        ValueError: it is larger than a message may carry.
    """
    text = written(
        {
            "id": serial,
            "judge": job.judge.name,
            "record": job.record,
            "target": job.target,
            "probability": job.admitted.probability,
            "why": job.admitted.why,
            "escalated": job.admitted.escalated,
        }
    )
    if len(text) > MAX_JUDGEMENT_BYTES:
        raise ValueError(f"{len(text)} bytes, and {MAX_JUDGEMENT_BYTES} may travel")
    return text


def body_of(texts: Sequence[str], ids: Sequence[str], *, host: str | None) -> str:
    """Write a message of judgements that `judgement_text` wrote.

    In base 64: the envelope is JSON in JSON, and would quote all quotation marks twice.
    """
    head = json.dumps({"v": VERSION, "ids": list(ids), "host": host, "sent": time()})
    body = f'{head[:-1]}, "judgements": [{",".join(texts)}]}}'
    return b64encode(body.encode()).decode()


def signature(body: str, key: Secret) -> str:
    """Sign a text with the key that apps and workers share."""
    return hmac.new(
        key.reveal().encode(), body.encode("utf-8", "surrogatepass"), sha256
    ).hexdigest()


def _is_signed(body: str, signed: object, key: Secret) -> bool:
    """Return whether a text was signed with the key."""
    return isinstance(signed, str) and hmac.compare_digest(
        signature(body, key).encode(), signed.encode("utf-8", "replace")
    )


def fingerprint(key: Secret) -> str:
    """Return what tells keys apart and says nothing about them."""
    return signature("which key is this?", key)[:12]


def envelope(body: str, signed: str, serial: str) -> str:
    """Wrap a message as a task of Celery (protocol 2) in the queue of its Redis transport.

    An app needs neither Celery nor its transport: `JudgementStore.put` queues this text in the same
    step in which it notes the judgements. Celery's own publisher takes 600 µs for it, and shows
    each of our messages to the signal handlers of an app that is a Celery app itself.
    """
    nothing = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
    payload = json.dumps([[_BODY, signed], {}, nothing], separators=(",", ":"))
    headers: Mapping[str, object] = {
        **dict.fromkeys(("shadow", "eta", "expires", "group", "group_index", "parent_id")),
        "lang": "py", "task": TASK, "id": serial, "root_id": serial, "retries": 0,
        "timelimit": [None, None], "argsrepr": "(…)", "kwargsrepr": "{}", "origin": "llmeval",
        "ignore_result": True,
    }  # fmt: skip
    properties = {
        "correlation_id": serial, "reply_to": "", "delivery_mode": 2, "priority": 0,
        "delivery_info": {"exchange": "", "routing_key": QUEUE},
        "body_encoding": None, "delivery_tag": serial,
    }  # fmt: skip
    text = json.dumps(
        {
            "body": payload,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": properties,
        },
        separators=(",", ":"),
    )
    return text.replace(_BODY, body, 1)


def checked_envelope(entry: bytes, key: Secret) -> str:
    """Return an entry of the queue as an envelope of our own, around what it signs.

    Celery reads nothing else of what others may have written into the queue: on an envelope that it
    cannot read, its worker would end.

    Raises:
        RefusedError: the entry is ``too_large``, ``unreadable`` or ``forged``.
    """
    if len(entry) > MAX_ENTRY_BYTES:
        raise RefusedError("too_large")
    try:
        (body, signed), *_ = parsed(parsed(entry)["body"])
        is_readable = _BASE64.fullmatch(body) is not None
    except (ValueError, TypeError, KeyError):
        raise RefusedError("unreadable") from None
    if not is_readable:
        raise RefusedError("unreadable")
    if not _is_signed(body, signed, key):
        raise RefusedError("forged")
    return envelope(body, signed, uuid4().hex)


def checked_note(note: bytes, key: Secret) -> str:
    """Return what the transport noted of a message that a worker took, as an envelope of our own.

    Raises:
        RefusedError: it is ``too_large``, ``unreadable`` or ``forged``.
    """
    if len(note) > MAX_ENTRY_BYTES + _HEAD_BYTES:
        raise RefusedError("too_large")
    try:
        entry, _exchange, _queue = parsed(note)
    except (ValueError, TypeError):
        raise RefusedError("unreadable") from None
    return checked_envelope(json.dumps(entry).encode(), key)


def message_of(body: object, signed: object, key: Secret) -> FleetMessage:
    """Read a message.

    Raises:
        RefusedError: it is refused whole: ``too_large``, ``forged``, ``unreadable`` or
            ``unknown_version``.
    """
    if not isinstance(body, str) or len(body) > MAX_MESSAGE_BYTES:
        raise RefusedError("too_large" if isinstance(body, str) else "unreadable")
    if not _is_signed(body, signed, key):
        raise RefusedError("forged")
    try:
        message = parsed(b64decode(body, validate=True))
        ids = [each for each in message["ids"] if _ID.fullmatch(each)]
        version = message["v"]
    except (ValueError, TypeError, KeyError):
        raise RefusedError("unreadable") from None
    read = READS.get(version) if type(version) is int else None
    if read is None:
        raise RefusedError("unknown_version", ids)
    try:
        return read(message, ids)
    except Exception as error:
        if not isinstance(error, (UnreadableError, TypeError, KeyError)) and not swallow(
            "fleet", error
        ):
            raise
        raise RefusedError("unreadable", ids) from None


def _read_1(message: Mapping[str, Any], ids: Sequence[str]) -> FleetMessage:
    asked, host, sent = [], message["host"], message["sent"]
    if type(sent) not in (int, float) or not 0 <= sent < _END_OF_TIME:
        raise UnreadableError("no time")
    if host is not None and not _HOST.fullmatch(host):
        raise UnreadableError("no host")
    if len(message["judgements"]) > MAX_JUDGEMENTS:
        raise UnreadableError("too many judgements")
    for text in message["judgements"]:
        try:
            asked.append(_asked(text, ids))
        except (ValueError, TypeError, KeyError):
            continue
    known = {each.id for each in asked}
    return FleetMessage(
        host, float(sent), tuple(asked), tuple(each for each in ids if each not in known)
    )


def _asked(fields: Any, ids: Sequence[str]) -> Asked:
    judge, serial = fields["judge"], fields["id"]
    target = built(Target, fields["target"])
    if not isinstance(judge, str) or len(judge) > _MAX_NAME or serial not in ids:
        raise UnreadableError("no judge")
    if serial != judgement_id(judge, target):
        raise UnreadableError("an id of another judgement")
    admitted = Admitted(
        min(1.0, max(1e-9, float(fields["probability"]))),
        str(fields["why"]),
        bool(fields["escalated"]),
    )
    return Asked(serial, judge, built(Record, fields["record"]), target, admitted)


READS: Mapping[int, Callable[[Mapping[str, object], Sequence[str]], FleetMessage]] = {1: _read_1}
"""What reads each version. The next version keeps the reader of the one before it, so that workers
can be renewed before the apps."""


# What came of a judgement, as the text that is kept and returned under its id.

_SIGNATURE = 64


@dataclass(frozen=True, slots=True)
class JudgementOutcome:
    """What a judgement emits: the verdict or why there is none, and the trace of its run."""

    id: str
    items: list[Any]

    @property
    def field(self) -> str:
        """Where the account counts it: ``judged``, or ``refused:`` and the reason."""
        for item in self.items:
            if type(item) is EvaluationEvent and item.evaluation.error is None:
                return "judged"
        reasons = [item.reason for item in self.items if type(item) is NotRun]
        return f"refused:{reasons[0] if reasons else 'error'}"

    def text(self, key: Secret) -> str:
        """Write it, signed."""
        body = written({"v": 1, "id": self.id, "items": _items_as_plain(self.items)})
        return f"{signature(body, key)}{body}"


def outcome_of(text: bytes, key: Secret) -> JudgementOutcome:
    """Read an outcome; raises `UnreadableError` where it is none, or is not signed with the key."""
    try:
        whole = text.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
    body = whole[_SIGNATURE:]
    if not _is_signed(body, whole[:_SIGNATURE], key):
        raise UnreadableError("its signature is not that of LLMEVAL_FLEET_KEY")
    fields = parsed(body)
    if type(fields) is not dict or fields.get("v") != 1 or not isinstance(fields.get("id"), str):
        raise UnreadableError("its version is unknown")
    return JudgementOutcome(fields["id"], _items_of(fields.get("items")))
