"""The key goes to its server and nowhere else; clients live and die with their loop."""

import asyncio
import gc
import io
import logging
import pickle
import threading
import traceback

import pytest

from llmeval_sdk.config import Secret
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.models.openai_client import OpenAIEmbeddings
from llmeval_sdk.model import Message


KEY = "sk-marker-9f2c"


def everything_shown_of(llm):
    """Collect what a person may see of a client: reprs, attributes, down two levels."""
    shown = [repr(llm), str(llm), repr(vars(llm))]
    for value in vars(llm).values():
        shown.append(repr(value))
        for name in getattr(value, "__slots__", ()):
            shown.append(repr(getattr(value, name, None)))
    return "\n".join(shown)


def test_the_key_reaches_the_server(serve, ask):
    """A marker of the key arrives, so the tests below look for the right text."""
    server = serve(key=KEY)
    ask(server)
    assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_key_is_in_no_repr_before_or_after_a_call(serve, ask):
    """Neither the LLM nor anything it holds shows the key."""
    server = serve()
    llm = OpenAILLM("m", base_url=server.base_url, api_key=KEY)
    before = everything_shown_of(llm)
    ask(server, llm=llm)
    shown = (
        before
        + everything_shown_of(llm)
        + repr(OpenAIEmbeddings("m", base_url=server.base_url, api_key=KEY))
    )
    assert KEY not in shown
    assert KEY.encode() not in pickle.dumps(Secret(KEY))


@pytest.mark.parametrize(
    "behaviour", ["error", "unauthorized", "rate_limited", "redirect", "reset", "html", "malformed"]
)
def test_the_key_is_in_no_exception(serve, ask, behaviour):
    """Not in the message, its chain or its traceback."""
    server = serve(default=behaviour, retry_after=0.01)
    with pytest.raises(JudgeError) as caught:
        ask(server)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__dict__)
    assert KEY not in shown


def test_a_server_that_quotes_the_key_is_cut_short(serve, ask):
    """What a server says about a wrong key is passed on without the key."""
    server = serve(key="another")
    with pytest.raises(JudgeError, match=r"provided: \*\*\*") as caught:
        ask(server)
    assert caught.value.type == "unauthorized"


def test_neither_key_nor_content_is_logged_at_debug(serve, ask):
    """With every logger at DEBUG, nothing of ours or of the HTTP client prints the key."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        ask(serve())
        with pytest.raises(JudgeError):
            ask(serve(default="unauthorized"))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert "127.0.0.1" in stream.getvalue()  # something was logged at all
    assert KEY not in stream.getvalue()


def test_redirects_are_not_followed(serve, ask):
    """Neither key nor content goes where a server points."""
    target = serve()
    server = serve(default="redirect")
    reply = server.reply

    def elsewhere(seen):
        from dataclasses import replace

        return replace(reply(seen), headers={"Location": f"{target.base_url}/chat/completions"})

    server.reply = elsewhere
    with pytest.raises(JudgeError, match="redirects are not followed"):
        ask(server)
    assert target.requests == []


@pytest.mark.parametrize("scheme", ["http:", "HTTP:"])
def test_a_proxy_of_the_environment_never_reads_plain_http(serve, ask, monkeypatch, scheme):
    """What is not encrypted goes straight to its server, whatever proxy is set."""
    proxy, server = serve(), serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.base_url)
    address = server.base_url.replace("http:", scheme)
    ask(server, llm=OpenAILLM("m", base_url=address, api_key=KEY, attempts=1))
    assert proxy.requests == []
    assert server.calls == 1


def test_one_client_per_loop_and_none_left_when_it_ends(serve):
    """Calls in one loop share a client; its end closes it, and two loops never share."""
    server = serve()
    llm = OpenAILLM("m", base_url=server.base_url)

    async def twice():
        await llm.warm()
        await asyncio.gather(*(llm.complete([Message("user", "?")]) for _ in range(4)))
        held = list(llm._clients._held.values())
        assert len(held) == 1
        return held[0].client

    first, second = asyncio.run(twice()), asyncio.run(twice())
    assert first is not second
    assert first.is_closed()
    assert second.is_closed()
    assert not llm._clients._held


def test_clients_of_two_threads_do_not_meet(serve):
    """Several loops at once each have their own client and all get their answers."""
    server = serve()
    llm = OpenAILLM("m", base_url=server.base_url)
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(llm.ask("?"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(texts) == 4
    assert not llm._clients._held


def test_a_loop_that_was_just_closed_leaves_nothing_behind(serve):
    """Where nobody ends the loop properly, the next client sweeps up what it left."""
    server = serve()
    llm = OpenAILLM("m", base_url=server.base_url)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(llm.complete([Message("user", "?")]))
    loop.run_until_complete(llm.aclose())
    loop.close()
    assert not llm._clients._held
    assert llm.ask("?")
    gc.collect()


def test_the_package_loads_no_client_before_the_first_call():
    """Making an LLM and resolving a name import neither the client nor tenacity."""
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from llmeval_sdk.judges.models import OpenAILLM\n"
        "import llmeval_sdk.judges.adapt, llmeval_sdk.judges.groundedness\n"
        "OpenAILLM('m', base_url='http://127.0.0.1:9/v1')\n"
        "print([m for m in ('openai', 'httpx2', 'tenacity', 'pydantic') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_what_the_environment_says_to_openai_is_sent(serve, ask, monkeypatch):
    """Organization, project and a gateway's headers arrive, as from OpenAI's own client."""
    monkeypatch.setenv("OPENAI_ORG_ID", "an-org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "a-project")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: a:b\nno header\nAuthorization: other")
    server = serve()
    ask(server, api_key=KEY)
    headers = server.requests[0].headers
    sent = {name: headers[name] for name in ("openai-organization", "openai-project", "x-gateway")}
    assert sent == {
        "openai-organization": "an-org", "openai-project": "a-project", "x-gateway": "a:b",
    }  # fmt: skip
    assert headers["authorization"] == f"Bearer {KEY}"
