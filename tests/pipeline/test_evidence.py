"""What was not read is never an answer, a value or a passage: for no score and no judge."""

import json
import sqlite3
from contextlib import closing

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model import Record
from llmeval_sdk.model.placeholders import NOT_READ, Placeholder, evidence
from llmeval_sdk.model.records import record_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing import FakeLLM, capture
from llmeval_sdk.tracing import internals


class Thing:
    """Of which nothing can be read."""


@pytest.fixture
def records():
    """The records that evaluators get, inline and in the background."""
    given = []

    @llmeval.heuristic(inline=True)
    def sees_inline(record: Record) -> bool:
        given.append(record)
        return True

    @llmeval.heuristic
    def sees(record: Record) -> bool:
        given.append(record)
        return True

    yield given
    registry.forget("sees")
    registry.forget("sees_inline")


NESTED = {"answer": Thing(), "total": 3, "pages": [b"\x89PNG", "two"]}
READ = {"total": 3, "pages": ["two"]}


def answer(**annotations):
    with llmeval.workflow("answer", request="Which roof?") as span:
        span.annotate(**annotations)


@pytest.mark.parametrize(
    ("annotated", "field", "expected"),
    [
        ({"response": Thing()}, "response", None),
        ({"response": Thing()}, "value", None),
        ({"response": [Thing(), b"x"]}, "response", None),
        ({"response": {"answer": Thing()}}, "value", None),
        ({"response": NESTED}, "value", READ),
        ({"response": NESTED}, "response", json.dumps(READ)),
        ({"response": "Slate.", "value": Thing()}, "value", "Slate."),
        ({"value": NESTED}, "value", READ),
        ({"response": "data:image/png;base64," + "iVBORw0KGgo" * 900}, "response", None),
        ({"response": "<b>yes</b>"}, "response", "<b>yes</b>"),
        ({"response": "<generator>"}, "response", "<generator>"),
        ({"response": "<generator, not read>"}, "response", "<generator, not read>"),
        ({"response": ["<object>"]}, "value", ["<object>"]),
        ({"response": {}}, "response", ""),
        ({"response": ""}, "response", ""),
    ],
)
def test_an_answer_is_what_was_read_of_it(records, annotated, field, expected):
    """By its type, and not by its look: an app may answer with the very same text."""
    with capture() as seen:
        answer(**annotated)
        seen.drain()
    assert len(records) == 2
    assert [getattr(record, field) for record in records] == [expected] * 2


def test_an_answer_that_replaces_what_was_not_read_counts(records):
    """Also where a score has looked at the span before."""
    with capture() as seen:
        with llmeval.workflow("answer", request="Which roof?") as span:
            span.response, span.retrieved_context = Thing(), [Thing()]
            span.evaluate("sees")
            assert span.evaluations is not None
            span.response, span.retrieved_context = "Slate.", ["slate"]
        seen.drain()
    assert [record.response for record in records] == [None, "Slate.", "Slate."][: len(records)]
    assert records[-1].retrieved_context[0].content == "slate"
    assert NOT_READ not in seen.span("answer").attributes


@pytest.mark.parametrize("below", [False, True], ids=["own", "of a retrieval below"])
def test_a_passage_that_was_not_read_keeps_its_place_without_a_text(records, below):
    """Its rank and address count; what stands for it is no text that an answer could rest on."""
    chunks = ["slate", Thing(), {"content": b"x", "doc_uri": "a.pdf"}, llmeval.Chunk(content=b"y")]
    with capture() as seen:
        with llmeval.workflow("answer", request="Which roof?") as span:
            span.response = "Slate."
            if below:

                @llmeval.retrieval
                def search():
                    return chunks

                search()
            else:
                span.retrieved_context = chunks
        seen.drain()
    for record in records:
        assert [chunk.content for chunk in record.retrieved_context] == ["slate", None, None, None]
        assert record.retrieved_context[2].doc_uri == "a.pdf"
    kept = seen.span("search" if below else "answer").retrieved_context
    assert kept[1].content == "<Thing>"
    assert {type(chunk.content) for chunk in kept} == {str}


def test_an_argument_holds_no_passage_that_was_not_read(records):
    """A list of objects by the name of ``chunks`` is no context."""

    @llmeval.workflow
    def answer(question, chunks):
        return "Slate."

    with capture() as seen:
        answer("Which?", [Thing(), Thing()])
        answer("Which?", [Thing(), "slate"])
        seen.drain()
    contexts = [record.retrieved_context for record in records]
    assert contexts[0] is contexts[1] is None or contexts.count(None) == 2
    assert [c and [chunk.content for chunk in c] for c in contexts].count(["slate"]) == 2


def test_an_extraction_a_step_and_a_message_hold_only_what_was_read(records):
    """What a tool brought and what a model said are evidence, too."""
    with capture() as seen:
        with llmeval.agent("answer", request="Which roof?") as span:
            span.annotate(
                response="Slate.", extractions=[{"value": Thing()}, {"value": "slate"}, b"x"]
            )
            with llmeval.tool("look_up", request="roof") as call:
                call.response = Thing()
            with llmeval.tool("read", request="roof") as call:
                call.response = {"text": "slate", "file": b"x"}
        seen.drain()
    background = next(record for record in records if record.steps)
    assert [one.value for one in background.extractions] == ["slate"]
    assert [step.result for step in background.steps] == [None, {"text": "slate"}]


def test_no_judge_is_asked_about_what_was_not_read():
    """Of all judges that need an answer or passages, none runs, and each says what it lacks."""
    llm = FakeLLM("yes")
    names = [name for name in registry.judges() if registry.evaluator(name).needs]
    with capture(llm=llm, evaluators=names, escalations=[]) as seen:
        answer(response=Thing(), retrieved_context=[Thing()], extractions=[{"value": Thing()}])
        result = seen.drain()
    assert "<Thing>" not in str(llm.calls)
    assert not llm.calls
    assert set(result.not_run) >= {"groundedness", "answer_relevancy"} & set(names)


def test_no_score_calls_it_a_lost_answer():
    """An answer was given; nobody knows whether it was right."""
    with capture(evaluators=["correctness"], llm=FakeLLM("yes"), escalations=[]) as seen:
        for response in (Thing(), None):
            with llmeval.workflow("answer", evaluators=["exact_match"]) as span:
                span.annotate(request="q", response=response, expected_response="Slate.")
        seen.drain()
    assert len(seen.spans) == 2
    _, lost = (span.span_id for span in seen.spans)
    rated = [each for each in seen.evaluations if each.evaluation.value is not None]
    assert {each.target.span_id for each in rated} == {lost}
    assert sorted(each.evaluation.name for each in rated) == ["correctness", "exact_match"]


@pytest.fixture
def stored(tmp_path):
    """The span of an answer that was partly read, as the local store has it."""
    path = str(tmp_path / "traces.db")
    with capture(exporters=["local"], store=path) as seen:
        answer(
            response=NESTED, value=Thing(), retrieved_context=["slate", Thing()],
            extractions=[{"value": b"x"}, {"value": 1}],
        )  # fmt: skip
        seen.drain()
    return path, seen.span("answer")


def read_of(span):
    record = record_of(span)
    return (
        record.response, record.value, [chunk.content for chunk in record.retrieved_context],
        [one.value for one in record.extractions],
    )  # fmt: skip


EXPECTED = (json.dumps(READ), READ, ["slate", None], [1])


def test_a_stored_span_says_what_was_not_read(stored):
    """The store has the texts that stand for it, and evaluating it later gives the same record."""
    path, exported = stored
    assert exported.response["answer"] == "<Thing>"
    assert read_of(exported) == EXPECTED
    with closing(sqlite3.connect(path)) as database:
        ((response,),) = database.execute("SELECT response FROM spans")
    assert json.loads(response)["answer"] == "<Thing>"
    with StoreReader(path) as reader:
        trace = reader.trace(exported.trace_id)
    assert [read_of(span) for span in trace] == [EXPECTED]


def test_a_spooled_span_says_what_was_not_read(records, tmp_path):
    """What another process takes over is judged by the same record."""
    with capture() as seen:
        answer(response=NESTED, value=Thing(), retrieved_context=["slate", Thing()],
               extractions=[{"value": b"x"}, {"value": 1}])  # fmt: skip
        seen.drain()
        with llmeval.workflow("w") as live:
            live.annotate(response=NESTED, value=Thing(), retrieved_context=["slate", Thing()],
                          extractions=[{"value": b"x"}, {"value": 1}])  # fmt: skip
        from llmeval_sdk.exporters.redaction import Redactor
        from llmeval_sdk.pipeline.dispatcher import Privacy

        privacy = Privacy(Redactor(), content=True)
        again = privacy.unpack(privacy.pack(live))
    assert read_of(again) == EXPECTED


def plain(value):
    """A value with exact builtin texts in the place of placeholders."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def test_exporters_get_plain_texts(stored):
    """Whatever is captured: placeholders are a matter of this process."""
    with capture() as seen:
        with llmeval.workflow(
            "w", request=Thing(), metadata={"db": Thing(), "all": list(range(2_000))},
            tags={"of": Thing()},
        ) as span:  # fmt: skip
            span.annotate(
                response=Thing(), value=[Thing()], prompt={"variables": {"x": Thing()}},
                field_config={"name": Thing()}, expected_response=Thing(), confidence=Thing(),
                retrieval={"limits": Thing()}, retrieved_context=[Thing()],
            )  # fmt: skip
        seen.drain()
    done = seen.span("w")

    def texts(value):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for pair in value.items():
                for item in pair:
                    yield from texts(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from texts(item)

    fields = (
        "request", "response", "value", "attributes", "tags", "field_config", "confidence",
        "retrieval", "expected", "metrics",
    )  # fmt: skip
    found = [text for name in fields for text in texts(getattr(done, name))]
    found += [*texts(done.prompt.variables), done.retrieved_context[0].content]
    assert "<Thing>" in found
    assert {type(text) for text in found} == {str}


def test_a_row_of_a_data_set_counts_only_what_is_text(records):
    """Offline as online: bytes and images in a column are neither an answer nor a passage."""
    image = "data:image/png;base64," + "iVBORw0KGgo" * 900
    rows = [
        {"request": "q", "response": image, "retrieved_context": ["slate", image]},
        {"request": "q", "response": "Slate.", "retrieved_context": [{"content": image}]},
    ]
    llm = FakeLLM("yes")
    report = llmeval.evaluate(rows, evaluators=["sees", "groundedness"], llm=llm, progress=False)
    assert [record.response for record in records] == [None, "Slate."]
    assert [chunk.content for chunk in records[0].retrieved_context] == ["slate", None]
    assert [chunk.content for chunk in records[1].retrieved_context] == [None]
    assert not llm.calls
    assert [row.answer for row in report.rows] == ["given", "given"]


def test_what_says_what_was_not_read_may_come_from_anyone():
    """A damaged or hostile attribute takes nothing away and raises nothing."""
    span = internals.adopted(_data(["slate"], {"a": [1, 2]}))
    for paths in (
        "text", 7, {"a": 1}, [7], [[]], [["response", "a", 9]], [["response", "b"]], [[None]],
        [["response", "a", "0"]], [["retrieved_context", "x"]], [["retrieved_context", -1]],
        [["value", *range(100)]], [[["response"]]],
    ):  # fmt: skip
        span._attributes = {NOT_READ: paths}
        record = record_of(span)
        assert record.value == {"a": [1, 2]}
        assert [chunk.content for chunk in record.retrieved_context] == ["slate"]
    span._attributes = {NOT_READ: [["response", "a", 0]] * 100_000}
    assert record_of(span).value == {"a": [2]}


def _data(chunks, response):
    from llmeval_sdk.model import Chunk, SpanData

    contents = tuple(Chunk(content=text) for text in chunks)
    return SpanData(
        "1" * 32,
        "2" * 16,
        None,
        "w",
        "workflow",
        1,
        2,
        response=response,
        retrieved_context=contents,
    )


def test_evidence_is_the_value_itself_where_all_was_read():
    """Nothing is copied; of what was not read nothing is left."""
    for value in ("x", "", None, 0, {}, [], {"a": [1, {"b": ""}]}, ["<x>"], (1, 2)):
        assert evidence(value) is value
    gone = Placeholder("<x>")
    assert evidence(gone) is evidence([gone]) is evidence({"a": [gone], "b": {"c": gone}}) is None
    assert evidence({"a": gone, "b": None}) == {"b": None}
    assert evidence([[], gone]) == [[]]


def returns(kind):
    """Return an app that answers with a stream of a kind."""

    async def parts():
        for text in ("Sla", "te."):
            yield text

    def app(request):
        if kind == "generator":
            return (text for text in ("Sla", "te."))
        return parts() if kind == "async generator" else map(str, ["Sla", "te."])

    async def coroutine(request):
        return app(request)

    return app, coroutine


@pytest.mark.parametrize("place", [0, 1], ids=["function", "coroutine"])
@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("kind", ["generator", "async generator", "iterator"])
def test_an_app_that_runs_offline_may_return_a_stream(kind, decorated, place, records):
    """A generator is read as online; of anything else that is read once, the row says so."""
    app = returns(kind)[place]
    app = llmeval.workflow(app) if decorated else app
    report = llmeval.evaluate([{"request": "q"}], model=app, evaluators=["sees"], progress=False)
    (row,) = report.rows
    if kind == "iterator":
        assert row.error.type == "DataError"
        assert "<map, not read>, which is no answer" in row.error.message
    else:
        assert row.record.response == "Slate."
