"""What belongs to which span, and what its evaluators see."""

from contextlib import closing

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process import shield
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing import FakeLLM, capture


CHUNKS = [
    {"content": "slate roof", "chunk_id": "a", "score": 0.9, "page": 1, "retrieval_method": "bm25"},
    {"text": "tin roof", "id": "b", "score": 0.7, "page": 2, "method": "knn"},
]


@llmeval.retrieval
def find(question, chunks=CHUNKS):
    return chunks


def record_of(function, *args, **configuration):
    """Run a workflow and return the Record that an evaluator of it saw."""
    seen_records = []

    @llmeval.heuristic
    def spy(record):
        seen_records.append(record)

    try:
        with capture(evaluators=[spy], **configuration) as seen:
            function(*args)
            seen.drain()
    finally:
        llmeval_forget("spy")
    return seen_records


def llmeval_forget(name):
    from llmeval_sdk import registry

    registry.forget(name)


def test_the_request_is_the_one_text_argument_and_the_response_what_is_returned():
    """Bare decoration is enough to evaluate a question and its answer."""

    @llmeval.workflow
    def answer(question, limit=3):
        return "slate"

    (record,) = record_of(answer, "What roof?")
    assert (record.request, record.response, record.value) == ("What roof?", "slate", "slate")
    assert record.span_name == "answer"
    assert record.latency_seconds > 0


def test_several_arguments_are_the_request_by_name():
    """Without a single text argument, the bound arguments are the request."""

    @llmeval.workflow
    def answer(question, language):
        return "slate"

    (record,) = record_of(lambda: answer("roof?", language="en"))
    assert record.request == {"question": "roof?", "language": "en"}


def test_retrieved_documents_belong_to_the_workflow_above():
    """The return value of a retrieval becomes the retrieved context, in rank order."""

    @llmeval.workflow
    def answer(question):
        find(question)
        return "slate"

    (record,) = record_of(answer, "roof?")
    assert [(chunk.content, chunk.chunk_id) for chunk in record.retrieved_context] == [
        ("slate roof", "a"),
        ("tin roof", "b"),
    ]
    assert record.retrieved_context[1].retrieval_method == "knn"


@pytest.mark.parametrize(("which", "count"), [("last", 1), ("all", 3)])
def test_the_last_retrieval_counts_or_all_of_them(which, count):
    """Multi-hop apps can ask for the union; the default is the last retrieval."""

    @llmeval.workflow
    def answer(question):
        find(question)
        find(question, [{"content": "third", "chunk_id": "c"}])
        return "slate"

    (record,) = record_of(answer, "roof?", retrieved_context=which)
    assert len(record.retrieved_context) == count


def test_chunks_handed_in_as_an_argument_are_the_context():
    """A function that gets its chunks as an argument needs nothing more."""

    @llmeval.workflow
    def extract(field, chunks):
        return "slate"

    (record,) = record_of(extract, "roof", CHUNKS)
    assert len(record.retrieved_context) == 2


def test_a_nested_workflow_keeps_its_own_documents():
    """An outer workflow around many inner ones does not score their chunks again."""

    @llmeval.workflow
    def inner(question):
        find(question)
        return "slate"

    @llmeval.workflow
    def outer(question):
        return inner(question)

    inner_record, outer_record = record_of(outer, "roof?")
    assert len(inner_record.retrieved_context) == 2
    assert outer_record.retrieved_context is None


def test_a_step_with_evaluators_does_not_rob_the_request():
    """Documents below a step that is evaluated itself still belong to the workflow."""
    with capture() as seen:

        @llmeval.task(evaluators=["latency_seconds"])
        def step(question):
            return find(question)

        @llmeval.workflow
        def answer(question):
            step(question)
            return "slate"

        answer("roof?")
        seen.drain()
    assert "latency_seconds" in seen.scores("step")
    assert "context_relevance" in seen.scores("answer")


def test_usage_of_llm_calls_is_summed():
    """Token counts of the llm spans below are the workflow's usage."""

    @llmeval.llm("gpt-4o", model_provider="openai")
    def ask(question):
        llmeval.annotate(metrics={"input_tokens": 10, "output_tokens": 5})
        return "slate"

    @llmeval.llm
    def ask_raw(question):
        return {
            "choices": [{"message": {"content": "x"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }

    @llmeval.workflow
    def answer(question):
        ask(question)
        ask_raw(question)
        return "slate"

    (record,) = record_of(answer, "roof?")
    assert (record.usage.input_tokens, record.usage.output_tokens, record.usage.total_tokens) == (
        11,
        7,
        18,
    )


def test_extractions_of_a_step_belong_to_the_evaluated_span_above():
    """A child that annotates extractions scores its workflow."""
    with capture() as seen:

        @llmeval.task
        def extract(chunks):
            llmeval.annotate(extractions=[{"value": "slate", "chunk_number": 1}])

        @llmeval.workflow
        def answer(question):
            extract(find(question))
            return "slate"

        answer("roof?")
        seen.drain()
    assert seen.scores("answer")["context_precision"].value == 1.0
    assert seen.scores("answer")["context_recall_heuristic"].value == 0.5


def test_relevance_can_be_read_before_the_model_is_asked():
    """context_relevance is there as soon as the retrieval ended, and is exported once."""
    with capture() as seen:
        read = []

        @llmeval.workflow
        def answer(question):
            find(question)
            read.append(llmeval.current_span().evaluations["context_relevance"].value)
            return "slate"

        answer("roof?")
        seen.drain()
    exported = [e for e in seen.evaluations if e.evaluation.name == "context_relevance"]
    assert [event.evaluation.value for event in exported] == read
    assert exported[0].target.span_name == "answer"


def test_a_block_can_be_written_to_and_evaluated_at_once():
    """A context manager takes request, response and context, and computes a heuristic on demand."""
    with capture() as seen:
        with llmeval.workflow("answer_question", request="roof?") as span:
            span.retrieved_context = CHUNKS
            span.response = "slate"
            span.annotate(extractions=[{"value": "slate", "chunk_number": 2}])
            at_once = span.evaluate("context_recall_heuristic")
            assert span.evaluate("no_such_heuristic") is None
        span.response = "too late"
        seen.drain()
    assert at_once.value == 0.5
    data = seen.span("answer_question")
    assert (data.request, data.response) == ("roof?", "slate")
    assert len(data.retrieved_context) == 2


def test_a_span_that_is_evaluated_again_keeps_the_later_evaluation():
    """What it said of the span before is no second score."""
    with capture(escalations=[]) as kit:
        with llmeval.workflow("ask") as span:
            span.annotate(request="the capital?", response="Lyon")
            span.evaluate("semantic_validation")
            span.annotate(response="Paris")
            later = span.evaluate("semantic_validation")
        kit.drain()
    sent = [e.evaluation for e in kit.evaluations if e.evaluation.name == "semantic_validation"]
    assert sent == [later]


def test_retrieval_limits_may_come_from_the_settings():
    """Limits that are the same for every call need not be annotated."""
    with capture(retrieval_limits={"bm25": 1}) as seen:
        with llmeval.workflow("answer"):
            llmeval.annotate(
                retrieved_context=CHUNKS, extractions=[{"value": "x", "chunk_number": 1}]
            )
        seen.drain()
    assert seen.scores()["recall_warning"].value == "HIT_RETRIEVAL_LIMIT"


def test_limits_said_inside_the_retrieval_reach_the_request():
    """annotate(retrieval=...) may stand in the step that knows it."""

    @llmeval.retrieval
    def limited(question):
        llmeval.annotate(retrieval={"limits": {"bm25": 1}})
        return CHUNKS

    with capture() as seen:
        with llmeval.workflow("answer"):
            limited("roof?")
            llmeval.annotate(extractions=[{"value": "x", "chunk_number": 1}])
        seen.drain()
    assert seen.scores()["recall_warning"].value == "HIT_RETRIEVAL_LIMIT"


def test_ddtrace_names_of_arguments_are_taken():
    """input_data and output_data are request and response."""
    with capture() as seen:
        with llmeval.llm(model="gpt-4o", name="call") as span:
            llmeval.annotate(span, input_data="q", output_data="a", tags={"session_id": "s1"})
        seen.drain()
    data = seen.span("call")
    assert (data.request, data.response, data.session_id, data.model_name) == (
        "q",
        "a",
        "s1",
        "gpt-4o",
    )


@pytest.mark.parametrize("kind", [llmeval.llm, llmeval.embedding])
@pytest.mark.parametrize(
    ("given", "options", "name", "model"),
    [
        (("m",), {}, None, "m"),
        (("m",), {"name": "call"}, "call", "m"),
        (("call",), {"model_name": "m"}, "call", "m"),
        (("call",), {"model": "m"}, "call", "m"),
        (("m",), {"model_name": None}, None, "m"),
    ],
)
def test_a_text_without_a_keyword_is_the_model_or_else_the_span(kind, given, options, name, model):
    """``llm("m")`` names the model as ddtrace's does; beside a model name it names the span."""
    with capture() as seen:
        with kind(*given, **options):
            pass
        kind(*given, **options)(lambda: None)()
        seen.drain()
    usual = (kind.__name__, "<lambda>")
    assert [span.name for span in seen.spans] == ([name] * 2 if name else list(usual))
    assert [span.model_name for span in seen.spans] == [model] * 2


def test_an_annotation_context_reaches_the_llm_spans_inside():
    """Prompt and name go to llm spans that start in the block, tags to every span."""
    with capture() as seen:
        prompt = {
            "template": "{q}",
            "variables": {"context": "c"},
            "rag_query_variable_keys": ["q"],
        }
        with llmeval.annotation_context(prompt=prompt, name="generate_answer", tags={"team": "x"}):
            with llmeval.llm("m"), llmeval.task("step"):
                pass
        seen.drain()
    call = seen.span("generate_answer")
    assert call.prompt.rag_query_variables == ("q",)
    assert call.prompt.rag_context_variables == ("context",)
    assert seen.span("step").tags == {"team": "x"}


KINDS = ("workflow", "task", "retrieval", "tool", "agent", "llm", "embedding")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_span_takes_the_user_of_the_app(kind):
    """`user_id` is an argument, as `session_id` is: in a block and of a decorated function."""
    trace = getattr(llmeval, kind)
    with capture() as seen:
        with trace(name="block", user_id="anna", session_id="chat-7", tags={"team": "x"}):
            pass
        trace(name="function", user_id=7)(lambda: None)()
        seen.drain()
    assert seen.span("block").tags["user_id"] == "anna"
    assert seen.span("block").tags["team"] == "x"
    assert seen.span("block").session_id == "chat-7"
    assert seen.span("function").tags["user_id"] == "7"


@pytest.mark.parametrize("tags", ["team", 5, [("team", "x")], {"team": object()}])
def test_a_user_beside_tags_that_are_none_never_raises(tags):
    """The app goes on, and the user is kept."""
    with capture() as seen:
        with llmeval.workflow("block", user_id="anna", tags=tags):
            pass
        seen.drain()
    assert seen.span("block").tags["user_id"] == "anna"


def test_a_user_is_kept_beside_more_tags_than_are_kept():
    """Of thousands of tags some are cut, and not the user."""
    tags = {f"k{number}": "v" for number in range(5_000)}
    with capture() as seen:
        with llmeval.annotation_context(tags={"team": "x"}):
            with llmeval.workflow("block", user_id="anna", tags={**tags, "user_id": "other"}):
                pass
        seen.drain()
    assert seen.span("block").tags["user_id"] == "anna"


def test_what_a_span_is_declared_with_wins_over_the_annotation_context():
    """The context around it is for spans that say nothing themselves."""
    with capture() as seen:
        around = {"user_id": "anna", "session_id": "one", "tags": {"team": "x", "shift": "day"}}
        own = {"user_id": "berta", "session_id": "two", "tags": {"team": "y"}}
        with llmeval.annotation_context(**around):
            with llmeval.workflow("block", **own):
                pass
            llmeval.workflow(name="function", **own)(lambda: None)()
            with llmeval.workflow("silent"):
                pass
        seen.drain()
    for name in ("block", "function"):
        span = seen.span(name)
        assert span.tags == {"user_id": "berta", "team": "y", "shift": "day"}
        assert span.session_id == "two"
    assert seen.span("silent").session_id == "one"
    assert seen.span("silent").tags == {"user_id": "anna", "team": "x", "shift": "day"}


def test_outside_a_span_nothing_is_current_and_nothing_raises():
    """current_span, export_span and annotate are harmless outside a span."""
    with capture():
        assert llmeval.current_span() is None
        assert llmeval.export_span() is None
        llmeval.annotate(response="nowhere")
        with llmeval.workflow("w") as span:
            assert llmeval.export_span() == {"trace_id": span.trace_id, "span_id": span.span_id}


def test_annotating_what_no_field_takes_never_raises_in_production():
    """Wrong values are counted; the shield swallows them outside tests."""
    with capture(raise_again=False) as seen:
        with llmeval.workflow("w"):
            llmeval.annotate(metadata="not a mapping", metrics=[1], tags=3, retrieved_context=5)
        result = seen.drain()
    assert result.problems["annotate"] >= 3
    assert len(seen.spans) == 1


def test_a_judge_sees_the_same_record_online():
    """A judge function gets the Record and may answer without any model."""

    @llmeval.judge
    def says_slate(record, llm):
        return "slate" in record.response

    try:
        with capture(evaluators=[says_slate], llm=FakeLLM()) as seen:
            with llmeval.workflow("w", request="q") as span:
                span.response = "slate"
            seen.drain()
    finally:
        llmeval_forget("says_slate")
    assert seen.scores("w")["says_slate"].value == "yes"


SCORED = [{"content": "slate", "chunk_id": "1", "score": 0.8, "retrieval_method": "bm25"}]


def test_early_relevance_of_chunks_that_are_an_argument():
    """The app reads it before it asks the model, and it is exported once."""
    read = []

    @llmeval.workflow
    def answer(question, chunks):
        read.append(llmeval.current_span().evaluations["context_relevance"].value)
        return "slate"

    with capture() as seen:
        answer("Which roof?", SCORED)
        seen.drain()
    assert read == [0.4]
    exported = [e for e in seen.evaluations if e.evaluation.name == "context_relevance"]
    assert [e.evaluation.value for e in exported] == [0.4]


@pytest.mark.parametrize("how", ["annotated", "assigned"])
def test_early_relevance_of_chunks_that_are_annotated_or_assigned(how):
    """As soon as the span holds them, on workflows and retrievals."""
    with capture() as seen:
        for open_span in (llmeval.workflow, llmeval.retrieval):
            with open_span("answer" if open_span is llmeval.workflow else "search") as span:
                assert "context_relevance" not in span.evaluations
                if how == "annotated":
                    llmeval.annotate(retrieved_context=SCORED)
                else:
                    span.retrieved_context = SCORED
                assert span.evaluations["context_relevance"].value == 0.4
        seen.drain()
    exported = [e for e in seen.evaluations if e.evaluation.name == "context_relevance"]
    assert [e.target.span_name for e in exported] == ["answer"]


@pytest.mark.parametrize("config", ["a text", 7, ["format"], {"a", "b"}])
def test_a_field_config_that_is_no_mapping_costs_itself_alone(tmp_path, config):
    """The span arrives without it, and what was left out is counted."""
    path = tmp_path / "llmeval.db"
    with runtime.isolated():
        llmeval.configure(exporters=["local"], store=path)
        with llmeval.workflow("answer", request="why?") as span:
            llmeval.annotate(field_config=config, response="so")
        assert llmeval.flush().complete
        assert llmeval.stats().problems["annotate"] >= 1
    with closing(StoreReader(path)) as reader:
        kept = reader.span(span.span_id)
    assert (kept.request, kept.response, kept.field_config) == ("why?", "so", None)


def test_an_unknown_field_never_raises_and_is_counted_and_said_once(caplog):
    """The app goes on; the log names the field that was probably meant."""
    with capture() as seen:

        @llmeval.workflow
        def answer(question):
            for _ in range(3):
                llmeval.annotate(user_id="u-7", session_id="s-1", respones="yes", **{"a b": 1})
            with llmeval.annotation_context(colour="red", user_id="u-8"), llmeval.task("inner"):
                pass
            return "no"

        assert answer("why?") == "no"
        shield.write_notices()
        stats = llmeval.stats()
    inner, span = seen.spans
    assert (span.tags["user_id"], span.session_id, span.response) == ("u-7", "s-1", "no")
    assert inner.tags["user_id"] == "u-8"
    assert stats.problems["annotate: unknown field"] >= 7
    lines = [record.getMessage() for record in caplog.records if "respones" in record.getMessage()]
    assert len(lines) == 1
    assert "did you mean 'response'?" in lines[0]


@pytest.mark.parametrize("order", [1, -1])
def test_a_span_about_one_field_says_which(order):
    """Its score, its labels and the table of fields then have the path that the answer has."""
    about = [
        {"field": "lines[2].amount"},
        {"field_config": {"description": "what the third item costs"}, "value": "12.00"},
        {"retrieved_context": ["Widget 7.00\nGadget 12.00\nTotal 19.00"]},
    ][::order]
    with capture(escalations=[]) as kit:
        with llmeval.workflow("read amount"):
            for part in about:
                llmeval.annotate(**part)
        kit.drain()
    (kept,) = kit.spans
    assert kept.field_config == {
        "name": "lines amount", "description": "what the third item costs",
        "path": "lines[2].amount",
    }  # fmt: skip
    (scored,) = (e.evaluation for e in kit.evaluations if e.evaluation.name == "extraction_risk")
    assert [entry["path"] for entry in scored.metadata["fields"]] == ["lines[2].amount"]
