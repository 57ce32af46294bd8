"""Where a model lives, and the clients that reach it.

An address is checked before anything is sent to it. Each event loop has a client of its own,
because a connection belongs to the loop that opened it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from llmeval_sdk.config import Secret, from_environment, openai_headers
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.judges.models.failures import (
    AnswerRefusedError,
    CallFailed,
    call_failed,
    request_refused,
)
from llmeval_sdk.process.threads import within


# One HTTP client of one model's server: what it sends, and how much of an answer it reads.
#
# Requests are posted as they are: the client of ``openai`` takes a second of CPU to import, and
# twice the CPU for each request.

CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 << 20
"""Decoded bytes of one HTTP answer."""
_CONNECTIONS = 1_000
"""More than requests are made at a time: those wait elsewhere, for their turn."""
_IDLE_CONNECTIONS = 100
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    "content-type": "application/json",
    "user-agent": "llmeval-inprocess",
}


class HttpAnswer(NamedTuple):
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Posts JSON to one server, and belongs to the event loop that made it.

    Args:
        base_url: Where the server is.
        headers: What is sent with each request, beside what every request of ours
            has; their names are in lower case.
        query: What stands behind each path, such as ``?api-version=…``.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str], query: str = "") -> None:
        import httpx2

        self._base_url, self._query = base_url, query
        self._headers = httpx2.Headers({**_HEADERS, **headers})
        self._urls: dict[str, Any] = {}
        self._request = httpx2.Request
        self._url = httpx2.URL
        self._http = httpx2.AsyncClient(
            follow_redirects=False,
            limits=httpx2.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE_CONNECTIONS
            ),
            # A proxy named in the environment may tunnel what is encrypted, not read the rest.
            trust_env=not base_url.startswith("http:"),
            verify=_tls_context(),
        )

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> HttpAnswer:
        """Send one request, waiting so many seconds for each of its phases.

        Raises whatever the HTTP library raises, or `AnswerRefusedError`.
        """
        if (url := self._urls.get(path)) is None:
            url = self._urls[path] = self._url(f"{self._base_url}{path}{self._query}")
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        connect = min(seconds, CONNECT_SECONDS)
        timeout = {"connect": connect, "read": seconds, "write": seconds, "pool": seconds}
        request = self._request(
            "POST",
            url,
            headers=self._headers,
            content=data.encode("utf-8", "replace"),  # half a character is no text
            extensions={"timeout": timeout},
        )
        response = await self._http.send(request, stream=True)
        try:
            return HttpAnswer(response.status_code, response.headers, await _bounded(response))
        finally:
            await response.aclose()

    def is_closed(self) -> bool:
        """Say whether it can no longer be used."""
        return bool(self._http.is_closed)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


async def _bounded(response: Any) -> bytes:
    """Read the body of a response up to its limit, which holds before and after decoding.

    At most gzip is asked for; an answer in any other encoding, or in several, is refused.
    """
    encodings = [
        name
        for part in response.headers.get_list("content-encoding", split_commas=True)
        if (name := part.strip().lower()) not in ("", "identity")
    ]
    if any(name not in ("gzip", "x-gzip") for name in encodings) or len(encodings) > 1:
        raise AnswerRefusedError(f"it is encoded as {', '.join(encodings)[:60]}")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_ANSWER_BYTES:
        raise _too_large()
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encodings else None
    received = 0
    body = bytearray()
    async for part in response.stream:
        received += len(part)
        body += (
            part if inflate is None else inflate.decompress(part, MAX_ANSWER_BYTES - len(body) + 1)
        )
        if max(received, len(body)) > MAX_ANSWER_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> AnswerRefusedError:
    return AnswerRefusedError(f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")


@cache
def _tls_context() -> Any:
    """Build the verifying TLS context once for all clients: it costs some 20 ms of CPU."""
    import httpx2

    return httpx2.create_ssl_context()


OPENAI_URL = "https://api.openai.com/v1"

_log = logging.getLogger("llmeval_sdk")
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Role:
    """What a model is for, and which variables say where it is: for messages to people."""

    name: str
    base_url: str
    api_key: str


JUDGE = Role("judge", "LLMEVAL_JUDGE_BASE_URL", "LLMEVAL_JUDGE_API_KEY")


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """One model of one server."""

    provider: Literal["openai", "azure"]
    model: str
    base_url: str


def endpoint(name: str, base_url: str | None = None, *, role: Role = JUDGE) -> ModelEndpoint:
    """Read ``model`` or ``provider/model``.

    ``openai/…`` without a base URL is OpenAI, ``azure/<deployment>`` is an Azure resource whose
    address is the base URL. With any other base URL the name goes to that server as it is, because
    many servers have slashes in their model names.

    Raises:
        ConfigurationError: An unknown provider without a base URL, or an address that is refused.
    """
    provider, slash, model = name.strip().partition("/")
    provider = provider.lower()
    if not name.strip() or (slash and not (provider and model)):
        raise ConfigurationError(f"{name!r} is not a model: expected `model` or `provider/model`")
    if base_url is not None:
        check_address(base_url, role)
    if slash and provider == "azure":
        if base_url is None:
            raise ConfigurationError(
                f"{name!r} needs the address of your Azure resource: set {role.base_url} or "
                "base_url= to https://<resource>.openai.azure.com"
            )
        return ModelEndpoint("azure", model, base_url.rstrip("/"))
    if base_url is not None and base_url.rstrip("/") != OPENAI_URL:
        return ModelEndpoint("openai", name.strip(), base_url.rstrip("/"))
    if slash and provider != "openai":
        raise ConfigurationError(
            f"no address is known for {provider!r} of {name!r}: set {role.base_url} or "
            "base_url= to its OpenAI-compatible server, or pass an LLM object of your own"
        )
    return ModelEndpoint("openai", model if slash else name.strip(), OPENAI_URL)


def access(base_url: str | None, api_key: Secret | str | None) -> tuple[str | None, Secret | None]:
    """Take address and key from the environment where neither is given.

    Only both together: the environment's key belongs to the environment's server.
    """
    if base_url is None and api_key is None:
        settings = from_environment(problems=[])
        return settings.judge_base_url, settings.judge_api_key
    return base_url, Secret(api_key) if isinstance(api_key, str) else api_key


def check_address(base_url: str, role: Role) -> None:
    """Refuse an address that nothing should be sent to; warn once of one without encryption.

    Raises:
        ConfigurationError: It cannot be read, holds credentials, or is link-local.
    """
    whose = f"the {role.name}'s base URL"
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        raise ConfigurationError(f"{whose} cannot be read") from None
    if parts.username or parts.password or "@" in parts.netloc:
        raise ConfigurationError(f"{whose} holds credentials: take them out and set {role.api_key}")
    shown = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"{whose} {shown!r} must begin with https://")
    address = _address(host)
    if address is not None and address.is_link_local:
        raise ConfigurationError(f"{whose} {shown!r} is a link-local address: refused")
    if parts.scheme == "http" and not _is_loopback(host, address) and shown not in _warned:
        _warned.add(shown)
        _log.warning(
            "%s requests and their key travel unencrypted to %s: use https://", role.name, shown
        )


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an IP address in any spelling a resolver takes, such as ``0xA9FEA9FE``."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _is_loopback(host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    return address.is_loopback if address is not None else host.lower() == "localhost"


AZURE_API_VERSION = "2024-10-21"
"""The oldest stable version that knows structured outputs."""


_Client = TypeVar("_Client", bound=Any)


class PerLoop(Generic[_Client]):
    """Makes, keeps and closes one client for each event loop.

    A client closes when its loop ends: an asynchronous generator holds it, and ``asyncio.run``
    finishes those before it closes the loop.
    """

    def __init__(self, make: Callable[[], _Client]) -> None:
        self._make_one = make
        self._held: dict[Any, tuple[_Client, AsyncGenerator[_Client, None]]] = {}
        """By event loop."""

    async def client(self) -> _Client:
        """Return the running loop's client, made and warmed on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            for ended in [other for other in list(self._held) if other.is_closed()]:
                self._held.pop(ended, None)
            lifetime = self._lifetime(loop)
            held = self._held[loop] = (await lifetime.__anext__(), lifetime)
        return held[0]

    async def close(self) -> None:
        """Close the running loop's client."""
        held = self._held.get(asyncio.get_running_loop())
        if held is not None:
            await held[1].aclose()

    async def _lifetime(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[_Client, None]:
        client = self._make_one()
        try:
            yield client
        finally:
            self._held.pop(loop, None)
            await client.close()


class HasClients:
    """A model that holds a client for each event loop."""

    _clients: Any
    """Its `PerLoop`."""

    async def warm(self) -> None:
        """Make the running loop's client now, so that no judgement pays for the imports."""
        await self._clients.client()

    async def aclose(self) -> None:
        """Close the running loop's client; ``asyncio.run`` does it by itself."""
        await self._clients.close()


class Clients(PerLoop[HttpClient]):
    """The clients of one endpoint.

    Args:
        endpoint: The model and its server.
        key: What the server knows us by.
        api_version: The version of Azure's API.
        role: What the model is for.
        of_openai: Whether the server is OpenAI's, or takes its place. Any other gets none of the
            headers that the environment has for OpenAI.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        key: Secret | None,
        *,
        api_version: str | None = None,
        role: Role = JUDGE,
        of_openai: bool = True,
    ) -> None:
        super().__init__(self._make)
        if find_spec("httpx2") is None:
            raise missing_extra(f"a {role.name} model by name", "openai", "httpx2")
        if key is None and endpoint.base_url == OPENAI_URL:
            raise ConfigurationError(
                f"the {role.name} model {endpoint.model!r} needs a key: set {role.api_key} or "
                f"OPENAI_API_KEY, or {role.base_url} for a server that needs none"
            )
        self._endpoint = endpoint
        self._key = key
        self._of_openai = of_openai
        self._api_version = api_version or AZURE_API_VERSION

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        seconds: float,
        decode: Callable[[bytes], Any] = json.loads,
    ) -> Any:
        """Send one request and return its decoded answer.

        Raises:
            CallFailed: There is no answer in time, or none that can be read.
        """
        where = self._endpoint.base_url
        try:
            # The limits of the client are per read: a server that drips would hold it for ever.
            answer = await within(seconds, self._answer(path, body, seconds))
            if 200 <= answer.status < 300:
                return decode(answer.body)
            failure = request_refused(*answer, where, self._key)
        except asyncio.TimeoutError:
            failure = CallFailed("timeout", f"no answer within {seconds:.1f} s", retryable=True)
        except Exception as error:
            failure = call_failed(error, where)
        raise failure  # not in the handler: the context would hold the request and its key

    async def _answer(self, path: str, body: Mapping[str, Any], seconds: float) -> HttpAnswer:
        client = await self.client()
        return await client.post(path, body, seconds)

    def _make(self) -> HttpClient:
        key = self._key.reveal() if self._key is not None else "none"
        base_url = self._endpoint.base_url
        headers = openai_headers() if self._of_openai else {}
        if self._endpoint.provider == "azure":
            deployment = f"{base_url}/openai/deployments/{self._endpoint.model}"
            query = f"?api-version={self._api_version}"
            return HttpClient(deployment, {**headers, "api-key": key}, query)
        return HttpClient(base_url, {**headers, "authorization": f"Bearer {key}"})
