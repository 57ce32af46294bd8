"""The client of OpenAI that judges ask by: the one that we make, and those that an app makes."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import traceback

import pytest

from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.judges.models import OpenAILLM, clients
from llmeval_sdk.model import Message
from llmeval_sdk.testing.judge_server import ServedAnswer


openai = pytest.importorskip("openai", reason="needs the extra openai")

KEY = "key-of-the-app-51d0"
ASKED = [Message("user", "question?")]


@pytest.fixture
def maker(serve):
    """A server, and a function that makes the app's clients for it and keeps them."""

    class Maker:
        def __init__(self):
            self.server = serve()
            self.made = []

        def __call__(self):
            client = openai.AsyncOpenAI(base_url=self.server.base_url, api_key=KEY)
            self.made.append(client)
            return client

    return Maker()


def test_an_own_client_brings_its_address_and_its_key(maker, ask, monkeypatch):
    """Nothing but the function is needed, and a key of the environment goes nowhere."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    llm = OpenAILLM("any/name", client=maker)
    assert ask(maker.server, llm=llm).text
    (seen,) = maker.server.chats
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body["model"] == "any/name"


def test_an_own_client_of_azure_finds_its_deployment(serve, ask):
    """Tokens, versions and paths are the client's affair."""
    server = serve()

    def make():
        return openai.AsyncAzureOpenAI(
            azure_endpoint=server.base_url.removesuffix("/v1"),
            api_version="2024-10-21",
            azure_ad_token="token-of-the-app",
        )

    assert ask(server, llm=OpenAILLM("judge-one", client=make)).text
    seen = server.requests[0]
    assert seen.path == "/openai/deployments/judge-one/chat/completions"
    assert seen.headers["authorization"] == "Bearer token-of-the-app"


def test_an_own_client_is_made_once_for_each_loop_and_closed_with_it(maker):
    """Calls of one loop share a client, and the next loop has another one."""
    llm = OpenAILLM("m", client=maker)

    async def thrice():
        await llm.warm()
        await asyncio.gather(*(llm.complete(ASKED) for _ in range(3)))

    asyncio.run(thrice())
    assert len(maker.made) == 1
    asyncio.run(thrice())
    assert len(maker.made) == 2
    assert all(client.is_closed() for client in maker.made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork_a_loop_has_another_client(serve):
    """Also where the child goes on with its parent's loop: the connections stay the parent's."""
    code = f"""
import asyncio, os
from llmeval_sdk.judges.models import OpenAILLM, clients
from llmeval_sdk.model import Message
llm = OpenAILLM("m", base_url={serve().base_url!r})
loop = asyncio.SelectorEventLoop()
def asked():
    assert loop.run_until_complete(llm.complete([Message("user", "?")])).text
    return llm._clients._held[loop].client
of_parent = asked()
child = os.fork()
if not child:
    of_child = asked()
    loop.run_until_complete(loop.shutdown_asyncgens())
    closed = of_child.is_closed(), of_parent.is_closed()
    os._exit(0 if of_child is not of_parent and closed == (True, False) else 1)
assert os.waitpid(child, 0)[1] == 0
assert asked() is of_parent
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork_the_function_is_called_again(maker):
    """A child has a client of its own, and so does the loop that its parent goes on with."""
    llm = OpenAILLM("m", client=maker)

    async def forked():
        await llm.complete(ASKED)
        child = os.fork()
        if not child:
            os._exit(_asked_in_a_child(llm, maker))
        await llm.complete(ASKED)
        return (await asyncio.to_thread(os.waitpid, child, 0))[1]

    assert asyncio.run(forked()) == 0
    assert len(maker.made) == 1


def _asked_in_a_child(llm, maker):
    try:
        asyncio.run(llm.complete(ASKED))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0 if len(maker.made) == 2 and not maker.made[0].is_closed() else 2


def test_one_client_for_two_loops_is_refused_with_what_to_do(maker):
    """A connection belongs to the loop that opened it, so that the function has to make another."""
    client = maker()
    llm = OpenAILLM("m", client=lambda: client)
    results = []

    async def once():
        results.append(await llm.complete(ASKED))

    asyncio.run(once())
    with pytest.raises(JudgeError, match="make a new client each time") as caught:
        asyncio.run(once())
    assert (caught.value.type, len(results)) == ("bad_request", 1)


def test_one_http_client_for_two_loops_is_refused_with_what_to_do(maker):
    """It holds the connections: the end of the first loop has closed it for everybody."""
    import httpx2

    shared = httpx2.AsyncClient()

    def make():
        return openai.AsyncOpenAI(base_url=maker.server.base_url, api_key=KEY, http_client=shared)

    llm = OpenAILLM("m", client=make)
    asyncio.run(llm.complete(ASKED))
    with pytest.raises(JudgeError, match="same HTTP client") as caught:
        asyncio.run(llm.complete(ASKED))
    assert (caught.value.type, caught.value.retryable) == ("bad_request", False)


def test_what_is_no_function_or_makes_no_client_is_refused(maker, ask):
    """The message says what to pass: in the constructor, or where the function is called."""
    with pytest.raises(ConfigurationError, match="client= takes a function"):
        OpenAILLM("m", client=maker())
    for made in (None, openai.OpenAI(api_key="k")):
        with pytest.raises(JudgeError, match="AsyncOpenAI") as caught:
            ask(maker.server, llm=OpenAILLM("m", client=lambda made=made: made))
        assert (caught.value.type, caught.value.retryable) == ("bad_request", False)


@pytest.mark.parametrize(
    "other", [{"base_url": "https://h/v1"}, {"api_key": "k"}, {"api_version": "1"}]
)
def test_an_address_or_a_key_beside_an_own_client_is_refused(maker, other):
    """They would be sent nowhere, and a person would not see it."""
    with pytest.raises(ConfigurationError, match="client= brings its own"):
        OpenAILLM("m", client=maker, **other)


def test_a_function_that_raises_is_a_failure_of_the_call(maker, ask):
    """A token that cannot be had now may be had later, and what it says stays out of the message."""

    def make():
        raise RuntimeError(f"secret {KEY}")

    llm = OpenAILLM("m", client=make, attempts=1)
    asyncio.run(llm.warm())
    with pytest.raises(JudgeError, match="RuntimeError") as caught:
        ask(maker.server, llm=llm)
    assert (caught.value.type, caught.value.retryable) == ("unavailable", True)
    assert KEY not in str(caught.value)


class RefusedToken(Exception):
    """The failure of a token request; its response has no ``content``, as those of azure-core."""

    def __init__(self):
        super().__init__("no token")
        self.response = type("Response", (), {"status_code": 401, "headers": {}, "body": KEY})()


def test_a_token_that_azure_refuses_is_a_failure_of_the_call(serve, ask):
    """Its response is not one of the judge's server, and nothing of it is kept."""
    server = serve()

    async def token():
        raise RefusedToken

    def make():
        return openai.AsyncAzureOpenAI(
            azure_endpoint=server.base_url.removesuffix("/v1"),
            api_version="2024-10-21",
            azure_ad_token_provider=token,
        )

    with pytest.raises(JudgeError, match="RefusedToken") as caught:
        ask(server, llm=OpenAILLM("m", client=make, attempts=1))
    assert (caught.value.type, caught.value.retryable) == ("unavailable", True)
    assert caught.value.__context__ is None
    assert not server.requests


def test_a_failure_that_cannot_be_classified_is_a_failure_of_the_call():
    """It shows neither the request nor what went wrong with its classification."""

    async def request():
        raise RuntimeError(KEY)

    def classified(error):
        raise AttributeError(KEY)

    with pytest.raises(clients.CallFailed, match="RuntimeError") as caught:
        asyncio.run(clients.asked(request(), 5.0, classified))
    assert (caught.value.type, caught.value.__context__) == ("unavailable", None)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("header", ["authorization", "api-key", "x-api-key"])
def test_a_credential_that_only_the_request_holds_is_cut_out_of_an_error(serve, ask, header):
    """A token of a provider, or a header of the client, that the server repeats in its answer."""
    secret = "token/of-the-app-77ab"
    said = {"error": {"message": f"bad token {secret}!"}}
    server = serve()
    body = json.dumps(said).replace("/", "\\/").encode()
    server.reply = lambda seen: ServedAnswer(401, body)

    def make():
        sent = {header: f"Bearer {secret}" if header == "authorization" else secret}
        return openai.AsyncOpenAI(base_url=server.base_url, api_key=KEY, default_headers=sent)

    with pytest.raises(JudgeError, match=r"bad token \*\*\*!"):
        ask(server, llm=OpenAILLM("m", client=make))


@pytest.mark.parametrize("behaviour", ["unauthorized", "rate_limited", "html", "reset"])
def test_failures_of_an_own_client_have_their_types_and_show_no_key(maker, serve, ask, behaviour):
    """The same types as with our client, and nothing of the key that only the client knows."""
    kinds = {"html": "malformed", "reset": "unavailable"}
    wrong = {"key": "another"} if behaviour == "unauthorized" else {}
    server = maker.server = serve(default=behaviour, retry_after=0.01, **wrong)
    with pytest.raises(JudgeError) as caught:
        ask(server, llm=OpenAILLM("m", client=maker, backoff=0.001))
    assert caught.value.type == kinds.get(behaviour, behaviour)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert KEY not in shown


def test_the_deadline_holds_for_an_own_client(maker, serve, ask):
    """Whatever patience the client has, the call ends when its time is over; our retries count."""
    server = maker.server = serve(default="drip")
    llm = OpenAILLM("m", client=maker, timeout=0.5)
    with pytest.raises(JudgeError) as caught:
        ask(server, llm=llm)
    assert caught.value.type == "timeout"
    server = maker.server = serve(default="error")
    with pytest.raises(JudgeError):
        ask(server, llm=OpenAILLM("m", client=maker, attempts=2, backoff=0.001), schema=None)
    assert server.calls == 2


def test_an_own_client_is_reached_from_this_process_only(maker):
    """No other process could make it, so that there is no address to hand over."""
    assert OpenAILLM("m", client=maker).address() is None
    assert "Maker" in repr(OpenAILLM("m", client=maker))


def test_two_own_clients_do_not_share_what_was_learned(maker, serve, ask):
    """Two servers may know a model of the same name, and take different ways to ask."""
    limited = serve(default="text_only")
    plain = maker.server

    def other():
        return openai.AsyncOpenAI(base_url=limited.base_url, api_key="k")

    ask(limited, llm=OpenAILLM("m", client=other))
    ask(plain, llm=OpenAILLM("m", client=maker))
    assert "response_format" in plain.chats[0].body


def test_the_client_is_imported_once_by_the_thread_that_judges(serve):
    """Neither the import of the SDK nor making a model loads it: the first call does."""
    code = f"""
import sys, threading
import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture
where = []
def heard(event, about):
    if event == "import" and about[0] == "openai":
        where.append(threading.current_thread().name)
sys.addaudithook(heard)
judge = dict(judge_model="m", judge_base_url={serve().base_url!r}, evaluators=["relevance_to_query"])
with capture(**judge) as seen:
    for _ in range(3):
        with llmeval.workflow("answer", request="When?") as span:
            span.response = "In 1786."
    seen.drain()
print(where)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "['llmeval-judges']", done.stderr + done.stdout


def test_loops_of_two_threads_have_a_client_each(maker):
    """They never meet in one client, however many ask at the same time."""
    llm = OpenAILLM("m", client=maker)
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(llm.ask("?"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(texts) == 4
    assert len({*map(id, maker.made)}) == 4


@pytest.fixture
def spans():
    """What OpenTelemetry's tracing of the app has, with the client of OpenAI instrumented."""
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    openinference = pytest.importorskip("openinference.instrumentation.openai")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor = openinference.OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield spans
    instrumentor.uninstrument()


@pytest.mark.parametrize("whose", ["ours", "the app's"])
def test_a_judge_s_calls_make_no_spans(spans, maker, ask, whose):
    """The app sees its own calls only, whichever client the judge asks by."""
    ask(maker.server, llm=OpenAILLM("m", client=maker) if whose == "the app's" else None)
    assert spans.get_finished_spans() == ()

    async def of_the_app():
        async with maker() as client:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "?"}]
            )

    asyncio.run(of_the_app())
    assert len(spans.get_finished_spans()) == 1


@pytest.fixture
def traced(monkeypatch):
    """The paths of the requests that a tool sees which has wrapped the HTTP client."""
    import functools

    import httpx2

    seen = []

    def wrapped(method):
        @functools.wraps(method)
        async def around(self, request, **options):
            seen.append(request.url.path)
            return await method(self, request, **options)

        return around

    for name in ("send", "_send_single_request"):
        monkeypatch.setattr(httpx2.AsyncClient, name, wrapped(getattr(httpx2.AsyncClient, name)))
    clients._bounded_class.cache_clear()
    yield seen
    clients._bounded_class.cache_clear()


@pytest.mark.parametrize("whose", ["ours", "the app's"])
def test_tools_that_wrap_the_http_client_see_no_judge(maker, ask, traced, whose):
    """As ddtrace and Sentry do: what they trace, and the headers they add, are the app's."""
    llm = OpenAILLM("m", client=maker) if whose == "the app's" else None
    assert ask(maker.server, llm=llm).text
    assert not traced

    async def of_the_app():
        async with maker() as client:
            await client.models.list()

    asyncio.run(of_the_app())
    assert traced == ["/v1/models", "/v1/models"]


def test_the_app_s_requests_through_a_shared_http_client_are_still_seen(maker, traced):
    """Only the judge's own requests are kept from the tools, not all that go the same way."""
    import httpx2

    async def both():
        shared = httpx2.AsyncClient()
        options = {"base_url": maker.server.base_url, "api_key": KEY, "http_client": shared}
        llm = OpenAILLM("m", client=lambda: openai.AsyncOpenAI(**options))
        await llm.complete(ASKED)
        await openai.AsyncOpenAI(**options).models.list()
        await llm.complete(ASKED)

    asyncio.run(both())
    assert traced == ["/v1/models", "/v1/models"]


def test_nothing_that_describes_the_machine_is_sent(serve, ask):
    """A judge's server learns as little of the app's host as before there was a vendor's client."""
    server = serve()
    ask(server)
    assert not [name for name in server.chats[0].headers if name.startswith("x-stainless")]


@pytest.mark.parametrize("name", ["openai", "azure"])
def test_no_credential_of_the_environment_reaches_a_named_server(serve, ask, monkeypatch, name):
    """The vendor's client reads more variables than we do; what it finds in them stays here."""
    variables = (
        "OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN",
        "OPENAI_WEBHOOK_SECRET",
    )  # fmt: skip
    for variable in variables:
        monkeypatch.setenv(variable, f"secret-of-{variable}")
    monkeypatch.setenv("OPENAI_BASE_URL", serve().base_url)
    server = serve()
    if name == "azure":
        resource = server.base_url.removesuffix("/v1")
        llm = OpenAILLM("azure/m", base_url=resource, api_key=KEY)
    else:
        llm = OpenAILLM("m", base_url=server.base_url, api_key=KEY)
    ask(server, llm=llm)
    headers = server.requests[0].headers
    assert "secret-of" not in str(headers)
    sent = {each for each in ("authorization", "api-key") if each in headers}
    assert sent == ({"api-key"} if name == "azure" else {"authorization"})
