"""The loopback decision server speaks every wire for real, and breaks each as servers do."""

import http.client
import json
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from decisions_asked import CHANCES, DATA, by_name

from llmeval_sdk.model import STAND_IN, Option, Question
from llmeval_sdk.testing.decision_server import DecisionServer, stand_in_decision


PREDICATE = {"type": "predicate", "name": "groundedness", "instructions": "Is it?"}
OPENAI = {
    "model": "any",
    "input": [{"role": "user", "content": [{"type": "input_json", "data": DATA}]}],
    "questions": [
        PREDICATE,
        {"type": "choice", "name": "tone", "instructions": "Which?",
         "choices": [{"value": value} for value in CHANCES["tone"]]},
        {"type": "score", "name": "helpful", "instructions": "How?",
         "levels": [{"label": label} for label in CHANCES["helpful"]]},
    ],
}  # fmt: skip
SYSTEM_ONE = {
    "model": "any",
    "state": DATA,
    "questions": {
        "groundedness": {"type": "noul", "instructions": "Is it?"},
        "tone": {"type": "choice", "criteria": dict.fromkeys(CHANCES["tone"])},
        "helpful": {"type": "score", "criteria": [*CHANCES["helpful"]]},
    },
}
BODIES = {"decisions": OPENAI, "systemone": SYSTEM_ONE}


def call(server, path, body, **headers):
    """Send one request as a plain HTTP client does; return status, headers and body."""
    parts = urlsplit(server.base_url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        kind = {"Content-Type": "application/json"}
        connection.request("POST", f"/v1/{path}", json.dumps(body), {**kind, **headers})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def test_openai_s_own_client_reads_the_replies():
    """Its types are the vendor's word for what a reply looks like."""
    openai = pytest.importorskip("openai")
    if not hasattr(openai.OpenAI, "decisions"):
        pytest.skip("this version of the client has no decisions yet")
    with DecisionServer(by_name) as server:
        with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client:
            decision = client.decisions.create(**OPENAI)
    predicate, choice, score = decision.answers
    assert (predicate.name, predicate.probability) == ("groundedness", 0.8)
    assert (choice.choice, [one.value for one in choice.probabilities]) == (
        "neutral", [*CHANCES["tone"]]
    )  # fmt: skip
    assert score.score == 1.75
    assert [one.label for one in score.probabilities] == [*CHANCES["helpful"]]
    assert decision.usage.total_tokens > 0
    assert decision.model == STAND_IN


def test_system_one_is_answered_by_name():
    """With a legend for each score, as TypeSafe's schema has it."""
    with DecisionServer(by_name) as server:
        status, _, body = call(server, "systemone", SYSTEM_ONE)
    reply = json.loads(body)
    assert (status, reply["model"]) == (200, STAND_IN)
    assert reply["answers"]["groundedness"] == {"type": "noul", "noul": 0.8}
    assert reply["answers"]["tone"]["choice"] == "neutral"
    score = reply["answers"]["helpful"]
    assert score["legend"] == {"0": "useless", "1": "of some use", "2": "helpful"}
    assert score["probabilities"] == {"0": 0.0, "1": 0.25, "2": 0.75}


def test_one_path_takes_the_bodies_of_two_wires():
    """As Perplexity's is called what OpenAI's is called."""
    with DecisionServer(by_name) as server:
        first = json.loads(call(server, "decisions", OPENAI)[2])
        second = json.loads(call(server, "decisions", SYSTEM_ONE)[2])
    assert isinstance(first["answers"], list)
    assert isinstance(second["answers"], dict)
    assert len(server.decisions) == 2


def test_judges_are_served_as_well():
    """One server is enough for a cascade of both."""
    chat = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}
    with DecisionServer() as server:
        status, _, body = call(server, "chat/completions", chat)
        assert call(server, "nothing", {})[0] == 404
        assert server.decisions == []
    assert status == 200
    assert "stand-in" in json.loads(body)["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("good", 200), ("refusal", 200), ("wrong_order", 200), ("renamed", 200), ("missing", 200),
        ("surplus", 200), ("twice", 200), ("wrong_type", 200), ("nan", 200), ("bad_sum", 200),
        ("low_mass", 200), ("cut", 200), ("not_the_wire", 200), ("html", 200), ("slow", 200),
        ("rate_limited", 429), ("unavailable", 503), ("overloaded", 529), ("html_504", 504),
        ("error", 500), ("unauthorized", 401), ("not_found", 404), ("too_long", 400),
        ("invalid_object", 422), ("invalid_list", 422), ("refuses_logprobs", 400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", BODIES)
def test_each_fault_has_its_status_and_happens_once(path, fault, status):
    """An entry of the script is used once, then the default."""
    with DecisionServer(by_name, script=[fault], delay=0.0, retry_after=2) as server:
        first, headers, body = call(server, path, BODIES[path])
        assert call(server, path, BODIES[path])[0] == 200
    assert first == status
    if status in (429, 503, 529):
        assert headers["Retry-After"] == "2"
    if fault in ("cut", "html", "html_504"):
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
            json.loads(body)
    if fault == "invalid_object":
        assert isinstance(json.loads(body)["detail"], dict)
    if fault == "invalid_list":
        assert isinstance(json.loads(body)["detail"], list)


def test_a_wrong_key_is_quoted_back():
    """As some servers do, so that clients can be seen to hide it."""
    with DecisionServer(key="right") as server:
        wrong = call(server, "decisions", OPENAI, Authorization="Bearer wrong-one")
        right = call(server, "decisions", OPENAI, Authorization="Bearer right")
    assert (wrong[0], right[0]) == (401, 200)
    assert "wrong-one" in wrong[2].decode()


def test_a_server_may_take_less_than_its_wire():
    """Requests beyond its limits are refused with an error, as servers refuse them."""
    with DecisionServer(by_name, most_questions=2) as server:
        assert call(server, "decisions", OPENAI)[0] == 400
    with DecisionServer(by_name, most_tokens=3) as server:
        status, _, body = call(server, "systemone", SYSTEM_ONE)
    assert (status, json.loads(body)) == (400, {"detail": {"type": "max_tokens_exceeded"}})


GROUNDED = {
    "chunk 1": "The ferry leaves the east pier at 08:40.",
    "response": "It leaves at 08:40.",
}
UNGROUNDED = {**GROUNDED, "response": "Cats sleep twelve hours."}


def test_the_stand_in_follows_the_rule_of_a_judge():
    """What shares its words is more probable than what does not."""
    question = Question("groundedness", "yes_no", "Do the chunks support the response?")
    good = stand_in_decision(GROUNDED, question)
    bad = stand_in_decision(UNGROUNDED, question)
    assert good["yes"] > 0.5 > bad["yes"]
    assert good["yes"] + good["no"] == 1


def test_the_stand_in_looks_at_the_sections_that_a_question_names():
    """So that each chunk gets an answer of its own."""
    data = {**GROUNDED, "chunk 2": "Cats sleep.", "request": "When does the ferry leave the pier?"}

    def answer(number):
        about = f'This is about "request" and "chunk {number}".'
        return stand_in_decision(data, Question(f"chunk_relevance.{number}", "yes_no", about))

    assert answer(1)["yes"] > 0.5 > answer(2)["yes"]


@pytest.mark.parametrize("kind", ["choice", "score"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_stand_in_answers_any_question_with_a_distribution(kind, count):
    """Of own judges, too: whatever the options are called."""
    options = tuple(Option(f"o{number}") for number in range(count))
    for data in (GROUNDED, UNGROUNDED, {}):
        chances = stand_in_decision(data, Question("own", kind, "Which?", options))
        assert [*chances] == [option.value for option in options]
        assert sum(chances.values()) == pytest.approx(1)


def test_it_runs_as_a_command():
    """`python -m` prints the address and serves until it is interrupted."""
    command = [sys.executable, "-m", "llmeval_sdk.testing.decision_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.terminate()
    assert line.startswith("stand-in decision model (rules, no model) at http://127.0.0.1:")
