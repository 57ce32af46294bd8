"""Every way a provider can fail has the type that OpenAI's failures have, in recorded shapes."""

import gzip
import json

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.plugins.providers import AnthropicLLM, GoogleLLM
from llmeval_sdk.testing.provider_server import ServedAnswer


KEY = "key-marker-9f2c71"
PROVIDERS = ("anthropic", "google")


def failure(call):
    with pytest.raises(JudgeError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("behaviour", "type", "retryable", "calls"),
    [
        ("unavailable", "unavailable", True, 3),
        ("error", "unavailable", True, 3),
        ("unauthorized", "unauthorized", False, 1),
        ("not_found", "not_found", False, 1),
        ("bad_request", "too_long", False, 1),
        ("redirect", "unavailable", False, 1),
        ("refusal", "refused", False, 1),
        ("filtered", "refused", False, 1),
        ("truncated", "truncated", False, 1),
        ("html", "malformed", False, 1),
        ("malformed", "malformed", False, 2),
        ("reset", "unavailable", True, 3),
        ("hang", "timeout", True, 1),
        ("drip", "timeout", True, 1),
    ],
)
def test_each_failure_has_its_type_and_number_of_calls(
    serve, ask, provider, behaviour, type, retryable, calls
):
    """The client's own retries are off; only what may pass is tried again, three times in all."""
    server = serve(provider, default=behaviour)
    quick = {"timeout": 2.0} if behaviour in ("hang", "drip") else {}
    error = failure(lambda: ask(server, **quick))
    assert (error.type, error.retryable, server.calls) == (type, retryable, calls)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert KEY not in str(error)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_rate_limit_is_waited_for(serve, ask, provider):
    """`Retry-After` is read, and one 429 and one overload later the answer comes."""
    server = serve(provider, "rate_limited", "unavailable", retry_after=0.05)
    assert ask(server).text
    assert server.calls == 3
    waiting = serve(provider, "rate_limited", retry_after=60)
    error = failure(lambda: ask(waiting))
    assert (error.type, error.retryable, error.retry_after) == ("rate_limited", True, 60.0)
    assert waiting.calls == 1


def anthropic_error(status, kind, message, **details):
    error = {"type": kind, "message": message, **details}
    return status, {"type": "error", "error": error, "request_id": "req_011CS"}


def google_error(status, name, message, *details):
    return status, {
        "error": {"code": status, "message": message, "status": name, "details": list(details)}
    }


def quota(identifier):
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [
            {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": identifier,
                "quotaValue": "50",
            }
        ],
    }


def retry_info(delay):
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


RECORDED = [
    ("anthropic", anthropic_error(400, "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
        "rate_limited", False),
    ("anthropic", anthropic_error(402, "billing_error", "Payment is required."),
        "rate_limited", False),
    ("anthropic", anthropic_error(403, "permission_error",
        "Your API key does not have permission to use the specified resource."),
        "unauthorized", False),
    ("anthropic", anthropic_error(404, "not_found_error", "model: claude-0"), "not_found", False),
    ("anthropic", anthropic_error(413, "request_too_large", "Request exceeds the maximum size"),
        "too_long", False),
    ("anthropic", anthropic_error(400, "invalid_request_error", "messages: text content blocks must be non-empty"),
        "bad_request", False),
    ("anthropic", anthropic_error(400, "invalid_request_error", "Output blocked by content filtering policy"),
        "refused", False),
    ("anthropic", anthropic_error(401, "authentication_error", "invalid x-api-key"),
        "unauthorized", False),
    ("anthropic", anthropic_error(429, "rate_limit_error",
        "This request would exceed your organization's rate limit of 50,000 input tokens per minute."),
        "rate_limited", True),
    ("anthropic", anthropic_error(500, "api_error", "Internal server error"), "unavailable", True),
    ("anthropic", anthropic_error(529, "overloaded_error", "Overloaded"), "unavailable", True),
    ("anthropic", anthropic_error(504, "timeout_error", "Request timed out"), "unavailable", True),
    ("google", google_error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
         "domain": "googleapis.com"}), "unauthorized", False),
    ("google", google_error(403, "PERMISSION_DENIED", "Permission denied on resource project x."),
        "unauthorized", False),
    ("google", google_error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
        quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), retry_info("37s")),
        "rate_limited", False),
    ("google", google_error(404, "NOT_FOUND", "models/gemini-0 is not found for API version v1beta."),
        "not_found", False),
    ("google", google_error(401, "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected OAuth 2 access token."),
        "unauthorized", False),
    ("google", google_error(500, "INTERNAL", "An internal error has occurred. Please retry."),
        "unavailable", True),
    ("google", google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "unavailable", True),
    ("google", google_error(400, "INVALID_ARGUMENT", 'Unknown name "colour"'), "bad_request", False),
    ("google", google_error(504, "DEADLINE_EXCEEDED", "The request timed out."), "unavailable", True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "recorded", "type", "retryable"),
    RECORDED,
    ids=[f"{row[0]}-{row[1][0]}-{row[2]}" for row in RECORDED],
)
def test_recorded_answers_are_told_apart(serve, ask, provider, recorded, type, retryable):
    """Status alone does not tell: a wrong key, an empty account and a long prompt are all 400."""
    status, body = recorded
    served = ServedAnswer(status, json.dumps(body).encode())
    server = serve(provider, *[served] * 6)
    error = failure(lambda: ask(server))
    assert (error.type, error.retryable) == (type, retryable), str(error)


def test_google_says_in_the_body_how_long_to_wait(serve, ask):
    """Its `RetryInfo` is its `Retry-After`."""
    status, body = google_error(
        429,
        "RESOURCE_EXHAUSTED",
        "Too many.",
        quota("GenerateRequestsPerMinute"),
        retry_info("37s"),
    )
    server = serve("google", ServedAnswer(status, json.dumps(body).encode()))
    error = failure(lambda: ask(server))
    assert (error.type, error.retryable, error.retry_after) == ("rate_limited", True, 37.0)
    assert server.calls == 1


@pytest.mark.parametrize(
    ("provider", "body", "type"),
    [
        ("google", {"candidates": []}, "malformed"),
        ("google", {}, "malformed"),
        ("google", {"candidates": [{"finishReason": "STOP"}]}, "malformed"),
        ("google", {"candidates": [{"finishReason": "RECITATION"}]}, "refused"),
        (
            "google",
            {
                "candidates": [
                    {
                        "finishReason": "SAFETY",
                        "index": 0,
                        "safetyRatings": [
                            {
                                "category": "HARM_CATEGORY_DANGEROUS_CONTENT",
                                "probability": "HIGH",
                                "blocked": True,
                            }
                        ],
                    }
                ]
            },
            "refused",
        ),
        ("google", {"promptFeedback": {"blockReason": "SAFETY"}}, "refused"),
        ("google", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "refused"),
        ("google", {"candidates": "none"}, "malformed"),
        ("google", [], "malformed"),
        ("anthropic", {"content": None}, "malformed"),
        ("anthropic", {"content": [None, 3, {"type": "text", "text": 5}]}, "malformed"),
        ("anthropic", [], "malformed"),
        ("anthropic", {"content": [], "stop_reason": "refusal"}, "refused"),
        ("anthropic", {"content": [], "usage": {"input_tokens": "9"}}, "malformed"),
    ],
)
def test_odd_answers_are_no_verdict(serve, ask, provider, body, type):
    """Whatever JSON comes back, the failure has a type."""
    served = ServedAnswer(200, json.dumps(body).encode())
    server = serve(provider, *[served] * 6)
    assert failure(lambda: ask(server)).type == type


def test_tokens_of_a_google_answer_without_a_candidate_are_counted(serve, ask):
    """They are paid for, as those of any other answer that is no verdict."""
    body = {"candidates": [], "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}}
    server = serve("google", *[ServedAnswer(200, json.dumps(body).encode())] * 6)
    error = failure(lambda: ask(server))
    assert error.type == "malformed"
    assert error.usage.total_tokens == 9 * server.calls


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_read_of_an_answer_is_bounded(serve, ask, provider):
    """Neither a huge answer nor a compressed one fills the memory."""
    huge = ServedAnswer(200, b'{"a": "' + b"x" * (5 << 20) + b'"}')
    assert "larger than 4 MiB" in str(failure(lambda: ask(serve(provider, *[huge] * 3))))
    packed = ServedAnswer(200, gzip.compress(b" " * (64 << 20)), {"Content-Encoding": "gzip"})
    assert "larger than 4 MiB" in str(failure(lambda: ask(serve(provider, *[packed] * 3))))
    other = ServedAnswer(200, b"x", {"Content-Encoding": "deflate"})
    assert "encoded as deflate" in str(failure(lambda: ask(serve(provider, *[other] * 3))))


def test_a_key_that_a_server_repeats_is_cut_out(serve, ask):
    """Errors are logged and stored: no key stands in them."""
    status, body = anthropic_error(401, "authentication_error", f"invalid key {KEY}")
    server = serve("anthropic", ServedAnswer(status, json.dumps(body).encode()))
    error = failure(lambda: ask(server))
    assert KEY not in str(error)
    assert "invalid key ***" in str(error)
    llm = AnthropicLLM("m", api_key=KEY)
    assert KEY not in repr(llm) + repr(vars(llm))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_key_of_an_own_client_is_cut_out_of_an_error(serve, ask, provider):
    """Only the client knows it, and the server repeats it in its answer."""
    import anthropic
    from google import genai

    server = serve(provider)
    body = json.dumps({"error": {"message": f"the key {KEY} is wrong"}}).encode()
    server.reply = lambda seen: ServedAnswer(401, body)

    def make():
        if provider == "anthropic":
            return anthropic.AsyncAnthropic(api_key=KEY, base_url=server.base_url)
        http = genai.types.HttpOptions(base_url=server.base_url)
        return genai.Client(vertexai=False, api_key=KEY, http_options=http)

    kind = {"anthropic": AnthropicLLM, "google": GoogleLLM}[provider]
    error = failure(lambda: ask(server, llm=kind("m", client=make)))
    assert error.type == "unauthorized"
    assert "the key *** is wrong" in str(error)
