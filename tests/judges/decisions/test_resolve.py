"""A decision model is named like a judge model, and what cannot be used is said at once."""

import asyncio
import logging

import pytest
from decisions_asked import CHANCES, CHOICE, DATA, QUESTIONS, SCORE, YES_NO, numbers, yes_no

from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import ConfigurationError, JudgeError, MissingExtraError
from llmeval_sdk.judges.models import clients
from llmeval_sdk.judges.models.decisions import WIRES, CallableDecisions, HttpDecisions, resolve
from llmeval_sdk.model import Answer, Decision, Failure, Usage
from llmeval_sdk.model.protocols import DecisionModel


OPENAI = "https://api.openai.com/v1"


def settings(**variables):
    """Read settings from some variables alone."""
    return from_environment(variables)


def named(**variables):
    return resolve(settings=settings(**variables))


def test_the_environment_alone_names_the_model(serve):
    """Wire, server and key, by three variables."""
    server = serve()
    model = named(
        LLMEVAL_DECISION_MODEL="systemone/jev-latest",
        LLMEVAL_DECISION_BASE_URL=server.base_url,
        LLMEVAL_DECISION_API_KEY="dk",
        LLMEVAL_JUDGE_TIMEOUT="7",
    )
    assert (model.model, model.wire.name, model.timeout) == ("jev-latest", "systemone", 6.3)
    assert numbers(asyncio.run(model.decide(DATA, QUESTIONS))) == CHANCES
    (seen,) = server.decisions
    assert seen.headers["authorization"] == "Bearer dk"
    assert seen.body["model"] == "jev-latest"


def test_the_path_can_be_set(serve):
    """Perplexity has System One's body at another path."""
    server = serve()
    model = HttpDecisions("systemone/v1.2", base_url=server.base_url, path="decisions")
    asyncio.run(model.decide(DATA, QUESTIONS))
    assert server.decisions[0].path == "/v1/decisions"


@pytest.mark.parametrize(
    "variables",
    [{}, {"OPENAI_API_KEY": "k"}, {"LLMEVAL_DECISION_API_KEY": "k"},
     {"LLMEVAL_DECISION_API_KEY": "k", "LLMEVAL_DECISION_BASE_URL": OPENAI},
     {"LLMEVAL_JUDGE_MODEL": "gpt-4o", "OPENAI_API_KEY": "k"}],
    ids=str,
)  # fmt: skip
def test_a_key_alone_starts_nothing(variables):
    """Only naming a decision model allows asking it."""
    assert named(**variables) is None


@pytest.mark.parametrize(
    ("variables", "address", "key"),
    [
        (
            {"LLMEVAL_DECISION_MODEL": "openai/gpt-6-luna", "OPENAI_API_KEY": "judges"},
            OPENAI, "judges",
        ),
        (
            {"LLMEVAL_DECISION_MODEL": "openai/gpt-6-luna", "LLMEVAL_DECISION_API_KEY": "own",
             "OPENAI_API_KEY": "judges", "LLMEVAL_JUDGE_BASE_URL": "https://gateway.example/v1"},
            OPENAI, "own",
        ),
        (
            {"LLMEVAL_DECISION_MODEL": "openai/luna", "OPENAI_API_KEY": "judges",
             "LLMEVAL_DECISION_BASE_URL": "https://decide.example/v1/"},
            "https://decide.example/v1", None,
        ),
        (
            {"LLMEVAL_DECISION_MODEL": "systemone/jev", "OPENAI_API_KEY": "judges",
             "LLMEVAL_DECISION_BASE_URL": "https://api.typesafe.ai/v1"},
            "https://api.typesafe.ai/v1", None,
        ),
        (
            {"LLMEVAL_DECISION_MODEL": "logprobs/gpt-4.1", "OPENAI_API_KEY": "judges",
             "OPENAI_BASE_URL": "https://gateway.example/v1"},
            "https://gateway.example/v1", "judges",
        ),
        (
            {"LLMEVAL_DECISION_MODEL": "logprobs/qwen", "OPENAI_API_KEY": "judges",
             "LLMEVAL_DECISION_BASE_URL": "http://localhost:8000/v1"},
            "http://localhost:8000/v1", None,
        ),
    ],
    ids=lambda value: value.get("LLMEVAL_DECISION_MODEL") if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_key_goes_to_the_server_that_it_was_given_for(variables, address, key):
    """The judges' key is used for the judges' server, and for no other."""
    model = named(**variables)
    held = model._clients._key
    assert (model.base_url, held and held.reveal()) == (address, key)


@pytest.mark.parametrize(
    "variables",
    [
        {"OPENAI_API_KEY": None},
        {"OPENAI_API_KEY": "judges", "LLMEVAL_JUDGE_BASE_URL": "https://gateway.example/v1"},
    ],
    ids=str,
)
def test_openai_without_a_key_of_its_own_says_what_to_set(variables, monkeypatch):
    """Said at configuration; a gateway's key is not sent to OpenAI."""
    for name in ("OPENAI_API_KEY", "LLMEVAL_JUDGE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    variables = {name: value for name, value in variables.items() if value is not None}
    with pytest.raises(ConfigurationError, match="LLMEVAL_DECISION_API_KEY"):
        named(LLMEVAL_DECISION_MODEL="openai/gpt-6-luna", **variables)


@pytest.mark.parametrize(
    "name", ["jev-latest", "typesafe/jev-latest", "openai", "openai/", "/x", "", "system1/jev"]
)
def test_an_unknown_wire_is_refused_with_those_that_are_known(name):
    """A model's name alone says nothing about what its server speaks."""
    with pytest.raises(ConfigurationError, match="not a decision model") as caught:
        resolve(name, settings=settings())
    for wire in WIRES:
        assert f"`{wire}/<model>`" in str(caught.value)


def test_a_misspelt_wire_is_recognised():
    """The nearest one is named."""
    with pytest.raises(ConfigurationError, match="did you mean 'systemone'"):
        resolve("sistemone/jev", settings=settings())


def test_system_one_needs_an_address():
    """Many hosts serve it: none of them is assumed, and the error names some."""
    with pytest.raises(ConfigurationError, match="LLMEVAL_DECISION_BASE_URL") as caught:
        named(LLMEVAL_DECISION_MODEL="systemone/jev", LLMEVAL_DECISION_API_KEY="k")
    assert "https://api.typesafe.ai/v1" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "says"),
    [("https://user:secret-word@x.example/v1", "LLMEVAL_DECISION_API_KEY"),
     ("file:///etc/passwd", "https://"), ("http://169.254.169.254/latest", "link-local")],
)  # fmt: skip
@pytest.mark.parametrize("wire", WIRES)
def test_an_address_that_nothing_should_be_sent_to_is_refused(wire, address, says):
    """The same rules as for judges, in words that name the decision model."""
    with pytest.raises(ConfigurationError, match=says) as caught:
        HttpDecisions(f"{wire}/m", base_url=address)
    assert "decision's base URL" in str(caught.value)
    assert "secret-word" not in str(caught.value)


def test_plain_http_off_loopback_warns(caplog):
    """The key would travel in clear."""
    clients._warned.clear()
    with caplog.at_level(logging.WARNING, logger="llmeval_sdk"):
        HttpDecisions("systemone/m", base_url="http://decide.internal:8000/v1")
    assert "decision requests and their key travel unencrypted" in caplog.text


def test_without_the_client_library_the_extra_is_named(monkeypatch):
    """Every wire uses its client."""
    monkeypatch.setattr(clients, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"llmeval-inprocess\[openai\]"):
        HttpDecisions("systemone/m", base_url="http://localhost:8000/v1")


def test_what_is_passed_wins_over_the_settings():
    """A name, an object and a callable, whatever the environment names."""
    own = settings(LLMEVAL_DECISION_MODEL="openai/gpt-6-luna", LLMEVAL_DECISION_API_KEY="k")

    class Own(DecisionModel):
        model = "own"

        async def decide(self, data, questions, /):
            return Decision({})

    mine = Own()
    assert resolve(mine, settings=own) is mine
    assert resolve("logprobs/gpt-4.1", settings=own).wire.name == "logprobs"
    assert isinstance(resolve(lambda data, questions: {}, settings=own), CallableDecisions)
    assert resolve(settings=own).model == "gpt-6-luna"
    with pytest.raises(ConfigurationError, match="async def decide"):
        resolve(3, settings=own)


def decided(function, questions=QUESTIONS):
    return asyncio.run(CallableDecisions(function).decide(DATA, questions))


def test_a_function_decides():
    """It may return the probability of yes, those of all options, or a whole decision."""
    answers = {**CHANCES, "groundedness": 0.8}
    assert numbers(decided(lambda data, questions: answers)) == CHANCES

    async def later(data, questions):
        return CHANCES

    assert numbers(decided(later)) == CHANCES

    def whole(data, questions):
        made = {name: Answer(chances) for name, chances in CHANCES.items()}
        made["tone"] = Answer(error=Failure("refused", "no"))
        return Decision(made, "classifier-3", Usage(10, 0, 10), requests=2)

    decision = decided(whole)
    assert numbers(decision) == {**CHANCES, "tone": "refused"}
    assert (decision.model, decision.usage.input_tokens, decision.requests) == (
        "classifier-3",
        10,
        2,
    )


def test_what_a_function_returns_is_read_as_strictly_as_what_a_server_sends():
    """What is wrong with one answer is an error of that question."""
    answers = {"groundedness": 1.2, "tone": {"friendly": 1.0}, "helpful": 0.5}
    expected = dict.fromkeys(answers, "malformed")
    assert numbers(decided(lambda data, questions: answers)) == expected
    assert numbers(decided(lambda data, questions: {}, yes_no("a"))) == {"a": "malformed"}
    odd = {"a": True, "b": "0.5", "c": [0.5], "d": float("nan")}
    assert set(numbers(decided(lambda data, questions: odd, yes_no(*odd))).values()) == {
        "malformed"
    }
    with pytest.raises(JudgeError, match="returned float"):
        decided(lambda data, questions: 0.5)


def test_a_function_that_blocks_does_not_block_the_loop():
    """It runs on a thread of its own."""
    import threading

    threads = []

    def blocks(data, questions):
        threads.append(threading.current_thread())
        return {"a": 0.5}

    decided(blocks, yes_no("a"))
    assert threads[0] is not threading.main_thread()


def test_the_wires_take_what_a_judge_asks(serve, model):
    """Yes or no, one of several, a level: none is refused on any wire."""
    server = serve()
    for wire in WIRES:
        for question in (YES_NO, CHOICE, SCORE):
            assert model(server, wire).refuses(question) is None


def test_a_secret_is_taken_as_it_is(serve, ask):
    """A key from the settings is hidden all the way."""
    server = serve(key="of-the-server")
    assert numbers(ask(server, "openai", api_key=Secret("of-the-server"))) == CHANCES
