"""What travels between apps and workers: signed, versioned, bounded, and the same at both ends."""

import json
from base64 import b64decode, b64encode
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.config import Secret
from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    Record,
    SpanData,
    Step,
    Target,
    Usage,
)
from llmeval_sdk.model.plain import UnreadableError, built
from llmeval_sdk.pipeline.judging import Job
from llmeval_sdk.plugins.fleet._message import (
    FULL_BYTES,
    MAX_JUDGEMENT_BYTES,
    MAX_JUDGEMENTS,
    MAX_MESSAGE_BYTES,
    READS,
    VERSION,
    JudgementOutcome,
    RefusedError,
    body_of,
    envelope,
    fingerprint,
    judgement_id,
    judgement_text,
    message_of,
    outcome_of,
    parsed,
    signature,
    written,
)


KEY = Secret("a-key-that-only-tests-have")
TARGET = Target("1" * 32, "2" * 16, "answer", "workflow")
RECORD = Record(
    request={"query": "What?", "history": [{"role": "user", "content": "ö\ud800"}]},
    response="Slate.",
    retrieved_context=(Chunk("Slate.", "a.pdf", score=0.5, metadata={"": "Usage"}), Chunk("")),
    expected_facts=("It is slate.",),
    extractions=(Extraction(value={"a": [1, None]}, chunk_number=1, confidence="HIGH"),),
    attributes={"tenant": "x"},
    usage=Usage(1, 2, 3, 0.5),
    latency_seconds=0.25,
    trace_id="1" * 32, span_id="2" * 16, span_name="answer", span_kind="workflow",
)  # fmt: skip


def _job(record=RECORD, judge="groundedness"):
    return Job(SimpleNamespace(name=judge), record, TARGET, Admitted(0.25, "low", escalated=True))


def _body(*jobs, host=None):
    jobs = jobs or (_job(),)
    ids = [judgement_id(job.judge.name, job.target) for job in jobs]
    return body_of(list(map(judgement_text, jobs, ids)), ids, host=host)


def _changed(body, *change):
    """Return a message in which a text was replaced, or another text as a message."""
    text = b64decode(body).decode() if change else body
    return b64encode((text.replace(*change) if change else text).encode()).decode()


def _refused(body, signed=None, key=KEY):
    with pytest.raises(RefusedError) as error:
        message_of(body, signature(body, key) if signed is None else signed, KEY)
    return error.value


def test_a_judgement_arrives_as_it_was_asked():
    """Record, target, chance and reason are the same at both ends."""
    body = _body(host="0123456789abcdef")
    message = message_of(body, signature(body, KEY), KEY)
    (asked,) = message.asked
    assert message.host == "0123456789abcdef"
    assert asked.record == RECORD
    assert (asked.judge, asked.target) == ("groundedness", TARGET)
    assert asked.admitted == Admitted(0.25, "low", escalated=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_plain_value_survives(value):
    """Whatever JSON can say of a record arrives unchanged."""
    record = replace(RECORD, value=value, field_config={"x": value})
    assert built(Record, parsed(written(record))) == record


def test_what_is_no_plain_data_leaves_only_its_type():
    """A value that JSON cannot hold costs neither the judgement nor the thread, and calls no code."""

    class Mine:
        def __repr__(self):
            raise RuntimeError

    loop = []
    loop.append(loop)
    record = replace(RECORD, value=Mine(), attributes={(1, 2): b"x"}, field_config={"x": loop})
    text = written(record)
    assert '"<Mine>"' in text
    assert '"<bytes>"' in text
    assert len(text) < 100_000


def test_an_absent_field_is_not_an_empty_one():
    """``None`` stays absent and an empty list stays there: judges tell them apart."""
    record = Record(retrieved_context=(), expected_facts=None)
    assert built(Record, parsed(written(record))) == record


def test_every_field_of_a_record_arrives():
    """A field that is added to Record and not to the wire would reach judges as a type's name."""
    step = Step("tool", None, "refund", {"id": "A17"}, {"ok": True}, "503", "write", 1, 2)
    full = Record(
        "r", {"messages": [{"role": "user", "content": "q"}]}, "a", (Chunk("c", metadata={"k": 1}),),
        ("fact",), "expected", (Chunk(doc_uri="d"),), (Extraction("v", 1, 0.5, "e"),), "v", 0.5,
        {"name": "f"}, {"limits": {}}, {"k": "v"}, Usage(1, 2, 3, 0.1), 1.5, "t" * 32, "s" * 16,
        "name", "agent", (step,), ({"name": "refund", "parameters": {}},), (step,), "not there",
    )  # fmt: skip
    assert all(getattr(full, row.name) is not None for row in fields(Record))
    assert built(Record, parsed(written(full))) == full


def test_a_forged_message_is_refused():
    """Another key, a changed byte and a signature of another kind are all forged."""
    body = _body()
    assert _refused(body, key=Secret("another-key-of-tests")).reason == "forged"
    assert _refused(_changed(body, "0.25", "1.00"), signature(body, KEY)).reason == "forged"
    for signed in ("", "é", "\ud800", 5, [], "0" * 64):
        assert _refused(body, signed).reason == "forged"
    assert _refused("\ud800", "0" * 64).reason == "forged"


def test_a_message_of_an_unknown_version_is_refused_by_its_judgements():
    """A worker that cannot read a message can still say which judgements it refuses."""
    body = _changed(_body(), f'"v": {VERSION}', f'"v": {VERSION + 1}')
    refused = _refused(body)
    assert refused.reason == "unknown_version"
    assert refused.ids == (judgement_id("groundedness", TARGET),)


def test_messages_that_were_once_written_are_read():
    """The oldest message that any reader here is for, as it was written then."""
    body = (
        '{"v": 1, "ids": ["%s"], "host": null, "sent": 1795000000.0, "judgements": [{"id":"%s",'
        '"judge":"groundedness","record":{"request":"q","response":"a","retrieved_context":'
        '[{"content":"c"}],"attributes":{}},"target":{"trace_id":"t","span_id":"s","span_name":'
        '"answer","span_kind":"workflow"},"probability":1.0,"why":"asked","escalated":false}]}'
    ) % ((judgement_id("groundedness", Target("t", "s")),) * 2)
    body = _changed(body)
    (asked,) = message_of(body, signature(body, KEY), KEY).asked
    assert asked.record == Record(request="q", response="a", retrieved_context=(Chunk("c"),))
    assert sorted(READS) == [1]


def test_a_message_over_the_bound_is_refused():
    """Nobody parses what is larger than any message of ours."""
    assert _refused("x" * (MAX_MESSAGE_BYTES + 1)).reason == "too_large"
    with pytest.raises(ValueError, match="may travel"):
        judgement_text(_job(replace(RECORD, response="x" * (1 << 20))), "0" * 32)


def test_the_fullest_message_is_within_the_bound():
    """No worker refuses what an app writes: the text grows by a third on its way."""
    ids = ["f" * 32] * MAX_JUDGEMENTS
    most = FULL_BYTES - 1 + MAX_JUDGEMENT_BYTES
    assert len(body_of(["x" * most, *[""] * 31], ids, host="f" * 32)) <= MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "body",
    ["", "[]", "[" * 100_000, "5", '{"v": 1}', '{"v": 1, "ids": 5}', '{"v": [], "ids": []}',
     '{"v": 1, "ids": [], "host": "../x", "judgements": []}',
     '{"v": 1, "ids": [], "host": null, "judgements": 5}'],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(body):
    """Even with the right signature."""
    for text in (body, _changed(body)):
        assert _refused(text).reason in ("unreadable", "unknown_version")


def test_one_unreadable_judgement_costs_only_itself():
    """The others of its message are made; it is named by its id."""
    other = _job(judge="safety")
    body = _body(_job(), other)
    message = json.loads(b64decode(body))
    message["judgements"][0]["record"] = "none"
    body = _changed(json.dumps(message))
    read = message_of(body, signature(body, KEY), KEY)
    assert [asked.judge for asked in read.asked] == ["safety"]
    assert read.unreadable == (judgement_id("groundedness", TARGET),)


def test_a_judgement_cannot_take_the_id_of_another():
    """Whoever may sign could otherwise settle what was not asked."""
    message = json.loads(b64decode(_body()))
    message["judgements"][0]["judge"] = "safety"
    body = _changed(json.dumps(message))
    assert message_of(body, signature(body, KEY), KEY).asked == ()


def test_a_message_holds_no_address_and_no_key():
    """What it says of judges are names."""
    body = _body()
    text = envelope(body, signature(body, KEY), "serial") + b64decode(body).decode()
    assert KEY.reveal() not in text
    assert "redis://" not in text
    assert "llmeval_sdk" not in text
    assert len(fingerprint(KEY)) == 12


def test_an_outcome_arrives_as_it_was_made():
    """Verdict, trace and reason come back the same, and not under another key."""
    verdict = Evaluation(
        "groundedness", "yes", explanation="ok", metadata={"model": "m", "n": [1]},
        evaluator_kind="judge", usage=Usage(1, 2, 3), duration=0.5, inclusion_probability=0.25,
    )  # fmt: skip
    failed = replace(verdict, value=None, error=Failure("timeout", "slow"))
    span = SpanData("3" * 32, "4" * 16, None, "groundedness", "workflow", 1, 2, links=(TARGET,))
    items = [
        EvaluationEvent("a", TARGET, verdict, 5),
        EvaluationEvent("b", TARGET, failed, 6),
        span,
        NotRun("c", TARGET, "groundedness", "timeout", "", 7),
    ]
    text = JudgementOutcome("0" * 32, items).text(KEY).encode()
    assert outcome_of(text, KEY).items == items
    with pytest.raises(UnreadableError):
        outcome_of(text, Secret("another-key-of-tests"))
    with pytest.raises(UnreadableError):
        outcome_of(text.replace(b"yes", b"no!"), KEY)
    with pytest.raises(UnreadableError):
        outcome_of(b"\xff", KEY)
