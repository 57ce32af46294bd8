"""A value that cannot be read: `configure` raises, and a variable closes what it may have closed."""

from __future__ import annotations

import enum
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath

import pytest
from otlp_collector import running_collector

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config import SCORES, Secret, reading
from llmeval_sdk.config.settings import DETECTORS
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters import memory, redaction
from llmeval_sdk.judges.models.openai_client import OpenAILLM
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process.shield import caught
from llmeval_sdk.testing.judge_server import JudgeServer


ROWS = {row.name: row for row in config.rows()}
CAREFUL = {
    "enabled": False, "trace_sample_rate": 0.0, "exporters": ("local",), "judge_share": 0.0,
    "calls_per_minute": 0.0, "usd_per_day": 0.0, "tokens_per_minute": 0.0,
    "capture_content": False, "redact": ("all",), "datadog_enabled": False,
}  # fmt: skip
"""What a setting is that a variable sets to what cannot be read; all others have their default."""
CLOSING = {
    "judges": {
        "judge_base_url", "sampling_rules", "escalations", "budget_groups", "prices",
        "decision_base_url", "anthropic_base_url", "google_base_url", "shared", "judge_queue",
    },
    "ids": {"hash_ids"},
    "otlp": {
        "otlp_endpoint", "otlp_traces_endpoint", "otlp_logs_endpoint", "otlp_headers",
        "otlp_traces_headers", "otlp_logs_headers", "otlp_certificate", "otlp_client_certificate",
        "otlp_client_key",
    },
    "langfuse": {"langfuse_url"}, "phoenix": {"phoenix_endpoint"},
}  # fmt: skip
"""What is off as long as such a variable cannot be read."""

FLAGS = ("flase", "of", "none", "2", "true false")
NUMBERS = ("0,05", "high", "-1", "nan", "inf")
LISTS = ("{", "nonsense", "{}", "[1", "null")
ADDRESSES = ("localhost", "http://", "http://host:port", "https://a b/", "ftp://host")
TEXTS = ("\udcff", "a\udc80b", "\udcff" * 100, "\udcfe=", "\udcff,\udcff")
WRONG = {
    reading.flag: FLAGS, reading.content: (*FLAGS[:4], "SPAN"), reading.fraction: (*NUMBERS, "1.1"),
    reading.positive: NUMBERS, reading.duration: NUMBERS,
    reading.count: ("many", "-1", "1.5", "nan", "1e400"), reading.json_list: LISTS,
    reading.limits: ("bm25", "[20]", '{"bm25": 0}', '{"bm25": "x"}', '{"bm25": true}'),
    reading.prices: ("m", "m=1", "m=a,b", '{"m": 1}', "=1,2"), reading.address: ADDRESSES,
    reading.server: ("http://", "host:port", "https://a b/", "ftp://host", "a b"),
    reading.file: ("/nowhere", "nowhere.pem", "/nowhere/x", "x" * 5_000, "/proc/nowhere"),
    reading.secret_pairs: ("x", "=", "a=\u00e4", "x-key=a%0Ab", "\u00fc=1"),
    reading.pairs: ("x", "=1", "a=1,b", ",x", "a=%FF\udcff"),
    reading.long_secret: ("short", "true", "x", "0123456789abcde", "\udcff" * 20),
}  # fmt: skip
OF_ROW = {
    "otel_disabled": ("ture", "1", "yes", "on", "flase"), "exporters": (",", ", ,", ",,", " ,", ", "),
    "redact": ("emial", "true", "email,off", "all,off", ","),
    "shared": ADDRESSES, "judge_queue": ADDRESSES,
}  # fmt: skip


def wrong_texts(row):
    """Five texts that the row's variable cannot be; ``None`` where any text can be one."""
    if row.name in OF_ROW:
        return OF_ROW[row.name]
    if row.read in WRONG:
        return WRONG[row.read]
    if row.read is reading.path:
        return None
    is_choice = bool(reading._KINDS.get(row.read, reading._Kind()).choices)
    return ("nonsense", "0", "true", "on,off", ".") if is_choice else TEXTS


READABLE = ("0,05", "'", "x" * 5_000, "../..", "<b>&quot;")
"""Texts that some settings take, strange as they are."""
GIVEN = [(name, text) for name, row in ROWS.items() for text in wrong_texts(row) or ()]


def closed_by(name):
    return next((what for what, names in CLOSING.items() if name in names), None)


@pytest.mark.parametrize(("name", "text"), GIVEN)
def test_an_unreadable_variable_gives_the_careful_value_and_one_line(name, text):
    """By each variable of a setting; a second one that could be read decides nothing."""
    row, what = ROWS[name], closed_by(name)
    for place, variable in enumerate(row.variables):
        further = dict.fromkeys(row.variables[place + 1 :], "true")
        problems = []
        settings = config.from_environment({variable: text, **further}, problems=problems)
        assert len(problems) == 1
        assert problems[0].startswith(f"{variable}=***: " if row.is_secret else f"{variable}=")
        assert config.value_of(settings, name) == CAREFUL.get(name, row.default)
        assert set(settings.closed) == ({what} if what else set())


def test_each_guarded_setting_is_among_those():
    """A row that says how it closes is in the lists above, and none of these has gone."""
    guarded = {name for name, row in ROWS.items() if row.is_guarded}
    assert guarded == CAREFUL.keys() | set().union(*CLOSING.values())


class Odd:
    """An object of the app's that is no value of any setting."""

    def __repr__(self):
        raise RuntimeError("no repr")


WRONG_OBJECTS = (object(), Odd(), b"true", 1j, {1, 2.5})
FURTHER_OBJECTS = {
    reading.fraction: (True, math.nan, 1.5, "0,5", [0.5]),
    reading.positive: (True, math.inf, -1, "soon", Decimal("nan")),
    reading.count: (True, 1.5, -1, "10 MB", math.nan),
    reading.flag: (2, 0.5, "maybe", [], "no thanks"),
    reading.text: (5, True, ["gpt"], "a\0b", "\ud800"),
    reading.path: (5, True, ["x"], "a\0b", "\ud800"),
}


@pytest.mark.parametrize("name", ROWS)
def test_configure_refuses_what_does_not_fit(name):
    """It names the setting and what it takes, and what is in force stays in force."""
    row = ROWS[name]
    with runtime.isolated():
        llmeval.configure(exporters=["memory"], escalations=[])
        before = runtime.pipeline(), runtime.settings()
        texts = wrong_texts(row) or ()
        for value in (*WRONG_OBJECTS, *FURTHER_OBJECTS.get(row.read, ()), *texts):
            with pytest.raises(ConfigurationError, match=f"^{name}=.*expected|{name} takes|is no"):
                llmeval.configure(**{"exporters": ["memory"], name: value})
            assert (runtime.pipeline(), runtime.settings()) == before


@pytest.mark.parametrize("name", ROWS)
def test_no_variable_loses_a_record_or_raises_later(name, monkeypatch, tmp_path, caplog):
    """Recording stops only where the careful value says so, and then the log does, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    texts = wrong_texts(ROWS[name]) or ()
    for text in dict.fromkeys((*texts, *READABLE)):
        monkeypatch.setenv(ROWS[name].variables[0], text)
        caplog.clear()
        before = caught.snapshot()
        with runtime.isolated():
            for number in range(3):
                with llmeval.workflow("answer", request=f"question {number}") as span:
                    span.response = "an answer"
            stats = llmeval.flush(20)
            settings = runtime.settings()
            assert stats.complete
            if settings.enabled and settings.trace_sample_rate:
                assert stats.spans == 3
                assert all(each.delivered == each.created for each in stats.exporters.values())
            else:
                assert ROWS[name].variables[0] in caplog.text
        assert caught.snapshot() == before


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, text in GIVEN if name in CLOSING["otlp"]]
)
def test_nothing_is_sent_over_otlp_while_an_address_or_a_key_cannot_be_read(
    name, text, monkeypatch, caplog
):
    """Not even to the address of the other signal; the records stay in the local store."""
    with running_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv(ROWS[name].variables[0], text)
        with runtime.isolated():
            with llmeval.workflow("answer", request="a question"):
                pass
            stats = llmeval.flush(20)
        assert {name: each.delivered for name, each in stats.exporters.items()} == {"local": 1}
        assert collector.requests == []
    assert f"{ROWS[name].variables[0]}=" in caplog.text


@pytest.mark.parametrize("text", ["oltp", ",", "otpl,consle", "nothing"])
def test_without_a_usable_name_records_stay_local(text, monkeypatch, caplog):
    """Never what the variables of OTLP or Datadog would turn on."""
    with running_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("LLMEVAL_EXPORTERS", text)
        with runtime.isolated():
            with llmeval.workflow("answer", request="a question"):
                pass
            assert set(llmeval.flush(20).exporters) == {"local"}
        assert collector.requests == []
    assert "LLMEVAL_EXPORTERS" in caplog.text


@pytest.fixture
def judged(monkeypatch):
    """An app that has each request judged, by a server over loopback."""
    server = JudgeServer()
    server.start()
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "stand-in")
    monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("LLMEVAL_JUDGE_API_KEY", "k")
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "safety")
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    yield server
    server.stop()


def asked(server, number=0):
    """Trace one request, and return how many requests the judge model got."""
    before = len(server.requests)
    with runtime.isolated():
        with llmeval.workflow("answer", request=f"a question, the {number}th") as span:
            span.response = f"an answer, the {number}th"
        llmeval.flush(20)
        llmeval.shutdown(5)
    return len(server.requests) - before


def test_judges_are_asked_where_all_can_be_read(judged):
    """So that the next test says something."""
    assert asked(judged) == 1


@pytest.mark.parametrize(
    "name", sorted({"calls_per_minute", "usd_per_day", "tokens_per_minute", *CLOSING["judges"]})
)
def test_no_judge_is_asked_while_a_limit_cannot_be_read(name, judged, monkeypatch, caplog):
    """Nor the vendor's own server in the place of one whose address is wrong."""
    for number, text in enumerate(wrong_texts(ROWS[name])):
        monkeypatch.setenv(ROWS[name].variables[0], text)
        assert asked(judged, number) == 0
    assert ROWS[name].variables[0] in caplog.text


@pytest.mark.parametrize("name", sorted(CLOSING["judges"] - {"shared", "judge_queue"}))
def test_offline_a_run_with_judges_says_what_cannot_be_read(name, judged, monkeypatch):
    """A person is watching: no verdict is paid for, and none is missing silently."""
    monkeypatch.setenv(ROWS[name].variables[0], wrong_texts(ROWS[name])[0])
    rows = [{"request": "a question", "response": "an answer"}]
    with pytest.raises(ConfigurationError, match=ROWS[name].variables[0]):
        llmeval.evaluate(rows, evaluators=["safety"], progress=False)
    assert len(judged.requests) == 0


@pytest.mark.parametrize("text", ADDRESSES)
def test_a_model_that_code_makes_never_goes_to_the_vendor_instead(text, monkeypatch):
    """Its address is that of the environment, which cannot be read."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("LLMEVAL_JUDGE_BASE_URL", text)
    with pytest.raises(ConfigurationError, match="LLMEVAL_JUDGE_BASE_URL cannot be read"):
        OpenAILLM("gpt-4o")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LLMEVAL_CAPTURE_CONTNET", "false"), ("LLMEVAL_CAPTURE_CONTENTS", "false"),
        ("LLMEVAL_CONTENT", "false"), ("LLMEVAL_REDACTION", "email"), ("LLMEVAL_HASH_ID", "k" * 20),
        ("LLMEVAL_EXPORTER", "local"), ("LLMEVAL_ENABLE", "0"),
    ],
)  # fmt: skip
def test_an_unknown_variable_like_one_of_privacy_closes_that(variable, text):
    """Whatever it says: nobody knows what was meant, but it was about privacy."""
    problems = []
    settings = config.from_environment({variable: text}, problems=problems)
    (line,) = problems
    assert line.startswith(f"{variable} is not a setting: did you mean")
    open_settings = config.Settings()
    assert settings.closed or any(
        getattr(settings, name) == CAREFUL[name] != getattr(open_settings, name) for name in CAREFUL
        if hasattr(settings, name)
    )  # fmt: skip


@pytest.mark.parametrize("variable", ["LLMEVAL_TEAM", "LLMEVAL_VERSION", "LLMEVAL_X", "LLMEVAL_"])
def test_an_unknown_variable_like_none_closes_nothing(variable):
    """An app may have its own; it is said."""
    problems = []
    settings = config.from_environment({variable: "1"}, problems=problems)
    assert settings == config.Settings()
    assert len(problems) == 1


def test_what_code_says_wins_over_a_misspelt_variable():
    """The line stays; the value is that of the call."""
    environ, problems = {"LLMEVAL_CAPTURE_CONTNET": "false", "LLMEVAL_PRICE": "x"}, []
    settings = config.from_environment(
        environ, problems=problems, capture_content=True, prices={"m": (1, 2)}
    )
    assert (settings.capture_content, settings.closed) == (True, {})
    assert len(problems) == 2


@pytest.mark.parametrize("text", ["score", "Scores only", "scors", "the scores"])
def test_what_may_mean_scores_keeps_names_at_home_too(text):
    """A typo of the strictest word does not open what that word closes."""
    settings = config.from_environment({"LLMEVAL_CAPTURE_CONTENT": text}, problems=[])
    assert settings.capture_content in (SCORES, False)
    assert (settings.capture_content == SCORES) == ("score" in text.lower())


def test_an_empty_variable_is_unset():
    """It neither closes nor hides the second one."""
    environ = {"LLMEVAL_CAPTURE_CONTENT": " ", "LLMEVAL_REDACT": "", "LLMEVAL_EVALUATORS": "",
               "DD_LLMOBS_EVALUATORS": "safety"}  # fmt: skip
    settings = config.from_environment(environ)
    assert settings == config.Settings(evaluators=("safety",))


KEY = "sk-proj-" + "a1B2c3D4" * 6


@pytest.mark.parametrize("name", ["judge_timeout", "capture_content", "store_max_days", "prices"])
def test_a_key_in_the_wrong_place_is_not_shown(name, caplog, monkeypatch):
    """People paste keys into the wrong variable: the detectors come before the cut."""
    for text in (KEY, "x" * 70 + " " + KEY, f"password={KEY}"):
        problems = []
        config.from_environment({ROWS[name].variables[0]: text}, problems=problems)
        assert len(problems) == 1
        with pytest.raises(ConfigurationError) as refusal:
            llmeval.configure(exporters=["memory"], **{name: text})
        monkeypatch.setenv(ROWS[name].variables[0], text)
        with runtime.isolated():
            llmeval.configure(exporters=["memory"])
        for words in (*problems, str(refusal.value), caplog.text):
            assert KEY[8:20] not in words
    with pytest.raises(ConfigurationError) as refusal:
        llmeval.configure(exporters=["memory"], judge_timeout=[{"api_key": "hunter2hunter2"}])
    assert "hunter2" not in str(refusal.value)


def test_the_shown_value_is_cut():
    """A long one fills no line."""
    with pytest.raises(ConfigurationError) as refusal:
        llmeval.configure(exporters=["memory"], judge_timeout="y" * 10_000)
    assert len(str(refusal.value)) < 200


class Choice(str, enum.Enum):
    BACKGROUND = "background"


class Whole:
    """What numpy's integers are to those who know nothing of numpy."""

    def __index__(self):
        return 7


def fits():
    """Values of other types that fit, and what they are."""
    yield "heuristics", Choice.BACKGROUND, "background"
    yield "heuristics", " Background ", "background"
    yield "judge_timeout", Decimal("2.5"), 2.5
    yield "judge_timeout", Fraction(5, 2), 2.5
    yield "judge_timeout", "2.5", 2.5
    yield "judge_concurrency", Whole(), 7
    yield "judge_concurrency", "7", 7
    yield "store_max_bytes", 1e9, 1_000_000_000
    yield "trace_sample_rate", 1, 1.0
    yield "store", PurePosixPath("a/b.db"), "a/b.db"
    yield "store", Path("a/b.db"), "a/b.db"
    yield "evaluators", "safety, groundedness", None
    yield "redact", ["email"], ("email",)
    yield "redact", "email,jwt", ("email", "jwt")
    yield "enabled", "no", False
    yield "enabled", "off", False
    yield "capture_content", "scores", SCORES
    yield "capture_content", "NO_CONTENT", False
    yield "prices", "m=1,2", {"m": (1.0, 2.0)}
    yield "prices", {"m": (Decimal(1), 2)}, {"m": (1.0, 2.0)}
    yield "otlp_headers", "a=b", {"a": Secret("b")}
    yield "retrieval_limits", {"bm25": 20}, {"bm25": 20}
    yield "spool", "", None


@pytest.mark.parametrize(("name", "value", "read"), list(fits()))
def test_what_fits_by_protocol_is_taken(name, value, read):
    """A text is read as the variable is."""
    with runtime.isolated():
        llmeval.configure(**{"exporters": ["memory"], name: value})
        held = config.value_of(runtime.settings(), name)
        assert held == read or name == "evaluators"


def test_numbers_of_numpy_are_numbers():
    """By the protocols that they have: no numpy is imported here."""
    numpy = pytest.importorskip("numpy")
    settings = config.from_environment(
        {}, judge_timeout=numpy.float32(2.5), judge_concurrency=numpy.int64(3),
        enabled=numpy.bool_(False), evaluators=numpy.array(["safety"]),
    )  # fmt: skip
    assert settings.judge_timeout == 2.5
    assert (settings.judge_concurrency, settings.enabled) == (3, False)
    assert settings.evaluators == ("safety",)
    for wrong in (numpy.bool_(True), numpy.nan, numpy.array([1.0, 2.0]), numpy.float64("inf")):
        with pytest.raises(ConfigurationError, match="judge_timeout="):
            config.from_environment({}, judge_timeout=wrong)


def test_none_is_not_given(monkeypatch):
    """The variable decides then."""
    monkeypatch.setenv("LLMEVAL_JUDGE_TIMEOUT", "7")
    assert config.from_environment(judge_timeout=None).judge_timeout == 7.0


def test_opentelemetrys_switch_is_true_only_as_true():
    """As its specification says; what is neither true nor false is said."""
    for text, value, lines in (("true", True, 0), ("TRUE", True, 0), ("false", False, 0),
                               ("1", False, 1), ("yes", False, 1)):  # fmt: skip
        problems = []
        settings = config.from_environment({"OTEL_SDK_DISABLED": text}, problems=problems)
        assert (settings.otel_disabled, len(problems)) == (value, lines)


def test_the_names_of_detectors_are_those_of_the_detectors():
    """The table of settings knows them without loading the detectors."""
    assert set(DETECTORS) == set(redaction.DETECTORS)


def test_own_settings_are_few():
    """A further one needs a reason: nobody sets what nobody knows."""
    own = [row for row in ROWS.values() if not row.variables or row.variables[0].startswith("LLM")]
    assert len(own) <= 52


@pytest.mark.parametrize("name", ["exporters", "redact", "judge_share", "enabled", "prices"])
def test_an_empty_text_is_none_by_both_doors(name):
    """An app may pass on a variable that nobody has set."""
    default = getattr(config.from_environment({}), name)
    variable = ROWS[name].variables[0]
    assert getattr(config.from_environment({variable: " "}), name) == default
    assert getattr(config.from_environment({}, **{name: ""}), name) == default


ARGUMENTS = {
    "evaluators": (5, object(), {"a": 1}), "escalations": (5, ["x"], [None], "nonsense", "[1]"),
    "sampling_rules": (5, [5], [{"sample_rate": 1}], "nonsense", '[{"sample_rate": 2}]'),
    "budget": (5, "5", {}, True), "llm": (5, [], object(), True), "exporters": (5, [5], ["oltp"]),
    "redact": (5, True, ["emial"], b"x"), "budget_groups": ("[1]", "x", 5, [{}]),
    "prices": (5, [], {"m": 1}, "m"), "decisions": (5, object(), "nonsense", "x/y"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_of_configure_is_checked(name, monkeypatch):
    """Also where the environment says something of the same, which is not at fault."""
    monkeypatch.setenv("LLMEVAL_BUDGET_GROUPS", "[]")
    with runtime.isolated():
        llmeval.configure(exporters=["memory"], escalations=[])
        before = runtime.pipeline(), runtime.settings()
        for value in ARGUMENTS[name]:
            with pytest.raises(ConfigurationError):
                llmeval.configure(**{"exporters": ["memory"], name: value})
            assert (runtime.pipeline(), runtime.settings()) == before


def test_after_a_refused_configure_no_text_leaves_and_no_judge_runs(judged, caplog):
    """Until a call succeeds; a mistake may have been in what would have closed it."""
    memory.clear()
    with runtime.isolated():
        with pytest.raises(ConfigurationError):
            llmeval.configure(capture_content="flase")
        assert "no text is recorded and no judge runs" in caplog.text
        with llmeval.workflow("answer", request="the secret question") as span:
            span.response = "the secret answer"
        llmeval.flush(20)
        assert len(memory.spans()) == 1
        assert "secret" not in repr(memory.spans())
        assert len(judged.requests) == 0
        llmeval.configure()
        with llmeval.workflow("answer", request="a question") as span:
            span.response = "an answer"
        llmeval.flush(20)
        assert [span.request for span in memory.spans() if span.name == "answer"] == [
            None,
            "a question",
        ]
        assert len(judged.requests) == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [("decision_usd_per_day", "judges"), ("decision_tokens_per_minute", "judges"),
     ("phoenix_endpoint", "phoenix"), ("mlflow_uri", "mlflow"), ("queue_records", None),
     ("learn", None), ("state", None), ("verdict_key", None)],
)  # fmt: skip
def test_a_removed_variable_says_what_to_write_and_closes_what_it_limited(name, what):
    """A limit that somebody believes in is not dropped silently."""
    problems = []
    settings = config.from_environment({f"LLMEVAL_{name.upper()}": "1"}, problems=problems)
    assert set(settings.closed) == ({what} if what else set())
    (line,) = problems
    assert line.startswith(f"LLMEVAL_{name.upper()} is no longer a setting: ")
    if name not in ROWS:
        with pytest.raises(ConfigurationError, match=f"{name} is no longer a setting"):
            config.from_environment({}, **{name: 1})
