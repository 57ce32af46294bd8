"""A judge made of a prompt: checked when it is written, safe when it runs."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges import Example, LLMJudge
from llmeval_sdk.model import Chunk, Extraction, Record, Usage
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.testing.judge_server import sections_of


YES = {"rationale": "kind words", "rating": "yes"}


def shown(llm, call=0):
    return {section.name: section.text for section in sections_of(llm.asked[call][1].content)}


def test_a_prompt_is_a_judge(scripted, judged):
    """The shortest judge: a name, a question, a field."""
    polite = LLMJudge("polite", "Is the answer polite?\n\n{response}")
    llm = scripted(YES)
    found = judged(polite, Record(response="Thank you!"), llm)
    assert isinstance(polite, Judge)
    assert polite.needs == ("response",)
    assert (found.name, found.value, found.explanation) == ("polite", "yes", "kind words")
    assert shown(llm) == {"response": "Thank you!"}
    assert "Is the answer polite?\n\n[section: response]" in llm.asked[0][0].content


def test_content_is_never_expanded(scripted, judged):
    """Braces in what is judged mean nothing: rendering is a single pass."""
    judge = LLMJudge("j", "{response} and {request} and {{literal}}")
    llm = scripted(YES)
    judged(judge, Record(request="{response}", response="{request} {0} %s {attributes.x}"), llm)
    assert shown(llm) == {"response": "{request} {0} %s {attributes.x}", "request": "{response}"}
    assert "and {literal}" in llm.asked[0][0].content


@pytest.mark.parametrize(
    ("prompt", "options", "says"),
    [
        ("{respons}", {}, "did you mean 'response'"),
        ("{answer}", {}, "fields: request, response"),
        ("{chunk.content}", {}, r'only with per="chunk"'),
        ("{attributes.}", {}, "no field"),
        ("{trace_id}", {}, "no field"),
        ("{response.upper}", {}, "no field"),
        ("{response[0]}", {}, "no field"),
        ("{}", {}, "no field"),
        ("{response!r}", {}, "no format or conversion"),
        ("{response:>10}", {}, "no format or conversion"),
        ('{"rating": "yes"} {response}', {}, "plain braces"),
        ("{response", {}, "plain braces"),
        ("Is it polite?", {}, "names nothing to judge"),
        ("{response}", {"output": "stars"}, "a list of categories"),
        ("{response}", {"output": ["one"]}, "two different categories"),
        ("{response}", {"output": ["a", "A"]}, "two different categories"),
    ],
)
def test_mistakes_are_told_when_it_is_written(prompt, options, says):
    """An unknown field or a broken template never waits for production to be found."""
    with pytest.raises(ConfigurationError, match=says):
        LLMJudge("j", prompt, **options)


@pytest.mark.parametrize("name", ["", "my judge", "1st", "a.b", "é", "_x", "x" * 201])
def test_a_name_that_a_backend_would_refuse_is_refused(name):
    """Names are labels at the backends: letters, digits, underscores."""
    with pytest.raises(ConfigurationError, match="evaluator name"):
        LLMJudge(name, "{response}")


def test_needs_follow_from_the_prompt():
    """What the prompt names must be there, except free metadata."""
    judge = LLMJudge(
        "j", "{request} {expected_facts} {field_config.name} {attributes.tone} {request}"
    )
    assert judge.needs == ("request", "expected_facts", "field_config")
    assert LLMJudge("j", "{chunk.content}", per="chunk").needs == ("retrieved_context.content",)
    assert LLMJudge("j", "{request} {value}", needs=("request",)).needs == ("request",)


def test_every_field_of_a_record_can_be_shown(scripted, judged):
    """Chunks get a section each, nouns and mappings become JSON, absent metadata is empty."""
    llm = scripted(YES)
    judge = LLMJudge(
        "j",
        "{retrieved_context} {extractions} {usage} {attributes.tone} {attributes.none} {retrieval}",
    )
    record = Record(
        retrieved_context=(Chunk("one"), Chunk(doc_uri="u"), Chunk("three")),
        extractions=(Extraction("v", 1),),
        usage=Usage(1, 2, 3),
        attributes={"tone": "dry"},
        retrieval={"limits": {"bm25": 3}},
    )
    assert judged(judge, record, llm).error is None
    sections = shown(llm)
    assert list(sections) == [
        "chunk 1", "chunk 3", "extractions", "usage", "attributes tone", "attributes none", "retrieval",
    ]  # fmt: skip
    assert sections["attributes tone"] == "dry"
    assert sections["attributes none"] == ""
    assert sections["extractions"].startswith('[{"value": "v"')
    assert sections["retrieval"] == '{"limits": {"bm25": 3}}'


def test_a_score_is_checked_against_its_range(scripted, judged):
    """A custom score lives on the same scale as the built-in ones."""
    judge = LLMJudge("j", "{response}", output="score", version="7")
    good = judged(judge, Record(response="x"), scripted({"rationale": "r", "score": 0.25}))
    bad = judged(judge, Record(response="x"), scripted({"rationale": "r", "score": 4}))
    assert (good.value, good.evaluator_version) == (0.25, "7")
    assert (bad.value, bad.error.type) == (None, "malformed")


def test_categories_are_a_closed_list(scripted, judged):
    """Anything but one of the author's words is malformed."""
    judge = LLMJudge("tone", "{response}", output=["formal", "casual"])
    good = judged(judge, Record(response="x"), scripted({"rationale": "r", "rating": "Casual"}))
    bad = judged(judge, Record(response="x"), scripted({"rationale": "r", "rating": "rude"}))
    assert (good.value, bad.value, bad.error.type) == ("casual", None, "malformed")


def test_examples_are_shown_with_the_rubric(scripted, judged):
    """Few-shot examples are the author's and stand beside the rubric."""
    example = Example({"response": "Go away."}, {"rationale": "rude", "rating": "no"})
    llm = scripted(YES)
    judged(LLMJudge("j", "{response}", examples=[example]), Record(response="x"), llm)
    assert 'response: Go away.\nreply: {"rationale": "rude"' in llm.asked[0][0].content


def test_per_chunk_it_asks_for_each_chunk(scripted, judged):
    """The value is the precision, the ratings stand in the metadata."""
    judge = LLMJudge(
        "on_topic", "Is {chunk.content} from {chunk.doc_uri} about {request}?", per="chunk"
    )
    llm = scripted(YES, {"rationale": "off", "rating": "no"})
    record = Record(request="roofs", retrieved_context=(Chunk("a", doc_uri="u"), Chunk("b")))
    found = judged(judge, record, llm)
    assert (found.value, found.metadata["ratings"]) == (0.5, ["yes", "no"])
    assert shown(llm) == {"chunk": "a", "chunk doc uri": "u", "request": "roofs"}


def test_a_custom_judge_works_against_the_stand_in(stand_in, judged):
    """Demos and tests may use judges of their own without a model."""
    for output, values in (("yes_no", {"yes", "no"}), ("score", None), (["a", "b"], {"a", "b"})):
        judge = LLMJudge("mine", "{response} {retrieved_context}", output=output)
        found = judged(
            judge, Record(response="slate", retrieved_context=(Chunk("slate"),)), stand_in
        )
        assert found.error is None
        assert found.explanation.startswith("stand-in:")
        assert found.value in values if values else 0.0 <= found.value <= 1.0


@pytest.mark.parametrize("per", ["ANSWER", "RETRIEVAL", "Chunk", "", None])
def test_an_unknown_per_is_refused_where_it_is_written(per):
    """A judge of the answer that judged every chunk instead would cost as many times more."""
    with pytest.raises(ConfigurationError, match="per is 'answer' or 'chunk'"):
        LLMJudge("mine", "{response}", per=per)
    with pytest.raises(ConfigurationError, match="per is 'answer', 'chunk', 'step' or 'session'"):
        llmeval.judge(per=per)


def test_the_documents_word_for_per_is_named_in_the_error():
    """Who writes per="ANSWER" is told both ways to say it."""
    with pytest.raises(ConfigurationError, match="per='answer' or assessment_type='ANSWER'"):
        LLMJudge("mine", "{response}", per="ANSWER")


def test_assessment_type_is_another_way_to_say_per():
    """ANSWER is per answer, RETRIEVAL per chunk; contradictions and other words are refused."""
    assert LLMJudge("a", "{response}", assessment_type="ANSWER").per == "answer"
    assert LLMJudge("b", "{chunk.content}", assessment_type="RETRIEVAL").per == "chunk"

    @llmeval.judge(assessment_type="RETRIEVAL")
    async def on_topic(record, chunk, llm):
        return True

    assert on_topic.per == "chunk"
    with pytest.raises(ConfigurationError, match="'ANSWER' or 'RETRIEVAL', not 'answer'"):
        LLMJudge("c", "{response}", assessment_type="answer")
    with pytest.raises(ConfigurationError, match="differ"):
        LLMJudge("d", "{response}", per="chunk", assessment_type="ANSWER")


def test_assessment_type_decides_how_often_a_judge_is_asked(scripted, judged):
    """An ANSWER judge asks once, a RETRIEVAL judge once per chunk."""
    record = Record(response="slate", retrieved_context=(Chunk("a"), Chunk("b"), Chunk("c")))
    for kind, prompt, calls in (("ANSWER", "{response}", 1), ("RETRIEVAL", "{chunk.content}", 3)):
        llm = scripted({"rationale": "r", "rating": "yes"})
        judged(LLMJudge("mine", prompt, assessment_type=kind), record, llm)
        assert len(llm.asked) == calls
