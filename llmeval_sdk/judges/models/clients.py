"""Where a model lives, the clients that reach it, and what can go wrong on the way.

An address is checked before anything is sent to it. Each event loop has a client of its own,
because a connection belongs to the loop that opened it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import socket
import ssl
import sys
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from inspect import unwrap
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from llmeval_sdk.config import Secret, from_environment, openai_headers
from llmeval_sdk.errors import ConfigurationError, JudgeError, missing_extra
from llmeval_sdk.model import NOTHING, Usage
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.retries import retry_after
from llmeval_sdk.process.threads import within


if TYPE_CHECKING:
    from openai import AsyncOpenAI


# What can go wrong with a request. Errors hold neither the key nor the request.


class AnswerRefusedError(Exception):
    """An answer that is too large, or encoded in a way nobody asked for; read no further."""


MESSAGE_CHARACTERS = 300
"""How much of a server's own message is kept."""

_LEAST_SECRET = 8
"""A shorter key is a placeholder for a server that asks for none, or the scheme before a token;
cutting out its letters would spoil what the server says."""

_TOO_LONG = (
    "context_length_exceeded", "max_tokens_exceeded", "maximum context length",
    "exceed_context_size",
)  # fmt: skip
"""What OpenAI, TypeSafe, vLLM with SGLang, and llama.cpp say of an input that does not fit."""

_FILTERED = ("content_filter", "content_policy", "responsibleaipolicy", "invalid_prompt")
"""``invalid_prompt`` is what OpenAI says of a prompt that was flagged."""


class CallFailed(JudgeError):  # noqa: N818 - reads as what happened
    """One request that gave no reply; ``status`` is the HTTP status, where there was one."""

    def __init__(
        self, reason: str, message: str = "", *, status: int | None = None, **rest: Any
    ) -> None:
        super().__init__(reason, message, **rest)
        self.status = status

    def of_call(self, usage: Usage | None = None) -> JudgeError:
        """Return what the whole call failed of, with what its requests used all the same."""
        return JudgeError(
            self.type,
            str(self),
            retryable=self.retryable,
            retry_after=self.retry_after,
            usage=usage,
        )


Refusal = Callable[[int, Mapping[str, str], bytes, str, Collection[str]], CallFailed]
"""Classifies an answer that is an error, as `request_refused` does."""


def failed(
    error: Exception,
    where: str,
    key: Secret | None,
    *,
    package: str,
    refused: Refusal | None = None,
) -> CallFailed:
    """Classify what a vendor's client raised; ``package`` is where its own errors come from."""
    if isinstance(error, CallFailed):
        return error
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    body = getattr(response, "content", None)  # those of azure-core have none
    if response is not None and isinstance(status, int) and isinstance(body, bytes):
        secrets = _secrets(response, key)
        return (refused or request_refused)(status, response.headers, body, where, secrets)
    while type(error).__module__.startswith(package) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if any(kind.__name__ == "TimeoutException" for kind in type(error).__mro__):
        return CallFailed("timeout", f"no answer from {where} in time", retryable=True)
    return _call_failed(error, where)


_CREDENTIALS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")


def _secrets(response: object, key: Secret | None) -> list[str]:
    """Return the key, and the credentials that a client of the app's sent, the longest first."""
    secrets = [] if key is None else [key.reveal()]
    with suppress(RuntimeError):  # a response that knows of no request
        headers = getattr(getattr(response, "request", None), "headers", {})
        for name in _CREDENTIALS:
            secrets += str(headers.get(name, "")).split()  # without the scheme
    return sorted((text for text in secrets if len(text) >= _LEAST_SECRET), key=len, reverse=True)


def _call_failed(error: Exception, where: str) -> CallFailed:
    """Classify what was raised while a request was sent or its answer was read."""
    cause = _root(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # of httpx or of httpx2
    if isinstance(error, ImportError) or kinds & {"LocalProtocolError", "InvalidURL"}:
        kind = type(error).__name__
        return CallFailed("bad_request", f"the request to {where} cannot be made ({kind})")
    if isinstance(error, AnswerRefusedError):
        return CallFailed("malformed", f"the answer of {where} is not read: {error}")
    if isinstance(error, (ValueError, RecursionError, zlib.error)):
        kind = type(cause).__name__
        return CallFailed("malformed", f"the answer of {where} cannot be read ({kind})")
    return CallFailed(
        "unavailable",
        f"no connection to {where} ({type(cause).__name__})",
        retryable=not isinstance(cause, ssl.SSLCertVerificationError),
    )


def request_refused(  # noqa: PLR0911
    status: int, headers: Mapping[str, str], body: bytes, where: str, secrets: Collection[str]
) -> CallFailed:
    """Classify an answer that is an error; secrets are cut out of whatever the server said."""
    about = _about(body)
    said = _said(about, secrets)
    code = str(about.get("code") or "").lower() if isinstance(about, Mapping) else ""
    words = f"{code} {about or ''}".lower()
    after = retry_after(headers)

    def failed(reason: str, hint: str = "", **rest: Any) -> CallFailed:
        message = f"{where} answered {status}" + (f": {said}" if said else "") + hint
        return CallFailed(reason, message, status=status, **rest)

    if any(word in words for word in _FILTERED):
        return failed("refused")
    if status in (401, 403):
        return failed("unauthorized", " (check the API key)")
    if status == 404:
        return failed("not_found", " (check the model's name and the path of the base URL)")
    if status in (402, 429):
        is_spent = status == 402 or "insufficient_quota" in words
        return failed("rate_limited", retryable=not is_spent, retry_after=after)
    if status == 413 or any(word in words for word in _TOO_LONG):
        return failed("too_long")
    if status == 408:
        return failed("timeout", retryable=True)
    if 300 <= status < 400:
        return failed("unavailable", " (redirects are not followed)")
    if status >= 500 or status == 409:
        return failed("unavailable", retryable=True, retry_after=after)
    return failed("bad_request")


def _about(body: bytes) -> Any:
    """Return what the body of an error says: the value of ``error``, all of it, or a text."""
    try:
        whole = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")
    return whole.get("error", whole) if isinstance(whole, Mapping) else whole


def _said(about: object, secrets: Collection[str]) -> str:
    text = " ".join(_message(about).split()) if isinstance(about, Mapping) else ""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text[:MESSAGE_CHARACTERS]


_MESSAGES = ("error", "message", "msg", "detail", "errors")
"""Where servers put what they say, the first that is there. Beside it, FastAPI repeats the input,
which is never shown."""


def _message(body: Any, depth: int = 4) -> str:
    """Return what a server says in the body of an error: an object, several, or a text."""
    if isinstance(body, str) or not depth:
        return body if isinstance(body, str) else ""
    if isinstance(body, list):
        return "; ".join(filter(None, (_message(part, depth - 1) for part in body[:3])))
    if not isinstance(body, Mapping):
        return ""
    said = next(filter(None, (_message(body.get(name), depth - 1) for name in _MESSAGES)), "")
    place = body.get("loc")
    return f"{'.'.join(map(str, place[:8]))}: {said}" if said and isinstance(place, list) else said


def _root(error: BaseException) -> BaseException:
    """Return the innermost error of the network, else of all; others may lie below it by chance."""
    network = None
    for _ in range(20):
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
        network = error if isinstance(error, OSError) else network
    return network or error


# The HTTP client that we hand to a vendor's client: how much of an answer is read, and who sees it.

CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 4 << 20
"""Bytes of one HTTP answer, before and after decoding."""
_MAX_CONNECTIONS = 1_000
"""More than requests are made at a time: those wait for their turn at the rate limiter."""
_MAX_IDLE_CONNECTIONS = 100


def bounded_client(
    library: ModuleType, base_url: str, headers: Mapping[str, str | None] = NOTHING
) -> Any:
    """Make a client of ``httpx2`` or ``httpx`` that reads at most `MAX_ANSWER_BYTES` of an answer.

    It follows no redirect, because a redirect would carry the key to another host. Tools that have
    patched the library's client see nothing of it: a judge's request is not the app's.

    ``headers`` are set on each request whatever the vendor's client has put there, such as a
    credential from the environment; a header that is ``None`` is taken away.
    """
    client = _bounded_class(library)(
        headers={"accept-encoding": "gzip"},
        limits=library.Limits(
            max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_IDLE_CONNECTIONS
        ),
        timeout=library.Timeout(None, connect=CONNECT_SECONDS),
        # A proxy named in the environment may tunnel what is encrypted, not read the rest.
        trust_env=urlsplit(base_url).scheme != "http",
        verify=_tls_context(library),
    )
    sent = {name: value for name, value in headers.items() if value is not None}
    client.settled = frozenset(name.lower().encode() for name in headers)
    client.settled_headers = library.Headers(sent)  # whose repr hides the key
    _unobserve(client)
    return client


_asks_for_judge: ContextVar[bool] = ContextVar("asks_for_judge", default=False)


def _unobserve(http: object) -> None:
    """Have an HTTP client send requests of judges as its library wrote it, whatever tools wrap.

    The app's own requests through the same client stay observed.
    """
    for name in ("send", "_send_single_request"):
        owner = next((kind for kind in type(http).__mro__ if name in vars(kind)), None)
        if owner is not None and owner.__module__.partition(".")[0] in ("httpx", "httpx2"):
            setattr(http, name, _unobserved_for_judges(http, name, unwrap(getattr(owner, name))))


def _unobserved_for_judges(
    http: object, name: str, as_written: Callable[..., Awaitable[object]]
) -> Callable[..., Awaitable[object]]:
    of_instance = vars(http).get(name)

    def send(*arguments: object, **options: object) -> Awaitable[object]:
        if _asks_for_judge.get():
            return as_written(http, *arguments, **options)
        usual = of_instance or MethodType(getattr(type(http), name), http)
        sent: Awaitable[object] = usual(*arguments, **options)
        return sent

    return send


@cache
def _bounded_class(library: ModuleType) -> Any:
    as_written = unwrap(library.AsyncClient.send)

    class BoundedStream(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        """The body of an answer, decoded no further than the limit."""

        def __init__(self, stream: Any, *, is_gzip: bool) -> None:
            self._stream = stream
            self._is_gzip = is_gzip

        def __aiter__(self) -> AsyncIterator[bytes]:
            return _bounded(self._stream, is_gzip=self._is_gzip)

        async def aclose(self) -> None:
            await self._stream.aclose()

    class BoundedClient(library.AsyncClient):  # type: ignore[misc, name-defined]
        """A client whose answers are bounded, and that no instrumentation has wrapped."""

        settled: frozenset[bytes]
        settled_headers: Any

        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            # Those that describe the app's machine to whoever runs the server go as well.
            kept = [
                (name, value)
                for name, value in request.headers.raw
                if (lower := name.lower()) not in self.settled
                and not lower.startswith(b"x-stainless-")
            ]
            request.headers = library.Headers(kept + self.settled_headers.raw)
            options["follow_redirects"] = False
            response = await as_written(self, request, stream=True, **options)
            try:
                is_gzip = _is_gzip(response.headers)
                response.headers.pop("content-encoding", None)  # decoded by the stream
                response.stream = BoundedStream(response.stream, is_gzip=is_gzip)
                if not stream:
                    await response.aread()
            except BaseException:
                await response.aclose()
                raise
            return response

    return BoundedClient


async def _bounded(stream: AsyncIterable[bytes], *, is_gzip: bool) -> AsyncIterator[bytes]:
    inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if is_gzip else None
    received = decoded = 0
    async for raw in stream:
        part = raw if inflate is None else inflate.decompress(raw, MAX_ANSWER_BYTES - decoded + 1)
        received += len(raw)
        decoded += len(part)
        if max(received, decoded) > MAX_ANSWER_BYTES:
            raise _too_large()
        yield part


def _is_gzip(headers: Any) -> bool:
    """Say whether an answer is compressed.

    Raises:
        AnswerRefusedError: It is encoded in a way that was not asked for, or too long.
    """
    encodings = [
        name
        for part in headers.get_list("content-encoding", split_commas=True)
        if (name := part.strip().lower()) not in ("", "identity")
    ]
    if any(name not in ("gzip", "x-gzip") for name in encodings) or len(encodings) > 1:
        raise AnswerRefusedError(f"it is encoded as {', '.join(encodings)[:60]}")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_ANSWER_BYTES:
        raise _too_large()
    return bool(encodings)


def http_library(client: ModuleType) -> ModuleType:
    """Return the HTTP library of a release of OpenAI's or Google's client."""
    return import_module("httpx2" if int(client.__version__.partition(".")[0]) >= 3 else "httpx")


def _too_large() -> AnswerRefusedError:
    return AnswerRefusedError(f"it is larger than {MAX_ANSWER_BYTES >> 20} MiB")


@cache
def _tls_context(library: ModuleType) -> ssl.SSLContext:
    """Build the verifying TLS context once for all clients: it costs some 20 ms of CPU."""
    context: ssl.SSLContext = library.create_ssl_context()
    return context


@contextmanager
def unobserved() -> Iterator[None]:
    """Keep a judge's calls out of what tools trace of the app."""
    asks = _asks_for_judge.set(True)
    try:
        with _suppressed():
            yield
    finally:
        with suppress(ValueError):  # the call was thrown away in another context
            _asks_for_judge.reset(asks)


@contextmanager
def _suppressed() -> Iterator[None]:
    """Switch off the instrumentations of OpenTelemetry, where the app has loaded it."""
    context = sys.modules.get("opentelemetry.context")
    key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", None)
    if context is None or key is None:
        yield
        return
    token = context.attach(context.set_value(key, True))
    try:
        yield
    finally:
        context.detach(token)


# Where a model lives.

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
        settings.check_readable("judge_base_url")
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


_Answer = TypeVar("_Answer")
_Made = TypeVar("_Made")
_Client = TypeVar("_Client", bound="Closable")


class Closable(Protocol):
    """A client of a vendor, as far as it is kept and closed here."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class _Held(Generic[_Client]):
    """The client of one event loop in one process."""

    client: _Client
    lifetime: AsyncGenerator[_Client, None]
    process: int


class PerLoop(Generic[_Client]):
    """Makes, keeps and closes one client for each event loop of each process.

    A client closes when its loop ends: an asynchronous generator holds it, and ``asyncio.run``
    finishes those before it closes the loop. After a fork a loop gets another client, because the
    connections are those of the parent process.
    """

    def __init__(self, make: Callable[[], _Client]) -> None:
        self._make_one = make
        self._held: dict[asyncio.AbstractEventLoop, _Held[_Client]] = {}

    async def client(self) -> _Client:
        """Return the running loop's client, made on first use."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None or held.process != os.getpid():
            for ended in [other for other in list(self._held) if other.is_closed()]:
                self._held.pop(ended, None)
            if held is not None:
                _of_parents.append(held)
            lifetime = self._lifetime(loop, os.getpid())
            held = self._held[loop] = _Held(await lifetime.__anext__(), lifetime, os.getpid())
        return held.client

    async def close(self) -> None:
        """Close the running loop's client."""
        held = self._held.get(asyncio.get_running_loop())
        if held is not None:
            await held.lifetime.aclose()

    async def _lifetime(
        self, loop: asyncio.AbstractEventLoop, process: int
    ) -> AsyncGenerator[_Client, None]:
        client = self._make_one()
        try:
            yield client
        finally:
            if process == os.getpid():  # else it closes the parent's connections, TLS included
                self._held.pop(loop, None)
                await client.close()


class KeepsClients(Protocol):
    """A `PerLoop` of any clients."""

    async def client(self) -> object:
        """Return the running loop's client, made on first use."""

    async def close(self) -> None:
        """Close the running loop's client."""


ClientsT = TypeVar("ClientsT", bound=KeepsClients)
_of_parents: list[object] = []
"""Clients of parent processes. They are kept alive, because a finaliser would close them here."""


class HasClients(Generic[ClientsT]):
    """A model that holds a client for each event loop."""

    _clients: ClientsT

    async def warm(self) -> None:
        """Make the running loop's client now, so that no judgement pays for the imports.

        A client that cannot be made is no error here: the call that needs it says why.
        """
        with suppress(Exception):
            await self._clients.client()

    async def aclose(self) -> None:
        """Close the running loop's client; ``asyncio.run`` does it by itself."""
        await self._clients.close()


MakeClient: TypeAlias = "Callable[[], AsyncOpenAI]"
"""A function of the app that makes its own client. It is called on the event loop of the judges,
where a client may need a running loop, so that it must not block."""


def _http_of(client: object) -> object:
    """Return the HTTP client of a client of OpenAI's or Anthropic's."""
    return getattr(client, "_client", None)


def own_client(
    make: Callable[[], _Made],
    check: Callable[[_Made], None],
    http_of: Callable[[_Made], object] = _http_of,
) -> Callable[[], _Made]:
    """Return a function that calls the app's, and takes no client and no HTTP client twice.

    ``check`` raises `CallFailed` where the client is not one that can be used; ``http_of`` returns
    the HTTP client within.

    Raises:
        ConfigurationError: It is not a function.
    """
    if not callable(make):
        raise ConfigurationError(
            f"client= takes a function that makes a client, not {type(make).__name__}: each event "
            "loop needs a client of its own, as in `client=lambda: AsyncOpenAI(…)`"
        )
    seen: WeakSet[object] = WeakSet()

    def new() -> _Made:
        try:
            client = make()
        except Exception as error:
            why = f"the function of client= raised {type(error).__name__}"
            raise CallFailed("unavailable", why, retryable=True) from None
        check(client)
        http = http_of(client)
        for kind, made in (("client", client), ("HTTP client", http)):
            if made is None:
                continue
            if made in seen:
                raise CallFailed(
                    "bad_request",
                    f"the function of client= returned the same {kind} for a second event loop: it "
                    f"has to make a new {kind} each time",
                )
            seen.add(made)
        _unobserve(http)
        return client

    return new


def name_of(function: object) -> str:
    """Return what a function of the app is called."""
    return str(getattr(function, "__name__", type(function).__name__))


OWN = "the server of client="
"""Stands for the address of a server that only a client of the app's knows."""


async def asked(
    call: Coroutine[object, object, _Answer],
    seconds: float,
    classified: Callable[[Exception], CallFailed],
) -> _Answer:
    """Await a request for so many seconds, and say in our types what went wrong.

    Raises:
        CallFailed: There is no answer in time, or none that can be read.
    """
    try:
        # The limits of the client are per read: a server that drips would hold it for ever.
        return await within(seconds, call)
    except asyncio.TimeoutError:
        failure = CallFailed("timeout", f"no answer within {seconds:.1f} s", retryable=True)
    except Exception as error:
        try:
            failure = classified(error)
        except Exception:
            kind = type(error).__name__
            failure = CallFailed("unavailable", f"no answer ({kind})", retryable=True)
    raise failure  # not in the handler: the context would hold the request and its key


class Clients(PerLoop["AsyncOpenAI"]):
    """The clients of one endpoint, all of them ``AsyncOpenAI``.

    Args:
        endpoint: The model and its server.
        key: What the server knows us by.
        api_version: The version of Azure's API.
        role: What the model is for.
        of_openai: Whether the server is OpenAI's, or takes its place. Any other gets none of the
            headers that the environment has for OpenAI.
        own: Makes a client of the app's, which has its own address and credentials.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        key: Secret | None,
        *,
        api_version: str | None = None,
        role: Role = JUDGE,
        of_openai: bool = True,
        own: MakeClient | None = None,
    ) -> None:
        super().__init__(self._make if own is None else own_client(own, self._check))
        if find_spec("openai") is None:
            raise missing_extra(f"a {role.name} model by name", "openai", "openai")
        if own is None and key is None and endpoint.base_url == OPENAI_URL:
            raise ConfigurationError(
                f"the {role.name} model {endpoint.model!r} needs a key: set {role.api_key} or "
                f"OPENAI_API_KEY, or {role.base_url} for a server that needs none"
            )
        self._endpoint = endpoint
        self._where = endpoint.base_url if own is None else OWN
        self._key = key
        self._of_openai = of_openai
        self._api_version = api_version or AZURE_API_VERSION

    async def post(
        self,
        path: str,
        body: Mapping[str, object],
        seconds: float,
        decode: Callable[[bytes], _Answer] = json.loads,
    ) -> _Answer:
        """Send one request and return its decoded answer.

        Raises:
            CallFailed: There is no answer in time, or none that can be read.
        """
        return await asked(self._answer(path, body, seconds, decode), seconds, self._classified)

    def _classified(self, error: Exception) -> CallFailed:
        return failed(error, self._where, self._key, package="openai")

    async def _answer(
        self,
        path: str,
        body: Mapping[str, object],
        seconds: float,
        decode: Callable[[bytes], _Answer],
    ) -> _Answer:
        client = await self.client()
        library = _library()
        timeout = library.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        # Not `chat.completions.create`, which costs half as much again, and which tools patch.
        post = partial(
            client.post,
            path,
            cast_to=library.Response,
            options={"max_retries": 0, "timeout": timeout},
        )
        with unobserved():
            try:
                response = await post(body=body)
            except UnicodeEncodeError:  # half a character is no text
                response = await post(body=_whole(body))
        return decode(response.content)

    def _check(self, client: AsyncOpenAI) -> None:
        """Refuse what is not a client; know the key of one, to cut it out of what servers say."""
        with loading:
            import openai

        if not isinstance(client, openai.AsyncOpenAI):
            why = f"client= has to make an AsyncOpenAI, not {type(client).__name__}"
            raise CallFailed("bad_request", why)
        if isinstance(client.api_key, str):
            self._key = Secret(client.api_key)

    def _make(self) -> AsyncOpenAI:
        with loading:
            import openai

        key = self._key.reveal() if self._key is not None else "none"
        base_url = self._endpoint.base_url
        headers: dict[str, str | None] = dict(openai_headers())
        if not self._of_openai:
            headers = dict.fromkeys(headers)
        client: AsyncOpenAI
        if self._endpoint.provider == "azure":
            headers |= {"authorization": None, "api-key": key}
            client = openai.AsyncAzureOpenAI(
                base_url=f"{base_url}/openai/deployments/{self._endpoint.model}",
                api_version=self._api_version,
                api_key=key,
                max_retries=0,
                http_client=bounded_client(_library(), base_url, headers),
            )
        else:
            headers["authorization"] = f"Bearer {key}"
            client = openai.AsyncOpenAI(
                base_url=base_url,
                api_key=key,
                max_retries=0,
                http_client=bounded_client(_library(), base_url, headers),
            )
        # Else it has a thread of the loop's executor look for the platform, for a header that is
        # not sent; and a thread that did not survive a fork never answers.
        client._platform = "Unknown"
        return client


@cache
def _library() -> ModuleType:
    with loading:
        import openai

    return http_library(openai)


def _whole(body: Mapping[str, object]) -> object:
    """Return a body with a question mark in the place of each half character."""
    return json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
