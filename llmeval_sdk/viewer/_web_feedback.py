"""Takes feedback from a web client about spans whose ids the app has signed.

The endpoint shows nothing and lists nothing: it stores what somebody says of one span, if the app
gave them that span's token. All hosts that have the same key can sign and check tokens.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmeval_sdk.errors import ExportError
from llmeval_sdk.process.shield import caught
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.viewer._site import NoStoreError, Readers


MAX_BODY = 8_192
MAX_NAME, MAX_WORD, MAX_REASON = 100, 200, 4_000
OF_ONE_ADDRESS = 10
"""One address may send so many times what one span may get: behind a proxy, all clients have the
same address. It is half of what may be sent altogether."""
MAX_CLIENTS = 10_000
"""How many clients and spans are told apart by the limit; the one seen longest ago goes first."""
OF_ALL = 20
"""All clients together may send this many times what one span may get."""
_TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{16})\.([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_CONTROL = re.compile("[\0-\x08\v\f\x0e-\x1f\x7f-\x9f]")
"""Control characters but for line ends and tabs: feedback is shown on operators' terminals."""


class FeedbackApp:
    """An ASGI app that stores feedback of web clients: see `llmeval_sdk.viewer.feedback_app`."""

    def __init__(
        self,
        store: str | os.PathLike[str] | None,
        *,
        key: str,
        per_minute: int,
        origins: Collection[str],
    ) -> None:
        self._readers = Readers(store)
        self._key = key
        self._of_span = RateLimit(per_minute)
        self._of_refused = RateLimit(per_minute)
        self._of_address = RateLimit(per_minute * OF_ONE_ADDRESS)
        self._of_all = RateLimit(per_minute * OF_ALL)
        self.counts: Counter[str] = Counter()
        """What became of the requests, by outcome; refusals are also in ``stats().problems``."""
        cors = Middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["POST"],
                          allow_headers=["content-type"])  # fmt: skip
        self._app = Starlette(
            routes=[Route("/{path:path}", self._post, methods=["POST"])],  # wherever it stands
            middleware=[cors] if origins else [],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, under any path: the app's routes choose it."""
        if scope.get("path") == "":  # mounted, and asked for without a slash at the end
            scope = {**scope, "path": "/"}
        await self._app(scope, receive, send)

    def close(self) -> None:
        """Close the store."""
        self._readers.close()

    async def _post(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return self._refuse(413, "too long", "That is too long for feedback.")
        feedback = _read(body)
        token = self._token_in(feedback)
        client = request.client.host if request.client else ""
        # By token first: whoever has none uses up nothing of what the others may send.
        may_pass = (
            self._of_refused.allows(client)
            if token is None
            else self._of_span.allows(token[2])
            and self._of_address.allows(client)
            and self._of_all.allows("")
        )
        if not may_pass:
            return self._refuse(429, "too many", "Too much feedback at once: try again later.")
        if feedback is None:
            return self._refuse(
                400, "malformed", 'Expected {"token": "…", "name": "thumbs", "value": true}.'
            )
        if token is None:
            return self._refuse(403, "forged", "The token is no token of this app.")
        return await run_in_threadpool(self._store, token[1], token[2], feedback)

    def _token_in(self, feedback: _Feedback | None) -> re.Match[str] | None:
        """Return the token that came with feedback, if this app has signed it."""
        token = _TOKEN.fullmatch(feedback.token) if feedback else None
        if token is None or not hmac.compare_digest(token[3], _sign(self._key, token[1], token[2])):
            return None
        return token

    def _store(self, trace_id: str, span_id: str, feedback: _Feedback) -> Response:
        try:
            with self._readers.lend() as reader:
                span = reader.span(span_id, trace_id)
            if span is None:
                return self._refuse(
                    404, "unknown span",
                    "The span is not in the store: it has not arrived yet, or was pruned.",
                )  # fmt: skip
            event = human_label(
                span,
                feedback.name,
                feedback.value,
                explanation=feedback.reason,
                source="user",
            )
            add_feedback(self._readers.path, event)
        except (NoStoreError, ExportError):
            return self._refuse(503, "not stored", "The feedback could not be stored now.")
        self.counts["accepted"] += 1
        return Response(status_code=204)

    def _refuse(self, status: int, outcome: str, why: str) -> Response:
        self.counts[outcome] += 1
        caught.add(f"feedback endpoint: {outcome}")
        later = {"retry-after": "60"} if status in (429, 503) else None
        return JSONResponse({"error": why}, status, later)


class RateLimit:
    """At most so many per minute for each key, in bursts of as many; memory is bounded."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, key: str) -> bool:
        """Take one from what a key has left, or say that nothing is left."""
        now = time.monotonic()
        left, at = self._left.pop(key, (float(self._per_minute), now))
        left = min(left + (now - at) * self._per_minute / 60, self._per_minute)
        self._left[key] = (left - 1 if left >= 1 else left), now
        if len(self._left) > MAX_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


def token_of(trace_id: str, span_id: str, key: str) -> str:
    """Return the token with which a client may say something of one span."""
    return f"{trace_id}.{span_id}.{_sign(key, trace_id, span_id)}"


def _sign(key: str, trace_id: str, span_id: str) -> str:
    about = f"llmeval feedback {trace_id} {span_id}".encode()
    return hmac.new(key.encode(), about, "sha256").hexdigest()


class _Feedback(NamedTuple):
    """One person's feedback, as the body of an HTTP request has it."""

    token: str
    name: str
    value: float | str
    reason: str | None


def _read(body: bytes) -> _Feedback | None:
    """Return the feedback that a request's body holds, or ``None`` if the body is malformed."""
    try:
        feedback = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(feedback, dict):
        return None
    name, value, reason = (
        feedback.get("name", "thumbs"),
        feedback.get("value"),
        feedback.get("reason"),
    )
    is_number = isinstance(value, (int, float)) and abs(value) < 1e9
    is_word = isinstance(value, str) and 0 < len(value) <= MAX_WORD
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        return None
    if not (is_number or is_word) or not isinstance(reason, (str, type(None))):
        return None
    if any(_CONTROL.search(text) for text in (value, reason) if isinstance(text, str)):
        return None
    if isinstance(value, str):
        value = _encodable(value)
    elif not isinstance(value, bool):
        value = float(value or 0)
    reason = reason and _encodable(reason[:MAX_REASON])
    return _Feedback(str(feedback.get("token", "")), name, value, reason)


def _encodable(text: str) -> str:
    """Replace halves of characters, which JSON may hold and no database takes."""
    return text.encode("utf-8", "replace").decode()
