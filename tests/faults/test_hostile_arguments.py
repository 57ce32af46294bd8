"""Public functions called with objects of another library that raise wherever they can."""

import pytest
from strangers import installed

import llmeval_sdk as llmeval
from llmeval_sdk import tracing
from llmeval_sdk.testing import capture


RAISES = ("bool", "eq", "len", "iter", "hash", "repr", "getattr", "str", "contains", "getitem")
LIBRARY = (
    "\n".join(
        f"""
class Raises_{name}:
    {"__hash__ = object.__hash__" if name == "eq" else "pass"}
    def __{name}__(self, *_):
        raise ValueError("the truth value of a Series is ambiguous")
"""
        for name in RAISES
    )
    + f"""
class Everything({", ".join(f"Raises_{name}" for name in RAISES if name != "eq")}, Raises_eq):
    __hash__ = Raises_hash.__hash__

class Callable(Everything):
    def __call__(self, *args):
        return args
"""
)


@pytest.fixture(params=[*(f"Raises_{name}" for name in RAISES), "Everything", "Callable"])
def hostile(request, tmp_path):
    return getattr(installed(tmp_path, LIBRARY), request.param)()


@pytest.fixture
def seen():
    with capture(raise_again=False) as seen:
        yield seen


KINDS = ("workflow", "task", "retrieval", "llm", "tool", "agent", "embedding")
OPTIONS = ("evaluators", "session_id", "user_id", "tags", "request", "metadata")
OF_MODELS = ("model_name", "model_provider", "name", "model")
SUBMITTED = (
    "label", "value", "metric_type", "span", "reasoning", "assessment", "tags", "metadata",
    "timestamp_ms", "ml_app",
)  # fmt: skip
ANNOTATED = (
    "request", "response", "retrieved_context", "extractions", "value", "confidence",
    "field_config", "field", "retrieval", "expected_facts", "expected_response",
    "expected_retrieved_context", "abstained", "prompt", "metadata", "metrics", "tags",
    "session_id", "user_id", "input_data", "output_data", "unknown",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_span_takes_any_option(kind, hostile, seen):
    """Whatever an option is, the block runs and its span is recorded."""
    make = getattr(llmeval, kind)
    options = [*OPTIONS, *(OF_MODELS if kind in ("llm", "embedding") else ())]
    if callable(hostile) and "name" in options:
        options.remove("name")  # it would be the function that is decorated
    for option in options:
        with make(**{option: hostile}) as span:
            span.response = "Slate."

        @make(**{option: hostile})
        def answer(question):
            return question

        assert answer("Slate.") == "Slate."
    with make(hostile) if not callable(hostile) else make("named") as span:
        span.response = "Slate."
    seen.drain()
    assert [span.response for span in seen.spans] == ["Slate."] * (2 * len(options) + 1)


def test_a_tool_takes_any_tags_beside_its_effect(hostile, seen):
    """The effect is a tag too, and is kept beside tags that cannot be read."""
    with llmeval.tool("delete", effect="write", tags=hostile):
        pass
    seen.drain()
    assert seen.span("delete").tags == {"tool.effect": "write"}


@pytest.mark.parametrize("field", ANNOTATED)
def test_an_annotation_takes_any_value(field, hostile, seen):
    """What is annotated never raises, in a span, outside one and for a block of spans."""
    llmeval.annotate(**{field: hostile})
    with llmeval.workflow("w") as span:
        llmeval.annotate(**{field: hostile})
        llmeval.annotate(hostile, **{field: hostile})
        span.annotate(**{field: [hostile], "metadata": {"of": hostile}})
    with llmeval.annotation_context(**{field: hostile}), llmeval.llm("model"):
        pass
    seen.drain()
    assert len(seen.spans) == 2


@pytest.mark.parametrize("argument", SUBMITTED)
@pytest.mark.parametrize("submit", [llmeval.submit_evaluation, llmeval.submit_feedback])
def test_an_evaluation_takes_any_argument(submit, argument, hostile, seen):
    """An evaluation with an argument that cannot be read is kept without it, or is counted."""
    with llmeval.workflow("w"):
        submit(**{"label": "polite", "value": True, argument: hostile})
    result = seen.drain()
    if argument in ("label", "value"):
        assert result.problems["submit_evaluation: label or value cannot be used"] >= 1
    else:
        assert seen.scores()["polite"].value is True


@pytest.mark.parametrize(
    "argument",
    ["submitter", "span_id", "trace_id", "session_id", "feedback_join_key", "field"],
)
def test_feedback_takes_any_argument(argument, hostile, seen):
    """Feedback names its span by ids that a client sent, which may be anything."""
    llmeval.submit_feedback(label="helpful", value=True, **{argument: hostile})
    seen.drain()
    assert seen.scores()["helpful"].value is True


@pytest.mark.parametrize("argument", ["span_with_tag_value", "eval_scope"])
def test_an_evaluation_for_datadog_takes_any_argument(argument, hostile, seen):
    """What only Datadog reads is captured like anything else."""
    llmeval.submit_evaluation(label="polite", value=0.5, **{argument: hostile})
    seen.drain()
    assert seen.scores()["polite"].value == 0.5


def test_the_active_span_and_its_ids_are_asked_of_anything(hostile, seen):
    """What is no span has no ids, no scores and is not accepted."""
    assert llmeval.export_span(hostile) is None
    assert llmeval.accepts(hostile) is False
    with llmeval.workflow("w") as span:
        assert llmeval.accepts(span, field=hostile) is False
        assert span.evaluate(hostile) is None
        span.request = span.response = span.value = hostile
        span.retrieved_context = span.extractions = hostile
    assert seen.drain().problems["accepts"] >= 1


def test_headers_are_read_from_anything(hostile, seen):
    """Headers that raise begin a new trace, and get none."""
    with llmeval.workflow("w"), tracing.extract(hostile):
        tracing.inject(hostile)
    with tracing.extract({"traceparent": hostile, "baggage": hostile}), llmeval.workflow("w"):
        pass
    seen.drain()
    assert len(seen.spans) == 2


def test_times_to_wait_are_read_from_anything(hostile, seen):
    """What is no number of seconds stands for the default."""
    with llmeval.workflow("w"):
        pass
    assert llmeval.flush(hostile).complete
    assert llmeval.shutdown(hostile).complete


def test_a_function_is_decorated_whatever_it_is(hostile, seen):
    """A callable object that cannot be looked at is called as if it were not decorated."""
    if not callable(hostile):
        return
    for kind in KINDS:
        assert getattr(llmeval, kind)(hostile)(1) == (1,)
        assert getattr(llmeval, kind)(name="named")(hostile)(1) == (1,)
    assert tracing.wrap_context(hostile)(1) == (1,)


def test_arguments_and_results_are_captured_whatever_they_are(hostile, seen):
    """The app's own objects run none of their code, and come back as they were."""

    @llmeval.workflow
    def echo(value, *, keyword):
        return value

    @llmeval.retrieval
    def search(value):
        return [value, {"content": value}]

    assert echo(hostile, keyword={"k": hostile}) is hostile
    assert search(hostile)[0] is hostile
    seen.drain()
    assert len(seen.spans) == 2


def test_a_row_of_pandas_is_taken_for_metadata_tags_and_a_type(seen):
    """Rows, frames and missing values of pandas have no truth value."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"team": ["roofs"], "city": ["Delft"]})
    for row in (frame, frame.iloc[0], pandas.NA, frame.index):
        with llmeval.workflow("w", tags=row, metadata=row, user_id=row, evaluators=row) as span:
            span.annotate(metadata=row, tags=row)
            for submit in (llmeval.submit_evaluation, llmeval.submit_feedback):
                submit(label="polite", value=True, metadata=row, tags=row, metric_type=row)
    result = seen.drain()
    assert len(seen.spans) == 4
    assert len([each for each in seen.evaluations if each.evaluation.name == "polite"]) == 8
    assert any("metadata" in site for site in result.problems), result.problems
