"""The built-in judges: what they ask, what they make of the reply, what they leave alone."""

import json
from dataclasses import replace

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Chunk, Failure, Record, Step, Usage
from llmeval_sdk.testing.judge_server import sections_of


NAMES = tuple(registry.installed(registry.judges()))
YES = {"rationale": "fits", "rating": "yes"}
NO = {"rationale": "lacks the year", "rating": "no"}
FULL = Record(
    request="When was the mill built?",
    response="The mill was built in 1786.",
    value="1786",
    retrieved_context=(Chunk("The mill was built in 1786."), Chunk("Opening hours: 9 to 5.")),
    expected_response="In 1786.",
)
STEPS = (
    Step("system", "Look it up before you answer."),
    Step("user", "When was the mill built?"),
    Step("tool", name="transfer_to_archive", arguments={"topic": "mill"}, result="1786"),
    Step("assistant", "The mill was built in 1786."),
)
RUN = {"rationale": "fits", "steps": [], "rating": "yes"}
GOOD = {
    "chunk_relevance": (YES, 1.0),
    "context_sufficiency": (YES, "yes"),
    "correctness": (YES, "yes"),
    "relevance_to_query": (YES, "yes"),
    "groundedness": (YES, "yes"),
    "safety": (YES, "yes"),
    "context_recall_llm": ({"rationale": "all there", "score": 0.75}, 0.75),
    "context_recall": ({"reason": "agrees", "context_recall_score": 0.5}, 0.5),
    **dict.fromkeys(
        (
            "task_completion",
            "tool_selection",
            "tool_arguments",
            "plan_adherence",
            "handoff",
            "conversation_completeness",
            "user_frustration",
            "goal_reached",
            "knowledge_retention",
        ),
        (RUN, "yes"),
    ),
    "extraction_correctness": ({**YES, "problem": "none", "right_value": ""}, "yes"),
}


def full(name):
    """The record with all that a judge needs: what tools returned is context for some."""
    return replace(FULL, steps=STEPS) if GOOD[name][0] is RUN else FULL


def shown(llm, call=0):
    """The sections that a call showed, by name."""
    return {section.name: section.text for section in sections_of(llm.asked[call][1].content)}


@pytest.mark.parametrize("name", NAMES)
def test_a_good_reply_becomes_a_value_with_its_reason(name, scripted, judged):
    """Value, explanation, kind, version, tokens and duration are filled in."""
    reply, value = GOOD[name]
    found = judged(registry.evaluator(name), full(name), scripted(reply))
    assert (found.name, found.value, found.error) == (name, value, None)
    version = "2" if name == "extraction_correctness" else "1"
    assert (found.evaluator_kind, found.evaluator_version) == ("judge", version)
    assert found.usage.total_tokens >= 15
    assert found.duration > 0
    if name != "chunk_relevance":
        assert found.explanation in ("fits", "all there", "agrees")


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_judge_invents_no_value(name, down, judged):
    """A model that cannot be reached gives an error with its type, and nothing else."""
    found = judged(registry.evaluator(name), full(name), down)
    assert (found.value, found.explanation, found.label) == (None, None, None)
    assert found.error.type == "unavailable"
    assert "no connection" in found.error.message
    assert (
        found.usage == Usage(1, 0, 1) + Usage(1, 0, 1)
        if name == "chunk_relevance"
        else Usage(1, 0, 1)
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reply", ["yes", "{}", '{"rationale": "x", "rating": "perhaps"}', "[1]"])
def test_an_unusable_reply_is_malformed_and_no_value(name, reply, scripted, judged):
    """A judge never guesses what a model may have meant."""
    found = judged(registry.evaluator(name), full(name), scripted(reply))
    assert (found.value, found.error.type) == (None, "malformed")


BARE = (Chunk(doc_uri="mill.pdf"), Chunk("  ", doc_uri="hours.pdf"))
READERS = (
    "groundedness",
    "context_sufficiency",
    "chunk_relevance",
    "context_recall",
    "context_recall_llm",
)


@pytest.mark.parametrize("name", READERS)
def test_chunks_without_content_are_a_missing_input_and_cost_nothing(name, scripted, judged):
    """Nobody is paid to read chunks that are known by their addresses only."""
    llm = scripted(GOOD[name][0])
    bare = replace(FULL, retrieved_context=BARE, steps=None)
    found = judged(registry.evaluator(name), bare, llm)
    assert (found.value, found.error, llm.asked) == (None, None, [])
    assert found.metadata == {"missing_inputs": "text in retrieved_context"}


@pytest.mark.parametrize("name", READERS)
def test_online_chunks_without_content_are_counted_as_missing_inputs(name):
    """The judge does not run, and `explain` can say why."""
    model = testing.FakeLLM()
    with testing.capture(evaluators=[name], escalations=[], llm=model) as captured:
        with llmeval.workflow("answer", request=FULL.request) as span:
            span.retrieved_context, span.response = BARE, FULL.response
            llmeval.annotate(expected_response=FULL.expected_response)
        captured.drain()
    counted = [(each.evaluator, each.reason, each.detail) for each in captured.not_run]
    assert counted == [(name, "missing_inputs", "the record has no text in retrieved_context")]
    assert model.calls == []


def test_offline_chunks_without_content_say_what_is_missing():
    """The row says so beside the judges that were asked for; no model is called."""
    model = testing.FakeLLM()
    row = {
        "request": FULL.request,
        "response": FULL.response,
        "expected_response": FULL.expected_response,
        "retrieved_context": [{"doc_uri": "mill.pdf"}],
    }
    report = llmeval.evaluate([row], evaluators=list(READERS), llm=model)
    for name in READERS:
        found = report.rows[0].evaluations[name]
        assert found.value is None
        assert found.metadata["missing_inputs"] == "text in retrieved_context"
    assert model.calls == []


@pytest.mark.parametrize("name", NAMES)
def test_missing_inputs_are_not_applicable_and_cost_nothing(name, scripted, judged):
    """No call is made for a record that lacks what the judge needs; what is missing is named."""
    llm = scripted(YES)
    found = judged(registry.evaluator(name), Record(request="x"), llm)
    assert (found.value, found.error, llm.asked) == (None, None, [])
    assert found.metadata["missing_inputs"]


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_in_a_model_is_an_error(name, scripted, judged):
    """A user's LLM may raise anything; the judge turns it into a value."""
    found = judged(registry.evaluator(name), full(name), scripted(ZeroDivisionError("oops")))
    assert (found.value, found.error.type) == (None, "ZeroDivisionError")


@pytest.mark.parametrize("name", NAMES)
def test_every_judge_works_end_to_end_over_http(name, stand_in, judged):
    """Against the stand-in server each built-in judge comes to a verdict that says who gave it."""
    found = judged(registry.evaluator(name), full(name), stand_in)
    assert found.error is None
    assert found.value in ("yes", "no") or 0.0 <= found.value <= 1.0
    for rationale in found.metadata.get("rationales", [found.explanation]):
        assert rationale.startswith("stand-in:")
    assert found.usage.input_tokens > 100


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("chunk_relevance", "correctness")]
)
def test_one_judgement_is_one_call(name, scripted, judged):
    """Cost is predictable: one call per judgement."""
    llm = scripted(GOOD[name][0])
    judged(registry.evaluator(name), full(name), llm)
    assert len(llm.asked) == 1


@pytest.mark.parametrize("name", NAMES)
def test_examples_fit_the_form_they_teach(name):
    """Each few-shot reply is one that the strict reader takes."""
    import importlib

    from llmeval_sdk.judges import extraction_correctness, prompt

    module = importlib.import_module(registry.judges()[name].partition(":")[0])
    of_its_kind = getattr(registry.evaluator(name), "form", prompt.YES_NO)
    taught = {
        "context_recall_llm": {"EXAMPLES": prompt.SCORE},
        "context_recall": {"EXAMPLES": prompt.RECALL},
        "extraction_correctness": {"EXAMPLES": extraction_correctness.FORM},
        "correctness": {"CHECK_EXAMPLES": prompt.FACTS, "COMPARE_EXAMPLES": prompt.YES_NO},
    }.get(name, {"EXAMPLES": of_its_kind})
    for attribute, form in taught.items():
        examples = getattr(module, attribute)
        assert examples
        for example in examples:
            assert prompt.read(json.dumps(example.answer), form) == dict(example.answer)


def test_earlier_turns_are_history_and_the_last_user_message_is_the_request(scripted, judged):
    """A chat request is judged by its last question, in the light of the others."""
    llm = scripted(YES)
    record = Record(
        request={
            "messages": [
                {"role": "system", "content": "You are a guide."},
                {"role": "user", "content": "Tell me about the mill."},
                {"role": "assistant", "content": "It is old."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "How old?"}, {"type": "image_url"}],
                },
            ]
        },
        response="235 years.",
    )
    judged(registry.evaluator("relevance_to_query"), record, llm)
    sections = shown(llm)
    assert sections["request"] == "How old?\n[image_url]"
    assert sections["earlier conversation"] == (
        "system: You are a guide.\nuser: Tell me about the mill.\nassistant: It is old."
    )


def test_groundedness_sees_the_chunks_in_rank_order(scripted, judged):
    """Request, chunks and response are shown, nothing else."""
    llm = scripted(NO)
    found = judged(registry.evaluator("groundedness"), replace(FULL, steps=None), llm)
    assert (found.value, found.explanation) == ("no", "lacks the year")
    assert list(shown(llm)) == ["request", "chunk 1", "chunk 2", "response"]


def test_sufficiency_does_not_see_the_response(scripted, judged):
    """Retrieval is judged against what is expected, whatever the app answered."""
    llm = scripted(YES)
    judged(registry.evaluator("context_sufficiency"), FULL, llm)
    assert list(shown(llm)) == ["request", "chunk 1", "chunk 2", "expected response"]


def test_recall_of_a_field_sees_its_description_value_and_ten_chunks(scripted, judged):
    """The escalation judge knows which field it is about and reads the first ten chunks."""
    llm = scripted({"rationale": "all there", "score": 1})
    record = Record(
        request="roofType",
        value={"kind": "slate"},
        field_config={"name": "roofType", "description": "what covers the roof", "format": "x"},
        retrieved_context=tuple(Chunk(f"text {n}") for n in range(1, 15)),
    )
    found = judged(registry.evaluator("context_recall_llm"), record, llm)
    sections = shown(llm)
    assert sections["field"] == "name: roofType\ndescription: what covers the roof"
    assert sections["value"] == '{"kind": "slate"}'
    assert [name for name in sections if name.startswith("chunk")] == [
        f"chunk {n}" for n in range(1, 11)
    ]
    assert (found.value, found.metadata["chunks"], len(llm.asked)) == (1.0, 10, 1)


def test_recall_of_an_empty_retrieval_is_zero_without_a_call(scripted, judged):
    """Nothing retrieved is nothing recalled; no model need be asked."""
    llm = scripted(YES)
    record = Record(request="f", value="x", retrieved_context=())
    found = judged(registry.evaluator("context_recall_llm"), record, llm)
    assert (found.value, llm.asked) == (0.0, [])


def test_a_long_list_has_room_for_its_reply(scripted, judged):
    """Where a list is asked for, the reply may take 4096 tokens."""
    llm = scripted({"facts": [{"number": 1, "stated": "yes"}], "rationale": "x"})
    record = Record(request="q", response="a b", expected_facts=("a",))
    judged(registry.evaluator("correctness"), record, llm)
    assert llm.limits[0] >= 4096


def test_what_was_cut_is_told(scripted, judged):
    """A verdict on shortened material says which sections were shortened."""
    record = Record(request="q", response="long " * 20_000)
    found = judged(registry.evaluator("relevance_to_query"), record, scripted(YES))
    assert found.metadata["cut"] == ["response"]


class TestCorrectness:
    judge = registry.evaluator("correctness")

    def record(self, **fields):
        return Record(request="Tell me", response="Built in 1786 of oak.", **fields)

    def test_every_fact_has_to_be_stated(self, scripted, judged):
        """One missing fact makes it a no, and its number is given."""
        reply = {
            "facts": [{"number": 2, "stated": "no"}, {"number": 1, "stated": "Yes"}],
            "rationale": "the height is missing",
        }
        found = judged(self.judge, self.record(expected_facts=("1786", "9 m")), scripted(reply))
        assert (found.value, found.explanation) == ("no", "the height is missing")
        assert found.metadata == {"expected_facts": 2, "unstated_facts": [2]}

    def test_all_facts_stated_is_a_yes(self, scripted, judged):
        """The rating follows from the facts, not from a word of the model."""
        reply = {"facts": [{"number": 1, "stated": "yes"}], "rationale": "there"}
        found = judged(self.judge, self.record(expected_facts=("1786",)), scripted(reply))
        assert found.value == "yes"

    @pytest.mark.parametrize("numbers", [[], [1], [1, 1], [1, 3], [1, 2, 3]])
    def test_a_fact_left_out_or_checked_twice_is_malformed(self, numbers, scripted, judged):
        """Each of the facts has to be checked exactly once."""
        reply = {"facts": [{"number": n, "stated": "yes"} for n in numbers], "rationale": "x"}
        found = judged(self.judge, self.record(expected_facts=("a", "b")), scripted(reply))
        assert (found.value, found.error.type) == (None, "malformed")

    def test_facts_and_response_together_are_bad_input(self, scripted, judged):
        """Which one counts is not for the judge to choose; nothing is spent."""
        llm = scripted(YES)
        found = judged(self.judge, self.record(expected_facts=("a",), expected_response="a"), llm)
        assert (found.value, found.error.type, llm.asked) == (None, "bad_input", [])

    def test_no_facts_to_check_is_not_applicable(self, scripted, judged):
        """An empty list of facts is there, and there is nothing to rate."""
        llm = scripted(YES)
        found = judged(self.judge, self.record(expected_facts=()), llm)
        assert (found.value, found.error, llm.asked) == (None, None, [])


class TestChunkRelevance:
    judge = registry.evaluator("chunk_relevance")

    def record(self, *contents):
        chunks = tuple(Chunk(text, doc_uri="u") for text in contents)
        return Record(request="When?", retrieved_context=chunks)

    def test_precision_is_yes_over_rated_chunks(self, scripted, judged):
        """Failed chunks are counted and leave the precision alone."""
        llm = scripted(YES, NO, JudgeError("timeout", "too slow"), YES)
        found = judged(self.judge, self.record("a", "b", "c", "d"), llm)
        assert found.value == pytest.approx(2 / 3)
        assert found.error is None
        assert found.metadata == {
            "ratings": ["yes", "no", None, "yes"],
            "rationales": ["fits", "lacks the year", None, "fits"],
            "error_messages": [None, None, "too slow", None],
            "failed": 1,
        }
        assert found.usage == Usage(30, 15, 45)

    def test_no_rated_chunk_is_no_precision(self, down, judged):
        """Where every chunk failed there is an error and no value, and the arrays stay whole."""
        found = judged(self.judge, self.record("a", "b"), down)
        assert found.value is None
        assert found.error == Failure(
            "unavailable", "none of 2 chunks could be rated: no connection"
        )
        assert found.metadata["ratings"] == [None, None]
        assert found.metadata["failed"] == 2

    def test_equal_texts_are_judged_once(self, scripted, judged):
        """A chunk that two methods found stands twice and is paid for once."""
        llm = scripted(YES)
        found = judged(self.judge, self.record("a", "b", "a"), llm)
        assert (len(llm.asked), found.metadata["ratings"]) == (2, ["yes", "yes", "yes"])

    def test_a_chunk_without_text_is_an_error_of_that_chunk(self, scripted, judged):
        """Its place in the arrays says why it has no rating."""
        llm = scripted(YES)
        found = judged(self.judge, self.record("a", None), llm)
        assert (found.value, len(llm.asked)) == (1.0, 1)
        assert found.metadata["error_messages"] == [None, "the chunk holds no text"]

    def test_an_empty_retrieval_has_no_precision_and_no_error(self, scripted, judged):
        """There was nothing to rate."""
        found = judged(self.judge, self.record(), scripted(YES))
        assert (found.value, found.error, found.metadata["ratings"]) == (None, None, [])

    def test_chunks_are_judged_at_the_same_time(self, judged):
        """Eight at a time, so twenty chunks do not take twenty waits, nor open twenty connections."""
        import asyncio

        from llmeval_sdk.model import Completion

        class Counting:
            model, now, most = "m", 0, 0

            async def complete(self, messages, /, **options):
                self.now += 1
                self.most = max(self.most, self.now)
                for _ in range(5):
                    await asyncio.sleep(0)
                self.now -= 1
                return Completion(json.dumps(YES))

        llm = Counting()
        judged(self.judge, self.record(*(f"text {n}" for n in range(20))), llm)
        assert llm.most == 8
