"""Where a judge model lives: its name and address, checked before anything is sent there."""

from __future__ import annotations

import ipaddress
import logging
import socket
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import ConfigurationError


OPENAI_URL = "https://api.openai.com/v1"

_log = logging.getLogger("llmeval_sdk")
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model of one server."""

    provider: Literal["openai", "azure"]
    model: str
    base_url: str

    @property
    def is_plain_http(self) -> bool:
        """Whether requests travel unencrypted."""
        return self.base_url.startswith("http:")


def endpoint(name: str, base_url: str | None = None) -> Endpoint:
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
        raise ConfigurationError(f"{name!r} is no model: expected `model` or `provider/model`")
    if base_url is not None:
        _check(base_url)
    if slash and provider == "azure":
        if base_url is None:
            raise ConfigurationError(
                f"{name!r} needs the address of your Azure resource: set LLMEVAL_JUDGE_BASE_URL or "
                "base_url= to https://<resource>.openai.azure.com"
            )
        return Endpoint("azure", model, base_url.rstrip("/"))
    if base_url is not None and base_url.rstrip("/") != OPENAI_URL:
        return Endpoint("openai", name.strip(), base_url.rstrip("/"))
    if slash and provider != "openai":
        raise ConfigurationError(
            f"no address is known for {provider!r} of {name!r}: set LLMEVAL_JUDGE_BASE_URL or "
            "base_url= to its OpenAI-compatible server, or pass an LLM object of your own"
        )
    return Endpoint("openai", model if slash else name.strip(), OPENAI_URL)


def access(base_url: str | None, api_key: Secret | str | None) -> tuple[str | None, Secret | None]:
    """Take address and key from the environment where neither is given.

    Only both together: the environment's key belongs to the environment's server.
    """
    if base_url is None and api_key is None:
        settings = from_environment(problems=[])
        return settings.judge_base_url, settings.judge_api_key
    return base_url, Secret(api_key) if isinstance(api_key, str) else api_key


def _check(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        raise ConfigurationError("the judge's base URL cannot be read") from None
    if parts.username or parts.password or "@" in parts.netloc:
        raise ConfigurationError(
            "the judge's base URL holds credentials: take them out and set LLMEVAL_JUDGE_API_KEY"
        )
    shown = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"the judge's base URL {shown!r} must begin with https://")
    address = _address(host)
    if address is not None and address.is_link_local:
        raise ConfigurationError(f"the judge's base URL {shown!r} is a link-local address: refused")
    if parts.scheme == "http" and not _is_loopback(host, address) and shown not in _warned:
        _warned.add(shown)
        _log.warning("judge requests and their key travel unencrypted to %s: use https://", shown)


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
