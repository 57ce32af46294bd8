"""`model=`: the app runs under tracing for every row, and what it does becomes the row's."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Mapping
from typing import Annotated, Optional

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.testing import FakeLLM, capture


ROWS = [{"request_id": f"q{n}", "request": f"roof {n}?"} for n in range(8)]
NAMES = ["context_relevance", "total_token_count", "latency_seconds", "semantic_validation"]


@llmeval.retrieval
def search(text):
    return [{"content": f"About {text} it says slate.", "doc_uri": text, "score": 0.9}]


@llmeval.llm(model_name="tiny")
def ask(text):
    llmeval.annotate(metrics={"input_tokens": 10, "output_tokens": 3})
    return "slate"


@llmeval.workflow
def decorated(request):
    search("something else")
    search(request)
    return ask(request)


def plain(request):
    search(request)
    return ask(request)


async def asynchronous(request):
    await asyncio.sleep(0)
    return plain(request)


async def streaming(request):
    search(request)
    for part in ask(request):
        yield part


def generating(request):
    search(request)
    yield from ask(request)


class Callable:
    async def __call__(self, request):
        return plain(request)


@pytest.mark.parametrize(
    "model", [decorated, plain, asynchronous, streaming, generating, Callable()]
)
def test_what_the_app_does_becomes_the_row(model):
    """Answer, last retrieval, tokens and time, for every shape of callable."""
    report = llmeval.evaluate(ROWS, model=model, evaluators=NAMES)
    assert [row.id for row in report.rows] == [row["request_id"] for row in ROWS]
    for row in report.rows:
        assert row.record.response == "slate"
        assert [chunk.doc_uri for chunk in row.record.retrieved_context] == [row.record.request]
        assert row.evaluations["total_token_count"].value == 13
        assert row.evaluations["latency_seconds"].value > 0
        assert row.evaluations["semantic_validation"].value == "pass"


def test_annotations_and_a_chat_completion_are_read():
    """Extractions, value and confidence are those that the app annotated."""

    def model(request):
        search(request)
        llmeval.annotate(
            extractions=[{"value": "slate", "chunk_number": 1}], value="SLATE", confidence="HIGH"
        )
        return {
            "choices": [{"message": {"role": "assistant", "content": "It is slate."}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }

    report = llmeval.evaluate(ROWS[:1], model=model)
    record = report.rows[0].record
    assert (record.response, record.value, record.confidence) == ("It is slate.", "SLATE", "HIGH")
    assert record.usage.total_tokens == 7
    assert report.rows[0].evaluations["aggregated_confidence"].value == 0.9
    assert report.rows[0].evaluations["context_recall_heuristic"].value == 1.0


def test_an_app_may_return_columns():
    """A mapping with a response is a row of its own."""

    def model(request):
        return {"response": "slate", "retrieved_context": [{"content": "slate", "doc_uri": "x"}]}

    record = llmeval.evaluate(ROWS[:1], model=model).rows[0].record
    assert (record.response, record.retrieved_context[0].doc_uri) == ("slate", "x")


def test_requests_reach_the_app_in_their_form():
    """As the row has them: a function that takes a text online gets a text."""
    seen = []
    chat = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    asked = {"query": "q", "history": [{"role": "user", "content": "before"}]}
    data = [{"request": "text"}, {"request": chat}, {"request": asked}]
    llmeval.evaluate(data, model=lambda request: seen.append(request) or "r", concurrency=1)
    assert seen == ["text", chat, asked]


@pytest.fixture
def my_app(tmp_path, monkeypatch):
    """A module of the current folder, as an app is; returns its name."""
    name = f"my_app_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "def answer(request):\n    return request.upper()\n"
        "def two(request, session):\n    return ''\n"
        "class App:\n    answer = staticmethod(answer)\n"
        "NAME = 'text'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


@pytest.mark.parametrize("function", ["answer", "App.answer"])
def test_an_app_may_be_named_by_its_address(my_app, function):
    """The string that the command line takes."""
    model = f"{my_app}:{function}"
    report = llmeval.evaluate(ROWS, model=model, evaluators=["latency_seconds"])
    assert report.rows[0].record.response == "ROOF 0?"
    assert report.errors == {}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{app}:nowhere", "cannot be loaded"),
        ("nowhere_at_all:answer", "cannot be loaded"),
        ("{app}", "expected MODULE:NAME"),
        ("{app}:NAME", "is not a function"),
        ("{app}:two", "called with one argument, the request"),
        (17, "is not a function"),
    ],
)
def test_an_app_that_cannot_be_called_is_refused_at_once(my_app, model, said):
    """Before a row is read, with what to pass."""
    rows = iter([{"request": "q"}])
    named = model.format(app=my_app) if isinstance(model, str) else model
    with pytest.raises(ConfigurationError, match=said):
        llmeval.evaluate(rows, model=named, evaluators=["latency_seconds"])
    assert next(rows) == {"request": "q"}


def test_a_row_that_raises_is_reported_and_the_run_goes_on():
    """Its error is the row's, and no evaluator is blamed for it."""

    def model(request):
        if "roof 3" in request:
            raise ValueError("no roof 3")
        return "slate"

    report = llmeval.evaluate(ROWS, model=model, evaluators=["latency_seconds"])
    failed = report.rows[3]
    assert failed.error.type == "ValueError"
    assert re.fullmatch(r"no roof 3 \(test_model\.py:\d+\)", failed.error.message)
    assert not failed.evaluations
    assert report.errors == {"ValueError": 1}
    assert report.counts["latency_seconds"]["evaluated"] == len(ROWS) - 1


@pytest.mark.parametrize("is_async", [False, True])
def test_at_most_so_many_calls_run_at_a_time(is_async):
    """Concurrency bounds the app too, and is made use of."""
    running, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3)

    def count(by):
        nonlocal running, most
        with lock:
            running += by
            most = max(most, running)

    def model(request):
        count(1)
        together.wait(20)  # passes only when three calls are here at once
        count(-1)
        return "slate"

    async def async_model(request):
        return await asyncio.to_thread(model, request)

    data = [{"request": f"q{n}"} for n in range(9)]
    llmeval.evaluate(data, model=async_model if is_async else model, concurrency=3)
    assert most == 3


def test_judges_see_what_the_app_answered():
    """The judge's prompt holds the answer and the retrieved text."""
    llm = FakeLLM()
    report = llmeval.evaluate(ROWS[:1], model=decorated, evaluators=["groundedness"], llm=llm)
    told = "\n".join(message.content for message in llm.calls[0])
    assert "About roof 0? it says slate." in told
    assert report.metrics["response/llm_judged/groundedness/rating/percentage"] == 1.0


def test_the_apps_own_set_up_stays_untouched():
    """Live requests beside an offline run go where they went before, and no others do."""
    with capture() as seen:
        inside, done = threading.Event(), threading.Event()

        def model(request):
            inside.set()
            done.wait(20)
            return plain(request)

        def live():
            inside.wait(20)
            decorated("live")
            done.set()

        thread = threading.Thread(target=live)
        thread.start()
        llmeval.evaluate(ROWS[:1], model=model, evaluators=["context_relevance"])
        thread.join()
        decorated("after")
        seen.drain()
    assert [span.name for span in seen.spans if span.kind == "workflow"] == ["decorated"] * 2
    assert len([span for span in seen.spans if span.kind == "retrieval"]) == 4


def test_an_app_reads_its_scores_as_it_does_online():
    """`context_relevance` is there after the retrieval, so that code that acts on it works."""
    seen = []

    @llmeval.workflow
    def model(request):
        search(request)
        seen.append(llmeval.current_span().evaluations["context_relevance"].value)
        return "slate"

    report = llmeval.evaluate(ROWS[:1], model=model, evaluators=["context_relevance"])
    assert seen == [report.rows[0].evaluations["context_relevance"].value]


def test_a_call_inside_a_span_is_a_trace_of_its_own():
    """A run that is started from traced code does not mix its rows into one trace."""
    with capture() as seen, llmeval.workflow("nightly"):
        report = llmeval.evaluate(ROWS[:3], model=plain, evaluators=["context_relevance"])
        seen.drain()
    assert len({row.record.trace_id for row in report.rows}) == 3
    assert all(len(row.record.retrieved_context) == 1 for row in report.rows)


def unmarked(question):
    return f"{question!r}"


def annotated(request: dict[str, object]):
    return f"{request!r}"


def named(model_input):
    return f"{model_input!r}"


def listed(messages):
    return f"{messages!r}"


async def later(messages: list[dict[str, str]]):
    return f"{messages!r}"


def optional(request: dict[str, object] | None):
    return f"{request!r}"


def of_typing(request: Optional[dict]):  # noqa: UP045 - as older code spells it
    return f"{request!r}"


def described(request: Annotated[dict | Mapping, "a chat"]):
    return f"{request!r}"


def either(request: str | dict):
    return f"{request!r}"


def anything(request: None = None):
    return f"{request!r}"


CHAT = [{"role": "user", "content": "roof?"}]


@pytest.mark.parametrize(
    ("model", "argument"),
    [(unmarked, "roof?"), (annotated, {"messages": CHAT}), (named, {"messages": CHAT}),
     (listed, CHAT), (later, CHAT), (optional, {"messages": CHAT}),
     (of_typing, {"messages": CHAT}), (described, {"messages": CHAT}), (either, "roof?"),
     (anything, "roof?")],
)  # fmt: skip
def test_an_app_gets_a_request_in_the_form_that_its_signature_asks_for(model, argument):
    """An agent that was written for chat requests runs on rows whose requests are texts."""
    report = llmeval.evaluate([{"request": "roof?"}], model=model, evaluators=["latency_seconds"])
    (row,) = report.rows
    assert row.record.response == repr(argument)


def test_a_chat_request_reaches_every_app_as_it_is():
    """Only its messages where that is what the parameter is called."""
    row = {"request": {"messages": CHAT}}
    answers = [
        llmeval.evaluate([row], model=model, evaluators=["latency_seconds"]).rows[0].record.response
        for model in (unmarked, annotated, listed)
    ]
    assert answers == [repr({"messages": CHAT}), repr({"messages": CHAT}), repr(CHAT)]


@pytest.mark.parametrize(
    ("request_of_row", "messages"),
    [
        ({"query": "roof?", "history": []}, CHAT),
        ({"query": "roof?"}, CHAT),
        ({"query": "roof?", "history": None}, CHAT),
        (
            {"query": "roof?", "history": [{"role": "assistant", "content": "Hi.", "name": "bot"}]},
            [{"role": "assistant", "content": "Hi.", "name": "bot"}, *CHAT],
        ),
        (
            {"query": "roof?", "history": [["assistant", "Hi."]]},
            [{"role": "assistant", "content": "Hi."}, *CHAT],
        ),
    ],
)
def test_an_app_that_takes_messages_gets_a_query_behind_its_history(request_of_row, messages):
    """An agent that reads the last message reads the question, whatever form the row has."""
    report = llmeval.evaluate(
        [{"request": request_of_row}], model=listed, evaluators=["latency_seconds"]
    )
    assert report.rows[0].record.response == repr(messages)
