"""Who may see the pages, and what a page may do in the browser.

Stored texts are hostile, and so may be other pages that the same browser has open: a foreign
``Host`` is DNS rebinding, a cross-site POST is forgery, and a script that is not ours is an
injection. Each is refused here, in one place, whatever the page behind it does.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Lets requests through to ``app`` that come from the right visitor, host and page."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str] | None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(hosts)
        digest = sha256((token or "").encode()).hexdigest()
        self._cookie = f"llmeval-{digest[:8]}"  # viewers on other ports share the browser's jar

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(request, MutableHeaders(scope=message), admitted=not refusal)
            await send(message)

        if refusal:
            answer = PlainTextResponse(refusal, status_code=403)
            await answer(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> str | None:
        if self._hosts is not None and request.headers.get("host", "").lower() not in self._hosts:
            return "This viewer does not answer to that name. Open the address it printed.\n"
        if not self._knows_token(request):
            return "The token is missing or wrong. Open the whole address that was printed.\n"
        if request.method not in _SAFE_METHODS and not _is_own(request):
            return "This was sent from another page.\n"
        return None

    def _knows_token(self, request: Request) -> bool:
        if self._token is None:
            return True
        given = (request.query_params.get("token"), request.cookies.get(self._cookie))
        return any(_same(each, self._token) for each in given)

    def _add_headers(self, request: Request, headers: MutableHeaders, *, admitted: bool) -> None:
        headers.update(HEADERS)
        headers.setdefault("cache-control", "no-store")
        if admitted and self._token is not None and "token" in request.query_params:
            path = f"{request.scope.get('root_path', '')}/"
            headers.append(
                "set-cookie",
                f"{self._cookie}={self._token}; Path={path}; HttpOnly; SameSite=Strict",
            )


def _same(given: str | None, token: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), token.encode())


def _is_own(request: Request) -> bool:
    """Say whether a page of ours sent it; whoever sends neither header is no browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
