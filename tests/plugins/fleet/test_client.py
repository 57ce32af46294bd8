"""The factory of Redis clients."""

import pickle
import shutil
import socket
import subprocess

import pytest
from redis_server import SERVER, WHY_SKIPPED, running_redis

from llmeval_sdk import config
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.shared.redis_client import connect
from llmeval_sdk.plugins.shared.settings import RedisAddress, SharedSettings


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


@pytest.mark.skipif(
    SERVER is None or shutil.which("openssl") is None, reason=f"{WHY_SKIPPED}, or openssl is not"
)
def test_an_encrypted_connection_checks_the_certificate(tmp_path):
    """`rediss://` talks to a server whose authority is known, and to no other."""
    from redis.exceptions import RedisError

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        "--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key),
        "--tls-auth-clients", "no", "--tls-ca-cert-file", str(certificate),
    )  # fmt: skip
    with running_redis(tmp_path / "redis", *options):
        address = f"rediss://localhost:{port}/0"
        assert connect(f"{address}?ssl_ca_certs={certificate}").ping()
        with pytest.raises(RedisError, match=r"(?i)certificate"):
            connect(address).ping()
