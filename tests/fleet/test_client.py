"""The factory of Redis clients."""

import pickle

import pytest

from llmeval_sdk import config
from llmeval_sdk.config.redis_address import RedisAddress
from llmeval_sdk.config.shared import SharedSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.policy.shared.client import connect


@pytest.mark.parametrize(
    "address", ["", "localhost:6379", "http://host:1", "redis://", "redis://host:port"]
)
def test_an_address_that_is_none_says_what_is_expected(address):
    """A person is told which form an address has."""
    with pytest.raises(ConfigurationError, match="expected redis://"):
        connect(address)


def test_a_password_is_shown_nowhere():
    """Neither settings nor errors hold the password of an address."""
    problems = []
    settings = config.from_environment(
        {"LLMEVAL_SHARED": "rediss://:hidden-word@host:7000/3?ssl_ca_certs=/ca"}, problems=problems
    )
    address = settings.of(SharedSettings).shared
    assert not problems
    assert address.place == "rediss://host:7000/3"
    assert b"hidden-word" not in pickle.dumps(address)
    assert "hidden-word" not in repr(settings)
    config.from_environment({"LLMEVAL_SHARED": "http://:hidden-word@host"}, problems=problems)
    assert len(problems) == 1
    assert "hidden-word" not in problems[0]
    with pytest.raises(ConfigurationError) as raised:
        connect("redis://:hidden-word@host:1/?no_such_option=1").ping()
    assert "hidden-word" not in str(raised.value)


def test_code_may_set_the_address():
    """`configure(shared=…)` is checked and concealed like the variable."""
    settings = config.from_environment({}, shared="redis://:hidden-word@host")
    assert isinstance(settings.of(SharedSettings).shared, RedisAddress)
    with pytest.raises(ConfigurationError, match="expected redis://"):
        config.from_environment({}, shared="host")


def test_a_redis_that_is_not_there_fails_at_once():
    """Nothing is tried a second time behind the caller's back."""
    from redis.exceptions import ConnectionError as NoConnectionError

    with pytest.raises(NoConnectionError):
        connect("redis://127.0.0.1:1").ping()
