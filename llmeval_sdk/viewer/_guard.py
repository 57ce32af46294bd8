"""Who may see the pages, and what a page may do in the browser.

Stored texts may be hostile, and so may other pages that are open in the same browser. A foreign
``Host`` header means DNS rebinding, a POST from another site means request forgery, and a script
that is not ours was injected. All three are refused in this one place, whatever page was asked for.
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
"""For how many seconds a browser is let in after it has shown the token."""
_PORT = re.compile(r":\d+$")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """ASGI middleware: only requests from the right visitor, host and page reach ``app``."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Collection[str] | None) -> None:
        self._app = app
        self._token = token
        self._hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._pass = None if token is None else Pass(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, redirect it, or pass it on to the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = _malformed(request) or self._refusal(request) or self._without_token(request)
        admitted = not isinstance(answer, PlainTextResponse)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(request, MutableHeaders(scope=message), admitted=admitted)
            await send(message)

        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> PlainTextResponse | None:
        if not _is_known(request.headers.get("host", ""), self._hosts):
            return _refused(
                "This viewer does not answer to that name. Open the address that it printed. If an "
                "app mounts the viewer, name the app's host: llmeval.viewer.app(hosts=[...])."
            )
        if not self._knows_token(request):
            return _refused(
                "The token is missing, wrong or too old. Open the whole address that was printed."
            )
        if request.method not in _SAFE_METHODS and not _is_own(request):
            return _refused("This form was sent from a page of another site, so it was refused.")
        return None

    def _knows_token(self, request: Request) -> bool:
        if self._token is None or self._pass is None:
            return True
        token = request.query_params.get("token")
        if token is not None and hmac.compare_digest(token.encode(), self._token.encode()):
            return True
        return self._pass.is_valid(request.cookies.get(_cookie_name(request), ""), _port(request))

    def _without_token(self, request: Request) -> Response | None:
        """Redirect a browser that came with the token to the same address without it."""
        fetch = request.headers.get("sec-fetch-dest"), request.headers.get("sec-fetch-site")
        is_visit = fetch in (("document", "none"), ("document", "same-origin"))
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
    """Makes and checks the cookie that a browser shows instead of the token after its first page.

    A browser sends its cookies to every server of the same host, whatever the port. So a pass is
    valid for one port and for a limited time, and the token cannot be computed from it.
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
    """Return whether the viewer answers to this ``Host`` header.

    Without a list of hosts it answers to ``localhost`` and to bare addresses. That is safe, because
    DNS rebinding needs a name that the attacker has bound to our address.
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
    return f"llmeval-{_port(request)}"  # the browser sends cookies to viewers on other ports too


def _malformed(request: Request) -> PlainTextResponse | None:
    """Refuse addresses that Python cannot take apart or write down."""
    try:
        request.url.path.encode()
        urlsplit(request.headers.get("origin", ""))
    except ValueError:  # one bracket of an IPv6 address, or half a character
        return PlainTextResponse("This is no address.\n", status_code=400)
    return None


def _refused(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status_code=403)


def _is_own(request: Request) -> bool:
    """Return whether one of our pages sent the request, or a client that is no browser.

    A browser sends at least one of the two headers with every POST.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
