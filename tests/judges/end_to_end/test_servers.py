"""Whatever the judge's server does, there is one verdict or one counted reason."""

from __future__ import annotations

import pytest

from llmeval_sdk.errors import ConfigurationError


def outcome(seen, name="groundedness"):
    """Return value, error type and counted reason of the one judgement, and check its account."""
    stats = seen.drain()
    verdict = seen.scores("answer").get(name)
    reasons = stats.not_run.get(name, {})
    assert stats.judged.get(name, 0) + sum(reasons.values()) == 1
    assert all(account.balanced for account in stats.exporters.values())
    assert stats.exporters["captured"].undelivered == 0
    error = verdict.error.type if verdict is not None and verdict.error else None
    return verdict.value if verdict else None, error, next(iter(reasons), None)


@pytest.mark.parametrize(
    "behaviour",
    ["good", "fenced", "tool_only", "json_object_only", "text_only", "schema_500", "reasoning"],
)
def test_every_way_to_be_compatible_gives_a_verdict(behaviour, serve, judging, answer):
    """The ladder finds the way that a server understands."""
    server = serve(default=behaviour)
    with judging(server) as seen:
        answer()
        assert outcome(seen) == ("yes", None, None)
        verdict = seen.scores()["groundedness"]
    assert verdict.usage.total_tokens > 0
    assert verdict.explanation.startswith("stand-in:")


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("malformed", "malformed"),
        ("html", "malformed"),
        ("refusal", "refused"),
        ("filtered", "refused"),
        ("truncated", "truncated"),
        ("error", "unavailable"),
        ("unavailable", "unavailable"),
        ("redirect", "unavailable"),
        ("reset", "unavailable"),
        ("rate_limited", "rate_limited"),
        ("unauthorized", "unauthorized"),
        ("not_found", "not_found"),
        ("bad_request", "too_long"),
    ],
)
def test_every_failure_is_an_error_with_its_type_and_counted(
    behaviour, error, serve, judging, answer
):
    """Never a rating; an error on the span, a reason in stats()."""
    server = serve(default=behaviour, retry_after=0.01)
    with judging(server) as seen:
        answer()
        assert outcome(seen) == (None, error, "error")
        assert [each.detail.partition(":")[0] for each in seen.not_run] == [error]


def test_a_judge_whose_replies_cannot_be_read_is_left_alone(serve, judging, answer):
    """Each unread reply is a failure for the breaker, since one failed verdict costs four calls."""
    server = serve(default="malformed")
    with judging(server) as seen:
        for number in range(6):
            answer(f"question {number}")
            seen.drain()
        reasons = seen.drain().not_run["groundedness"]
    assert server.calls == 8, "two verdicts of four calls each"
    assert reasons == {"error": 2, "circuit_open": 4}


def test_a_hanging_server_is_a_timeout(serve, judging, answer):
    """The call ends at its limit and is counted as timeout."""
    server = serve(default="hang")
    with judging(server, timeout=0.3) as seen:
        answer()
        assert outcome(seen) == (None, "timeout", "timeout")


def test_a_slow_server_is_waited_for(serve, judging, answer):
    """Slow within the limit is no failure."""
    server = serve(default="slow", delay=0.2)
    with judging(server) as seen:
        answer()
        assert outcome(seen) == ("yes", None, None)
        assert seen.scores()["groundedness"].duration >= 0.2


def test_a_server_that_asks_for_patience_gets_it(serve, judging, answer):
    """After 429 with Retry-After, the second attempt comes no earlier than asked, and succeeds."""
    server = serve(script=["rate_limited"], retry_after=0.3)
    with judging(server) as seen:
        answer()
        assert outcome(seen) == ("yes", None, None)
        assert seen.scores()["groundedness"].duration >= 0.3
    assert server.calls == 2


def test_a_passing_failure_is_tried_again(serve, judging, answer):
    """One 503 costs an attempt, not the verdict."""
    server = serve(script=["unavailable"])
    with judging(server) as seen:
        answer()
        assert outcome(seen) == ("yes", None, None)
    assert server.calls == 2


def test_a_refused_connection_is_counted_online(judging, answer):
    """Nobody listens: an error on the span, nothing raised into the app."""
    with judging("http://127.0.0.1:9/v1") as seen:
        answer()
        assert outcome(seen) == (None, "unavailable", "error")


def test_a_missing_key_is_counted_online(answer, monkeypatch):
    """A model named without a key is no_judge_model, whose detail says what to set."""
    from llmeval_sdk.testing import capture

    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "gpt-4o")
    with capture(evaluators=["groundedness"], escalations=[], heuristics="off") as seen:
        answer()
        assert outcome(seen) == (None, None, "no_judge_model")
    assert "OPENAI_API_KEY" in seen.not_run[0].detail


@pytest.mark.parametrize("model", ["mistral/large", "azure/deployment"])
def test_a_model_without_an_address_is_counted_online(model, answer, monkeypatch):
    """A provider that needs an address is no_judge_model until there is one."""
    from llmeval_sdk.testing import capture

    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", model)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with capture(evaluators=["groundedness"], escalations=[], heuristics="off") as seen:
        answer()
        assert outcome(seen) == (None, None, "no_judge_model")
    assert "LLMEVAL_JUDGE_BASE_URL" in seen.not_run[0].detail


class TestOffline:
    """Where a person is watching, what cannot work says so and what to do."""

    ROWS = [
        {
            "request": "When?",
            "response": "In 1786.",
            "retrieved_context": [{"content": "In 1786."}],
        }
    ]

    def test_a_missing_key_is_named(self, monkeypatch):
        """evaluate() raises before it judges anything."""
        import llmeval_sdk as llmeval

        monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "gpt-4o")
        with pytest.raises(ConfigurationError, match="LLMEVAL_JUDGE_API_KEY or OPENAI_API_KEY"):
            llmeval.evaluate(self.ROWS, evaluators=["groundedness"])

    @pytest.mark.parametrize(
        ("behaviour", "type", "words"),
        [
            ("not_found", "not_found", "check the model's name"),
            ("unauthorized", "unauthorized", "check the API key"),
        ],
    )
    def test_a_wrong_model_or_key_is_named(self, behaviour, type, words, serve):
        """The row's error says what to check."""
        import llmeval_sdk as llmeval
        from llmeval_sdk.judges.models import OpenAILLM

        server = serve(default=behaviour)
        llm = OpenAILLM("gpt-4x", base_url=server.base_url, api_key="k")
        report = llmeval.evaluate(self.ROWS, evaluators=["groundedness"], llm=llm)
        error = report.rows[0].evaluations["groundedness"].error
        assert error.type == type
        assert words in error.message

    def test_a_refused_connection_is_named(self):
        """The row's error says where nobody listened."""
        import llmeval_sdk as llmeval
        from llmeval_sdk.judges.models import OpenAILLM

        llm = OpenAILLM("m", base_url="http://127.0.0.1:9/v1", api_key="k", attempts=1)
        report = llmeval.evaluate(self.ROWS, evaluators=["groundedness"], llm=llm)
        error = report.rows[0].evaluations["groundedness"].error
        assert (error.type, "no connection to http://127.0.0.1:9/v1" in error.message) == (
            "unavailable",
            True,
        )


def test_plain_http_off_loopback_warns_once(judging, caplog):
    """Configured twice, said once; and not at all on loopback."""
    from llmeval_sdk.judges.models import OpenAILLM

    for _ in range(2):
        OpenAILLM("m", base_url="http://judge.internal:8000/v1", api_key="k")
        OpenAILLM("m", base_url="http://127.0.0.1:8000/v1", api_key="k")
    said = [
        record.getMessage() for record in caplog.records if "unencrypted" in record.getMessage()
    ]
    assert len(said) == 1
    assert "http://judge.internal:8000" in said[0]
