"""Azure is reached in its own way, and TLS is always verified."""

import shutil
import ssl
import subprocess

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import OpenAILLM


KEY = "azure-marker-77"


def test_azure_gets_its_path_version_and_key_header(serve, ask):
    """The deployment is in the path, the key in `api-key`, and a verdict comes back."""
    server = serve()
    resource = server.base_url.removesuffix("/v1")
    llm = OpenAILLM("azure/judge-one", base_url=resource, api_key=KEY, timeout=5)
    assert ask(server, llm=llm).text
    seen = server.requests[0]
    assert seen.path == "/openai/deployments/judge-one/chat/completions"
    assert seen.headers["api-key"] == KEY
    assert KEY not in repr(llm) + repr(vars(llm))


def test_azure_failures_are_typed_and_keep_the_key(serve, ask):
    """The same types and the same silence as with OpenAI."""
    server = serve(default="not_found")
    llm = OpenAILLM("azure/none", base_url=server.base_url.removesuffix("/v1"), api_key=KEY)
    with pytest.raises(JudgeError) as caught:
        ask(server, llm=llm)
    assert caught.value.type == "not_found"
    assert KEY not in str(caught.value)


@pytest.fixture
def certificate(tmp_path):
    """A certificate that nobody vouches for, and its key."""
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("needs the openssl command to make a certificate")
    made, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [tool, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate, serve, ask):
    """No key and no content is sent, and trying again would not help."""
    server = serve()
    listening = server._server
    listening.socket = certificate.wrap_socket(listening.socket, server_side=True)
    llm = OpenAILLM(
        "m", base_url=server.base_url.replace("http:", "https:"), api_key=KEY, timeout=5
    )
    with pytest.raises(JudgeError) as caught:
        ask(server, llm=llm)
    assert (caught.value.type, caught.value.retryable) == ("unavailable", False)
    assert "SSLCertVerificationError" in str(caught.value)
    assert server.requests == []
