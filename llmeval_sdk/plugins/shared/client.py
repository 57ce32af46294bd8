"""Makes the clients of Redis: the one place that imports the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.plugins.shared.redis_address import RedisAddress


if TYPE_CHECKING:
    from redis import Redis


KEYS = "llmeval."
"""With this begins the name of every key."""


def is_redis_error(error: BaseException) -> bool:
    """Say whether the library raised an error, without importing it where nobody has."""
    return type(error).__module__.partition(".")[0] == "redis"


def connect(
    address: str | Secret, *, connect_seconds: float = 2.0, answer_seconds: float = 5.0
) -> Redis:
    """Make a client; it connects when it is first used, and threads may share it.

    It never tries again by itself, so that a command takes no longer than both timeouts together.
    With ``rediss://`` the certificate is checked; options such as ``?ssl_ca_certs=/path/ca.pem``
    stand in the address.

    Args:
        address: ``redis://…`` or ``rediss://…``.
        connect_seconds: how long a connection may take.
        answer_seconds: how long the answer to a command may take.

    Raises:
        ConfigurationError: the address cannot be used; the message does not hold its password.
        MissingExtraError: the library is not installed.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise missing_extra("What all hosts share", "fleet", "redis") from None
    text = address.reveal() if isinstance(address, Secret) else address
    try:
        place = RedisAddress(text).place
    except ValueError as problem:
        raise ConfigurationError(f"the address of Redis: {problem}") from None
    try:
        client: Redis = Redis.from_url(
            text.strip(),
            socket_connect_timeout=connect_seconds,
            socket_timeout=answer_seconds,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # with 3, the client also listens for notices of maintenance
            client_name="llmeval",
            decode_responses=False,
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # does not connect yet
    except Exception as error:  # an option in the address that the library does not know
        raise ConfigurationError(f"{place} cannot be used: {type(error).__name__}") from None
    return client
