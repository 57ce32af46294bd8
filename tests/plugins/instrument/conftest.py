"""The clients of providers, instrumented for one test, against a server on loopback."""

import pytest
from provider_server import running_provider

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.testing import capture


pytest.importorskip("openinference.instrumentation.openai", reason="needs the extra instrument")

QUESTION = [{"role": "user", "content": "Which roof?"}]


@pytest.fixture
def provider():
    with running_provider() as provider:
        yield provider


@pytest.fixture
def records():
    """Every record that is evaluated, in order."""
    kept = []

    @llmeval.heuristic
    def what_was_seen(record: llmeval.Record) -> float:
        kept.append(record)
        return 1.0

    yield kept
    registry.forget("what_was_seen")


@pytest.fixture
def seen(records):
    with capture() as seen:
        yield seen


@pytest.fixture(autouse=True)
def _uninstrumented():
    from llmeval_sdk.plugins.instrument.patching import uninstrument

    yield
    uninstrument()


@pytest.fixture
def openai_client(provider):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def ask(openai_client):
    def ask(**options):
        return openai_client.chat.completions.create(model="gpt-4o", messages=QUESTION, **options)

    return ask
