"""Who may see the pages, and what a page may do in the browser.

Stored texts are hostile, and so may be other pages that the same browser has open: a foreign
``Host`` is DNS rebinding, a cross-site POST is forgery, and a script that is not ours is an
injection. Each is refused here, in one place, whatever the page behind it does.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Collection
from hashlib import pbkdf2_hmac
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
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
PASS_SECONDS = 12 * 3_600
"""How long a browser is let in after it showed the token."""
_PORT = re.compile(r":\d+$")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Lets requests through to ``app`` that come from the right visitor, host and page."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str] | None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._pass = None if token is None else Pass(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refusal(request) or self._without_token(request)
        admitted = not isinstance(answer, PlainTextResponse)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(request, MutableHeaders(scope=message), admitted=admitted)
            await send(message)

        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> PlainTextResponse | None:
        if not _is_known(request.headers.get("host", ""), self._hosts):
            return _refused(
                "This viewer does not answer to that name. Open the address it printed; where an "
                "app mounts it, name the app's host: llmeval.viewer.app(hosts=[...])."
            )
        if not self._knows_token(request):
            return _refused(
                "The token is missing, wrong or too old. Open the whole address that was printed."
            )
        if request.method not in _SAFE_METHODS and not _is_own(request):
            return _refused("This was sent from another page.")
        return None

    def _knows_token(self, request: Request) -> bool:
        if self._token is None or self._pass is None:
            return True
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            return True
        return self._pass.is_valid(request.cookies.get(_cookie_name(request), ""), _port(request))

    def _without_token(self, request: Request) -> Response | None:
        """Send a browser that was shown the token on to the same page without it."""
        asked = request.headers.get("sec-fetch-dest"), request.headers.get("sec-fetch-site")
        is_visit = asked in (("document", "none"), ("document", "same-origin"))
        if self._pass is None or "token" not in request.query_params or not is_visit:
            return None
        rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
        return RedirectResponse(f"{request.url.path}{'?' + urlencode(rest) if rest else ''}", 303)

    def _add_headers(self, request: Request, headers: MutableHeaders, *, admitted: bool) -> None:
        headers.update(HEADERS)
        headers.setdefault("cache-control", "no-store")
        if admitted and self._pass is not None and "token" in request.query_params:
            path = f"{request.scope.get('root_path', '')}/"
            secure = "; Secure" if request.url.scheme == "https" else ""
            headers.append(
                "set-cookie",
                f"{_cookie_name(request)}={self._pass.issue(_port(request))}; Path={path}; "
                f"Max-Age={PASS_SECONDS}; HttpOnly; SameSite=Strict{secure}",
            )


class Pass:
    """What a browser shows after the first page: not the token, and only for a port and a time.

    The browser sends cookies to every server of the same host. What another of them reads there is
    no use on another port and ends by itself, and the token cannot be told from it.
    """

    def __init__(self, token: str) -> None:
        self._key = pbkdf2_hmac("sha256", token.encode(), b"llmeval viewer", 100_000)

    def issue(self, port: int) -> str:
        """Return a pass that is valid from now on."""
        until = int(time.time()) + PASS_SECONDS
        return f"{until}-{self._sign(until, port)}"

    def is_valid(self, shown: str, port: int) -> bool:
        """Say whether a pass was issued here, for this port, and has not run out."""
        until, _, signature = shown.partition("-")
        if not (until.isascii() and until.isdecimal() and len(until) < 20):
            return False
        fits = hmac.compare_digest(signature.encode(), self._sign(int(until), port).encode())
        return fits and time.time() < int(until)

    def _sign(self, until: int, port: int) -> str:
        return hmac.new(self._key, f"{until} {port}".encode(), "sha256").hexdigest()


def _is_known(host: str, hosts: Collection[str] | None) -> bool:
    """Say whether a ``Host`` header is one of ours.

    Without a list, addresses and ``localhost`` are: a foreign page reaches this server only by a
    name that its owner bound to our address, never by the address itself.
    """
    host = host.lower()
    name = host[: host.rfind(":")] if _PORT.search(host) else host
    if hosts is not None:
        return "*" in hosts or host in hosts or name in hosts
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _port(request: Request) -> int:
    server = request.scope.get("server")
    return int(server[1] or 0) if server else 0


def _cookie_name(request: Request) -> str:
    return f"llmeval-{_port(request)}"  # viewers on other ports share the browser's jar


def _refused(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status_code=403)


def _is_own(request: Request) -> bool:
    """Say whether a page of ours sent it; whoever sends neither header is no browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
