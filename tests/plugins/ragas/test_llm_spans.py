"""Which spans Ragas' three look at, and what they see of them."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Evaluation
from llmeval_sdk.model.records import record_of


class Seen(BaseJudge):
    """A judge of llm spans that keeps what it was given."""

    needs = ("request", "response", "retrieved_context")
    span_kinds = ("llm",)
    needs_model = False

    def __init__(self, name="seen"):
        self.name = name
        self.records = []

    async def evaluate(self, record, llm, /):
        self.records.append(record)
        return Evaluation(self.name, 1.0)


CONTEXT = {"context": ["first", {"text": "second"}]}


def contents(record):
    return [chunk.content for chunk in record.retrieved_context]


def judged(flow, *args, **configuration):
    """Run a flow and return what the judge saw, and what was captured."""
    seen = Seen()
    with testing.capture(evaluators=[seen], escalations=[], **configuration) as captured:
        flow(*args)
        captured.drain()
    return seen.records, captured


@pytest.mark.parametrize(
    "spelling",
    [
        {"rag_context_variables": ["a", "b"], "rag_query_variables": ["q"]},
        {"rag_context_variable_keys": ["a", "b"], "rag_query_variable_keys": ["q"]},
    ],
)
@pytest.mark.parametrize("kind", [dict, llmeval.Prompt])
def test_both_spellings_of_the_keys_name_question_and_contexts(spelling, kind):
    """The guide's spelling and that of ddtrace's code give the same record."""

    @llmeval.llm(model_name="m")
    def ask():
        prompt = kind(variables={"a": "one", "b": ["two", "three"], "q": "why"}, **spelling)
        llmeval.annotate(prompt=prompt)
        return "because"

    (record,), _ = judged(ask)
    assert (record.request, record.response) == ("why", "because")
    assert contents(record) == ["one", "two", "three"]


def test_the_keys_default_to_context_and_question():
    """Without keys the variables of these names are taken."""

    @llmeval.llm(model_name="m")
    def ask():
        llmeval.annotate(prompt={"variables": {"context": "c", "question": "q", "other": "x"}})
        return "a"

    (record,), _ = judged(ask)
    assert (record.request, contents(record), record.response) == ("q", ["c"], "a")


def test_without_a_question_the_last_input_message_is_it_and_the_answer_the_last_output():
    """Messages annotated by hand are read from their ends, whatever their parts."""

    def flow():
        with llmeval.llm("m") as span:
            llmeval.annotate(
                span,
                prompt={"variables": CONTEXT},
                input_data=[
                    {"role": "system", "content": "be kind"},
                    {"role": "user", "content": [{"type": "text", "text": "how many?"}]},
                ],
                output_data=[
                    {"role": "assistant", "content": "a"},
                    {"role": "assistant", "content": "b"},
                ],
            )

    (record,), _ = judged(flow)
    assert (record.request, record.response) == ("how many?", "b")
    assert contents(record) == ["first", "second"]


def test_a_chat_completion_and_the_messages_argument_are_read():
    """A decorated client call needs no annotation beside the prompt."""

    @llmeval.llm(model_name="m")
    def complete(messages):
        return {"choices": [{"message": {"role": "assistant", "content": "done"}}]}

    def flow():
        with llmeval.annotation_context(prompt={"variables": CONTEXT}, name="generate_answer"):
            complete([{"role": "user", "content": "do it"}])

    (record,), _ = judged(flow)
    assert (record.request, record.response) == ("do it", "done")
    assert record.span_name == "generate_answer"


def test_an_empty_context_variable_is_an_empty_list_of_contexts():
    """Present and empty is not absent: faithfulness judges against nothing then."""

    @llmeval.llm(model_name="m")
    def ask(question):
        llmeval.annotate(prompt={"variables": {"question": "q", "context": []}})
        return "a"

    (record,), _ = judged(ask, "q")
    assert record.retrieved_context == ()


@pytest.mark.parametrize("context", [{}, {"context": ""}, {"context": " \n"}])
def test_a_prompt_without_a_context_lacks_an_input_and_costs_nothing(context):
    """A judge against nothing would be paid for a 0.0 that says nothing about the answer."""

    @llmeval.llm(model_name="m")
    def ask(question):
        llmeval.annotate(prompt={"variables": {"question": "q", **context}})
        return "a"

    records, captured = judged(ask, "q")
    assert records == []
    assert [(each.reason, each.detail) for each in captured.not_run] == [
        ("missing_inputs", "the record has no retrieved_context")
    ]


def test_a_streamed_answer_is_judged_whole():
    """A generator's pieces are joined before anything looks at them."""

    @llmeval.llm(model_name="m")
    def stream():
        llmeval.annotate(prompt={"variables": {**CONTEXT, "question": "q"}})
        yield "one "
        yield "two"

    (record,), _ = judged(lambda: list(stream()))
    assert record.response == "one two"


def test_async_code_and_its_concurrent_calls_keep_their_own_prompts():
    """Each call is judged on its own contexts."""
    import asyncio

    @llmeval.llm(model_name="m")
    async def ask(number):
        await asyncio.sleep(0)
        return f"answer {number}"

    async def one(number):
        prompt = {"variables": {"context": f"context {number}", "question": f"question {number}"}}
        with llmeval.annotation_context(prompt=prompt):
            return await ask(number)

    async def main():
        await asyncio.gather(*(one(number) for number in range(5)))

    records, _ = judged(lambda: asyncio.run(main()))
    found = sorted((r.request, contents(r)[0], r.response) for r in records)
    assert found == [(f"question {n}", f"context {n}", f"answer {n}") for n in range(5)]


def test_an_llm_span_without_a_prompt_is_left_alone():
    """Nothing says what it was given; it is no candidate and not counted as not run."""

    @llmeval.llm(model_name="m")
    def ask(question):
        return "a"

    records, captured = judged(ask, "q")
    assert records == []
    assert captured.reasons() == {}


def rag(prompted):
    @llmeval.retrieval
    def search(question):
        return ["found"]

    @llmeval.llm(model_name="m")
    def ask(question, chunks):
        if prompted:
            llmeval.annotate(prompt={"variables": {"context": chunks, "question": question}})
        return "answer"

    @llmeval.workflow
    def flow(question):
        return ask(question, search(question))

    return flow


def test_a_workflow_is_judged_where_no_llm_span_below_it_qualified():
    """Its request, response and retrieved context are enough."""
    (record,), _ = judged(rag(prompted=False), "q")
    assert (record.span_kind, record.request, contents(record)) == ("workflow", "q", ["found"])


def test_a_workflow_is_not_judged_twice_when_its_llm_span_was():
    """One judgement per answer."""
    (record,), captured = judged(rag(prompted=True), "q")
    assert record.span_kind == "llm"
    assert captured.reasons() == {}


def test_an_outer_workflow_is_not_judged_in_place_of_the_llm_span_either():
    """However deep the llm span is."""
    inner = rag(prompted=True)

    @llmeval.workflow
    def outer(question):
        llmeval.annotate(retrieved_context=["of the outer"])
        return inner(question)

    (record,), _ = judged(outer, "q")
    assert record.span_kind == "llm"


def test_a_workflow_that_asks_for_the_judge_gets_it():
    """What was named on a span runs on that span."""
    seen = Seen()
    with testing.capture(escalations=[]) as captured:

        @llmeval.llm(model_name="m")
        def ask(question):
            llmeval.annotate(prompt={"variables": {**CONTEXT, "question": question}})
            return "a"

        @llmeval.workflow(evaluators=[seen])
        def flow(question):
            llmeval.annotate(retrieved_context=["of the flow"])
            return ask(question)

        flow("q")
        captured.drain()
    (record,) = seen.records
    assert record.span_kind == "workflow"


def test_an_escalated_judge_looks_where_the_cheap_scores_are():
    """Its condition reads the workflow's heuristics, so the workflow is what it judges."""
    seen = Seen()
    rule = llmeval.Escalation(seen, when=llmeval.above("groundedness_risk", -1.0))
    with testing.capture(escalations=[rule]) as captured:
        rag(prompted=True)("q")
        captured.drain()
    (record,) = seen.records
    assert record.span_kind == "workflow"


def test_sampling_rules_go_by_the_name_of_the_llm_span():
    """``annotation_context(name=)`` is what a rule's span_name matches."""
    rules = '[{"sample_rate": 1, "span_name": "generate_answer"}, {"sample_rate": 0}]'

    def flow():
        for name in ("generate_answer", "something_else"):
            with llmeval.annotation_context(prompt={"variables": CONTEXT}, name=name):

                @llmeval.llm(model_name="m")
                def ask(question):
                    return "a"

                ask(f"q of {name}")

    records, captured = judged(flow, sampling_rules=rules)
    assert [record.span_name for record in records] == ["generate_answer"]
    assert captured.reasons() == {"seen": "not_sampled"}


def test_the_record_of_an_llm_span_keeps_its_own_annotations():
    """Annotated chunks win over the prompt's variables."""
    with llmeval.llm("m") as span:
        llmeval.annotate(prompt={"variables": CONTEXT}, retrieved_context=["mine"], response="a")
    assert contents(record_of(span)) == ["mine"]
