"""Set-up: from the environment or by hand, loud where a person is watching, silent online."""

import json
import subprocess
import sys
import time

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config, registry
from llmeval_sdk.config.__main__ import table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process import shield
from llmeval_sdk.testing import capture


def python(code, **environment):
    """Run code in a fresh interpreter and return what it printed and logged."""
    import os

    env = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "DD_", "OPENAI_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


IMPORT = """
import sys, threading
before = set(sys.modules)
import llmeval_sdk
loaded = sorted(set(sys.modules) - before)
import json
print(json.dumps([loaded, threading.active_count()]))
"""


def test_importing_loads_few_modules_none_of_them_foreign_and_starts_no_thread():
    """`import llmeval_sdk` is a table of names: everything else is loaded when first used."""
    out, _ = python(IMPORT)
    loaded, threads = json.loads(out)
    heavy = {
        "asyncio",
        "sqlite3",
        "http",
        "dataclasses",
        "opentelemetry",
        "ddtrace",
        "ragas",
        "pydantic",
        "pandas",
        "numpy",
        "tenacity",
        "rapidfuzz",
        "importlib.metadata",
    }
    assert not heavy & {name.split(".")[0] for name in loaded}
    assert not heavy & set(loaded)
    assert threads == 1
    assert sum(name.startswith("llmeval_sdk") for name in loaded) <= 5
    assert len(loaded) < 60


def test_tracing_a_call_loads_no_third_party_module(tmp_path):
    """The whole path with the local store needs the standard library alone."""
    out, _ = python(
        "import sys, llmeval_sdk as llmeval\n"
        "@llmeval.workflow\n"
        "def answer(question): return question\n"
        "answer('q'); llmeval.flush(10)\n"
        "third = {name.split('.')[0] for name in sys.modules} & {'tenacity', 'rapidfuzz', 'openai', 'numpy', 'pydantic', 'rich', 'opentelemetry'}\n"
        "print(sorted(third))",
        LLMEVAL_STORE=str(tmp_path / "s.db"),
    )
    assert out.strip() == "[]"


def test_the_first_span_configures_from_the_environment(tmp_path):
    """Without configure(), the environment decides and the local store is written at exit."""
    store = tmp_path / "deep" / "llmeval.db"
    python(
        "import llmeval_sdk as llmeval\n"
        "@llmeval.workflow\n"
        "def answer(question):\n"
        "    llmeval.annotate(retrieved_context=[{'content': 'a', 'score': 0.5}])\n"
        "    return question\n"
        "answer('q')",
        LLMEVAL_STORE=str(store),
    )
    from llmeval_sdk.store.reader import StoreReader

    with StoreReader(store) as reader:
        assert reader.recent_scores("context_relevance")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"LLMEVAL_STORE_MAX_BYTES": "many"}, "LLMEVAL_STORE_MAX_BYTES='many'"),
        ({"LLMEVAL_RECAL_THRESHOLD": "0.5"}, "did you mean 'LLMEVAL_RECALL_THRESHOLD'?"),
        ({"DD_LLMOBS_EVALUATORS": "context_relevanze"}, "did you mean 'context_relevance'?"),
        ({"DD_LLMOBS_EVALUATOR_SAMPLING_RULES": "[null]"}, "sampling rule 1"),
        (
            {
                "DD_LLMOBS_EVALUATOR_SAMPLING_RULES": (
                    '[{"sample_rate": 0.1, "evaluator_label": "groundednes"}]'
                )
            },
            "the rule limits no evaluator: unknown evaluator 'groundednes': did you mean 'groundedness'?",
        ),
        (
            {"LLMEVAL_SAMPLING_RULES": '[{"sample_rate": 0, "evaluator": "zzzzqq"}]'},
            "sampling rule 1: the rule limits no evaluator: unknown evaluator 'zzzzqq'",
        ),
        (
            {
                "LLMEVAL_SAMPLING_RULES": '[{"sample_rate": 0, "evaluator": "context_relevance"}]',
                "LLMEVAL_JUDGE_MODEL": "stand-in",
            },
            "sampling rule 1: the rule limits no judge: 'context_relevance' is a heuristic",
        ),
        (
            {
                "LLMEVAL_SAMPLING_RULES": '[{"sample_rate": 0, "evaluator": "safety"}]',
                "LLMEVAL_JUDGE_MODEL": "stand-in",
            },
            "sampling rule 1: the rule limits no judge: 'safety' is not among those that run",
        ),
        ({"LLMEVAL_CAPTURE_CONTENT": "perhaps"}, "expected true, false or scores"),
        (
            {"LLMEVAL_ESCALATIONS": '[{"judge": "groundednes", "share": 0.2}]'},
            "LLMEVAL_ESCALATIONS: escalation of 'groundednes': unknown evaluator 'groundednes': did you mean 'groundedness'?",
        ),
        (
            {"LLMEVAL_ESCALATIONS": '[{"judge": "groundedness", "share": 0.2, "by": "riks"}]'},
            "LLMEVAL_ESCALATIONS: escalation of 'groundedness': unknown evaluator 'riks'",
        ),
        (
            {"LLMEVAL_BUDGET_GROUPS": '[{"usd_per_day": 1}]'},
            "LLMEVAL_BUDGET_GROUPS: budget of a group 1: Budget: groups= takes budgets with where= or per=",
        ),
    ],
)
def test_a_bad_environment_is_one_line_and_no_exception(monkeypatch, caplog, environment, said):
    """The app runs on; the log names the variable, the problem and the nearest valid name."""
    for name, value in {"LLMEVAL_EXPORTERS": "memory", **environment}.items():
        monkeypatch.setenv(name, value)

    @llmeval.workflow
    def answer(question):
        return question

    assert answer("fine") == "fine"
    llmeval.flush(10)
    (line,) = caplog.messages
    assert said in line
    assert "\n" not in line


def test_a_sampling_rule_for_a_judge_that_a_decorator_names_is_not_told(monkeypatch, caplog):
    """The rule limits that judge wherever the decorated function runs."""
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "stand-in")
    monkeypatch.setenv("LLMEVAL_SAMPLING_RULES", '[{"sample_rate": 0, "evaluator": "safety"}]')

    @llmeval.workflow(evaluators=["safety"])
    def answer(question):
        return question

    llmeval.configure()
    assert caplog.messages == []


def test_a_sampling_rule_for_a_judge_is_not_told_where_no_judge_may_run(monkeypatch, caplog):
    """Several apps may share an environment, and one without a judge has nothing to limit."""
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    monkeypatch.setenv("LLMEVAL_SAMPLING_RULES", '[{"sample_rate": 0, "evaluator": "safety"}]')
    llmeval.configure()
    assert caplog.messages == []


def test_an_unknown_exporter_in_the_environment_does_not_stop_the_app():
    """The app's call works; what is wrong is said with the nearest name."""
    out, err = python(
        "import llmeval_sdk as llmeval\n@llmeval.workflow\ndef answer(q): return q\nprint(answer('fine'))",
        LLMEVAL_EXPORTERS="memry",
    )
    assert out == "fine\n"
    assert "did you mean 'memory'?" in err
    assert err.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"evaluators": ["context_relevanze"]}, "did you mean 'context_relevance'?"),
        ({"exporters": ["memry"]}, "did you mean 'memory'?"),
        ({"recal_threshold": 0.5}, "did you mean 'recall_threshold'?"),
        ({"sampling_rules": [0.5]}, "SamplingRule"),
        (
            {"sampling_rules": [llmeval.SamplingRule(0.1, evaluator="groundednes")]},
            "did you mean 'groundedness'?",
        ),
        ({"budget_groups": '[{"per": "tenant"}]'}, "per= takes tag:KEY or user"),
        ({"redact": True}, "all for everything that can be detected"),
        ({"redact": False}, "off for nothing"),
        ({"redact": 1}, "redact=1: expected api_key, jwt"),
        ({"redact": ["email", 7]}, "all for everything"),
        (
            {
                "escalations": [
                    llmeval.Escalation(
                        "no_such_judge", when=llmeval.below("context_relevance", 0.5)
                    )
                ]
            },
            "no_such_judge",
        ),
        (
            {
                "escalations": [
                    llmeval.Escalation("groundedness", when=llmeval.below("no_such", 0.5))
                ]
            },
            "no_such",
        ),
    ],
)
def test_configure_is_loud(arguments, said):
    """What a person passes wrongly raises a ConfigurationError that says what to do."""
    with pytest.raises(ConfigurationError, match=said.replace("?", r"\?")):
        llmeval.configure(**arguments)


def test_a_misspelt_evaluator_of_a_decorator_is_told_by_configure():
    """Names in workflow(evaluators=[...]) are checked while somebody is watching."""

    @llmeval.workflow(evaluators=["groundednes"])
    def answer(question):
        return question

    with pytest.raises(ConfigurationError, match="did you mean 'groundedness'"):
        llmeval.configure(exporters=["memory"])


def test_a_misspelt_evaluator_of_a_decorator_never_raises_online(caplog):
    """Without configure() it is said once in the log, and the call goes through."""

    @llmeval.workflow(evaluators=["groundednes"])
    def answer(question):
        return question

    assert answer("q") == "q"
    llmeval.flush(10)
    assert any("groundednes" in record.getMessage() for record in caplog.records)


def test_disabled_by_the_environment(monkeypatch):
    """LLMEVAL_ENABLED=0 leaves plain calls."""
    monkeypatch.setenv("LLMEVAL_ENABLED", "0")
    assert (
        python(
            "import threading, llmeval_sdk as llmeval\n"
            "@llmeval.workflow\ndef answer(q): return llmeval.current_span()\n"
            "print(answer('q'), answer('q'), threading.active_count(), llmeval.stats().spans)",
            LLMEVAL_ENABLED="0",
        )[0]
        == "None None 1 0\n"
    )


def test_a_secret_never_prints():
    """The key is in no repr, str, pickle or message."""
    import pickle

    settings = config.from_environment({"OPENAI_API_KEY": "sk-very-secret"})
    assert settings.judge_api_key.reveal() == "sk-very-secret"
    shown = f"{settings!r} {settings.judge_api_key} {pickle.dumps(settings.judge_api_key)!r}"
    assert "very-secret" not in shown
    with pytest.raises(ConfigurationError) as raised:
        llmeval.configure(judge_api_kee="sk-very-secret")
    assert "very-secret" not in str(raised.value)


def test_content_can_stay_at_home():
    """With content capture off, heuristics still score and no text leaves."""
    with capture(capture_content=False) as seen:
        with llmeval.workflow("w", request="marker-request") as span:
            span.annotate(
                retrieved_context=[{"content": "marker-chunk", "chunk_id": "1", "score": 0.5}],
                extractions=[
                    {"value": "marker-value", "chunk_number": 1, "evidence": "marker-chunk"}
                ],
                metadata={"note": "marker-note"},
            )
            span.response = "marker-response"
        with pytest.raises(ValueError, match="marker-error"), llmeval.workflow("failing"):
            raise ValueError("marker-error")
        seen.drain()
    assert seen.scores("w")["context_precision"].value == 1.0
    assert seen.scores("w")["semantic_validation"].value == "fail"
    assert "marker" not in repr(seen.spans) + repr(seen.evaluations)


def test_latency_can_be_asked_for_on_plain_workflows():
    """A heuristic that was asked for runs although the span has no metadata."""
    with capture(evaluators=["latency_seconds"]) as seen:
        with llmeval.workflow("w", request="q"):
            pass
        seen.drain()
    assert seen.scores("w")["latency_seconds"].value > 0


def test_a_heuristic_declared_late_attaches_too():
    """@heuristic after configure() runs on every evaluated span from then on."""
    with capture() as seen:

        @llmeval.heuristic(inline=True)
        def shout(record):
            return record.response.isupper()

        try:
            with llmeval.workflow("w", request="q") as span:
                span.response = "LOUD"
            seen.drain()
        finally:
            registry.forget("shout")
    assert seen.scores("w")["shout"].value is True


def test_a_failing_heuristic_is_an_error_and_not_a_zero():
    """An exception in a user's heuristic is a value with its type; the others go on."""

    @llmeval.heuristic
    def broken(record):
        raise LookupError("nothing there")

    @llmeval.heuristic(inline=True)
    def broken_inline(record):
        return float("nan")

    try:
        with capture(raise_again=False) as seen:
            with llmeval.workflow("w", request="q") as span:
                span.annotate(retrieved_context=[{"content": "a", "score": 0.0}])
            seen.drain()
    finally:
        registry.forget("broken")
        registry.forget("broken_inline")
    scores = seen.scores("w")
    assert (scores["broken"].value, scores["broken"].error.type) == (None, "LookupError")
    assert (scores["broken_inline"].value, scores["broken_inline"].error.type) == (
        None,
        "malformed",
    )
    assert scores["context_relevance"].value == 0.0


@pytest.mark.parametrize(
    ("value", "metric_type", "expected"),
    [
        (0.85, "score", 0.85),
        (1, None, 1.0),
        ("good", None, "good"),
        (True, None, True),
        (1, "boolean", True),
        (True, "score", 1.0),
        (3, "categorical", "3"),
    ],
)
def test_submitting_an_evaluation_as_ddtrace_users_write_it(value, metric_type, expected):
    """The value's type decides; metric_type only where it differs."""
    with capture() as seen:
        with llmeval.workflow("w") as span:
            exported = llmeval.export_span()
        llmeval.submit_evaluation(
            span=exported, label="mine", metric_type=metric_type, value=value, reasoning="because"
        )
        seen.drain()
    event = seen.evaluations[0]
    assert event.evaluation.value == expected
    assert type(event.evaluation.value) is type(expected)
    assert event.target.span_id == span.span_id
    assert event.evaluation.explanation == "because"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), object(), [1], {}, b"x"])
def test_what_cannot_be_submitted_is_counted_and_never_raised(value):
    """Nonsense reaches no exporter and no exception reaches the app."""
    with capture(raise_again=False) as seen:
        llmeval.submit_evaluation(label="mine", value=value)
        llmeval.submit_evaluation(label=None, value=1.0)
        llmeval.submit_evaluation(
            label="mine", value=1.0, span=42, metadata=7, tags=3, timestamp_ms="x"
        )
        result = seen.drain()
    assert all(
        event.evaluation.value in (1.0, "<object>") or "of 1 bytes" in event.evaluation.value
        for event in seen.evaluations
    )
    assert result.problems["submit_evaluation: label or value cannot be used"] >= 1


@pytest.mark.parametrize("far", [10**30, -1, 10**15])
def test_a_time_that_nobody_could_mean_becomes_now(far):
    """Such as nanoseconds in place of milliseconds: exporters could not write them as a date."""
    before = time.time_ns()
    with capture() as seen:
        llmeval.submit_evaluation(label="mine", value=1.0, timestamp_ms=far)
        llmeval.submit_evaluation(label="then", value=1.0, timestamp_ms=5)
        seen.drain()
    (now,) = [event for event in seen.evaluations if event.evaluation.name == "mine"]
    (then,) = [event for event in seen.evaluations if event.evaluation.name == "then"]
    assert before <= now.timestamp_ns <= time.time_ns()
    assert then.timestamp_ns == 5_000_000


def test_feedback_is_kept_apart():
    """What a person says has its own kind, and who said it."""
    with capture() as seen:
        with llmeval.workflow("w"):
            llmeval.submit_feedback(label="thumbs", value=True, submitter={"id": "42"})
        seen.drain()
    evaluation = seen.evaluations[0].evaluation
    assert evaluation.evaluator_kind == "human"
    assert evaluation.metadata["submitter"] == {"id": "42"}


def test_the_settings_table_reads_every_row():
    """Each row of the table reads its own default back and names a variable and a purpose."""
    settings = config.Settings()
    for row in config.rows():
        assert row.variables, row.name
        assert row.doc.endswith("."), row.name
        assert config.value_of(settings, row.name) == row.default
        for variable in row.variables:
            assert f"`{variable}`" in table()
    assert runtime.settings().store


def test_a_format_of_the_apps_own_is_checked_in_the_worker():
    """A function or expression that checks a value never runs on the caller's thread."""
    import threading

    from llmeval_sdk.heuristics.aggregated_confidence import aggregated_confidence

    ran = []

    def looks_right(value):
        ran.append(threading.current_thread().name)
        return value.startswith("A")

    with capture() as seen:
        for value in ("A-1", "B-1"):
            with llmeval.workflow("w", request="q") as span:
                span.annotate(confidence="HIGH", value=value, field_config={"format": looks_right})
        with llmeval.workflow("named", request="q") as span:
            span.annotate(confidence="HIGH", value="soon", field_config={"format": "date"})
        seen.drain()
    name = aggregated_confidence.name
    found = [e.evaluation for e in seen.evaluations if e.evaluation.name == name]
    assert sorted((e.value, e.metadata["format_valid"]) for e in found) == [
        (0.5, False),
        (0.5, False),
        (0.9, True),
    ]
    assert set(ran) == {"llmeval-aside"}


def test_enabled_says_whether_a_call_would_be_recorded(monkeypatch):
    """What an app asks before it gathers what only a trace needs; asking sets nothing up."""
    with runtime.isolated():
        assert llmeval.enabled() is True
        assert runtime.in_force.pipeline is None
        with llmeval.disabled():
            assert llmeval.enabled() is False
        assert llmeval.enabled() is True
        monkeypatch.setenv("LLMEVAL_ENABLED", "0")
        assert llmeval.enabled() is False
    monkeypatch.delenv("LLMEVAL_ENABLED")
    with capture(enabled=False):
        assert llmeval.enabled() is False
    with capture():
        assert llmeval.enabled() is True


def test_what_a_replaced_pipeline_raises_at_its_end_is_counted(until):
    """It ends in the background, where nobody would hear of an exception."""

    class Broken:
        started = True

        def shutdown(self, seconds):
            raise OSError("disk")

    before = shield.caught.snapshot().get("shutdown", 0)
    runtime.InForce().retire(Broken())
    until(lambda: shield.caught.snapshot().get("shutdown", 0) == before + 1)
