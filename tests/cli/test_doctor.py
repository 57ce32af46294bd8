"""``llmeval doctor`` says what is configured, what works and what does not, and shows no key."""

import json
import re
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest

from llmeval_sdk import registry
from llmeval_sdk.cli import doctor
from llmeval_sdk.cli.doctor import address
from llmeval_sdk.evaluation import calibrations
from llmeval_sdk.judges.models.prices import price_list
from llmeval_sdk.model import Batch
from llmeval_sdk.statistics import Calibration
from llmeval_sdk.store.losses import Process
from llmeval_sdk.store.state import state_path
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.testing.decision_server import DecisionServer


KEY = "sk-very-secret-0123456789"


@contextmanager
def server(status=200, location=None):
    """Serve one status on loopback; yields the base URL and what was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1", asked
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def line(done, word):
    """Return the one line of the output that has a word, its spaces folded."""
    folded = [f" {' '.join(each.split())} " for each in done.stdout.splitlines()]
    (found,) = [each.strip() for each in folded if word in each]
    return found


def test_it_begins_with_one_line_that_says_whether_all_is_well_and_what_is_on(llmeval):
    """Details only with ``--all``; what is broken is always shown."""
    well = llmeval("doctor", "--offline")
    first, *rest = well.stdout.splitlines()
    assert re.fullmatch(
        r"ok: scores go to the local store; \d+ heuristics are on; no judge runs, because"
        r" LLMEVAL_JUDGE_MODEL is not set(; the price list is old .*)?\.",
        first,
    )
    assert len(list(filter(None, rest))) == 1
    ill = llmeval("doctor", "--offline", LLMEVAL_EXPORTERS="locale", LLMEVAL_JUDGE_MODEL="m")
    assert ill.returncode == 1
    assert ill.stdout.startswith("NOT ok, 1 broken (see below): scores go to nowhere;")
    assert "the judge model is m" in ill.stdout
    assert "BROKEN locale" in " ".join(ill.stdout.split())
    off = llmeval("doctor", "--offline", LLMEVAL_ENABLED="0")
    assert off.stdout.startswith("ok: nothing is recorded, because LLMEVAL_ENABLED is off.")


def test_a_fresh_machine_is_well(llmeval, tmp_path):
    """With nothing configured, nothing is broken and nothing is made."""
    done = llmeval("doctor", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nNothing is broken.\n")
    path = tmp_path / ".llmeval" / "llmeval.db"
    assert (
        line(done, "llmeval.db not there")
        == f"ok {path} not there yet; made by the first decorated call"
    )
    assert line(done, "note LLMEVAL_JUDGE_MODEL") == (
        "note LLMEVAL_JUDGE_MODEL none is configured; judges are counted as not run (no_judge_model)"
    )
    assert (
        line(done, " local active")
        == "ok local active; takes our spans, all scores, and the spans of other libraries that have any"
    )
    assert not path.parent.exists()


def test_every_heuristic_is_listed_with_where_it_runs(llmeval):
    """Active evaluators and their place: in the call, in the background, or when asked for."""
    done = llmeval("doctor", "--all")
    for name, place in registry.heuristics().items():
        if ".plugins.agents." in place or ".plugins.sessions." in place:
            continue  # the next test
        assert line(done, f" {name} heuristic, ").startswith("ok ")
    assert line(done, " context_precision ") == "ok context_precision heuristic, in the call"
    assert "LLMEVAL_HEURISTICS)" not in llmeval("doctor", "--all", "--offline").stdout
    off = llmeval("doctor", "--all", LLMEVAL_HEURISTICS="off")
    assert "off (LLMEVAL_HEURISTICS)" in line(off, " context_precision ")


@pytest.mark.plugin("agents", "sessions")
def test_scores_of_agents_and_sessions_have_a_line_each_where_there_are_none(llmeval):
    """Eighteen lines of what cannot run here would hide the others."""
    done = llmeval("doctor", "--all", "--offline")
    agents, sessions = line(done, "note agents "), line(done, "note sessions ")
    assert agents.startswith("note agents 14 heuristics for agents, of which the store has none: ")
    assert sessions.startswith("note sessions 4 heuristics for sessions, of which the store has")
    words = " ".join(done.stdout.split())
    assert all(name in words for name in registry.heuristics())
    wanted = llmeval("doctor", "--all", "--offline", LLMEVAL_EVALUATORS="tool_call_loop")
    assert line(wanted, "ok tool_call_loop ")
    named = json.loads(llmeval("doctor", "--json", "--offline").stdout)
    assert "tool_call_f1" in str(named)


@pytest.mark.plugin("agents", "sessions")
def test_scores_of_agents_are_listed_where_there_are_agents(llmeval, store):
    """And those of sessions where there are sessions."""
    store.span("a" * 16, kind="agent", session_id="s")
    done = llmeval("doctor", "--all", "--offline", LLMEVAL_STORE=str(store.path))
    assert line(done, "ok tool_call_loop ")
    assert line(done, "ok turn_count ")


def test_a_detector_that_does_not_exist_is_a_problem(llmeval):
    """The app then takes out all that it can."""
    done = llmeval("doctor", "--offline", LLMEVAL_REDACT="true")
    assert done.returncode == 1
    assert "LLMEVAL_REDACT='true' expected api_key, jwt" in " ".join(done.stdout.split())
    assert llmeval("doctor", "--offline", LLMEVAL_REDACT="email,off").returncode == 1
    assert llmeval("doctor", "--offline", LLMEVAL_REDACT="off").returncode == 0


def test_settings_say_where_they_come_from(llmeval):
    """A value, its variable, and nothing for what is at its default."""
    done = llmeval(
        "doctor",
        "--all",
        LLMEVAL_STORE_MAX_DAYS="3",
        DD_LLMOBS_EVALUATORS="safety",
        LLMEVAL_ENABLED="false",
    )
    assert line(done, "store_max_days") == "store_max_days 3.0 LLMEVAL_STORE_MAX_DAYS"
    assert line(done, " evaluators ") == "evaluators safety DD_LLMOBS_EVALUATORS"
    assert line(done, " enabled ") == "enabled false LLMEVAL_ENABLED"
    assert line(done, "store_max_bytes") == "store_max_bytes 1073741824 default"


def test_a_key_is_never_shown(llmeval):
    """Not as a setting, not in an address, not by way of a message, not where it was put by mistake."""
    done = llmeval(
        "doctor",
        "--all",
        OPENAI_API_KEY=KEY,
        DD_API_KEY=KEY,
        LLMEVAL_JUDGE_MODEL="gpt-4o",
        LLMEVAL_JUDGE_BASE_URL=f"http://user:{KEY}@127.0.0.1:9/v1?api-key={KEY}",
        LLMEVAL_JUDGE_API_KY=KEY,
        LLMEVAL_EVALUATORS=KEY,
        LLMEVAL_RECALL_THRESHOLD=KEY,
        LLMEVAL_EXPORTERS=f"local,{KEY}",
        LLMEVAL_STORE=f"/{KEY}/llmeval.db",
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization={KEY}",
    )
    assert done.returncode == 1
    assert KEY not in done.stdout + done.stderr
    assert "very-secret" not in done.stdout + done.stderr
    assert line(done, " judge_api_key ") == "judge_api_key set OPENAI_API_KEY"
    assert (
        line(done, "judge_base_url")
        == "judge_base_url http://127.0.0.1:9/v1 LLMEVAL_JUDGE_BASE_URL"
    )


def test_a_key_alone_does_not_look_configured(llmeval):
    """A key in the app's environment starts no judge, and doctor says so."""
    done = llmeval("doctor", "--all", OPENAI_API_KEY=KEY)
    assert done.returncode == 0
    assert "A key alone never starts one: name a model in LLMEVAL_JUDGE_MODEL" in done.stdout


def test_judges_asked_for_by_name_have_a_model(llmeval):
    """As in the app: with no model named, the default one would be asked, and doctor says so."""
    done = llmeval("doctor", "--all", "--offline", DD_LLMOBS_EVALUATORS="safety")
    assert line(done, "gpt-4o asked") == (
        "ok gpt-4o asked without a key; the default, because judges are asked for by name"
    )


def test_exporters_follow_what_is_configured(llmeval):
    """As in the app: an OTLP address switches that exporter on, LLMEVAL_EXPORTERS overrides."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert "  otlp  " in llmeval("doctor", "--all", **env).stdout
    done = llmeval("doctor", "--all", LLMEVAL_EXPORTERS="console,local", **env)
    assert "  otlp  " not in done.stdout
    assert line(done, " console active") == "ok console active"


@pytest.mark.skipif(
    find_spec("openai") is None, reason="without the client, doctor says it is missing"
)
def test_the_judge_server_is_asked_with_the_key(llmeval):
    """A server that lists its models is reachable."""
    with server() as (base, asked):
        done = llmeval(
            "doctor",
            "--all",
            LLMEVAL_JUDGE_MODEL="m",
            LLMEVAL_JUDGE_BASE_URL=base,
            LLMEVAL_JUDGE_API_KEY=KEY,
        )
    assert asked == [("/v1/models", f"Bearer {KEY}")]
    assert line(done, "/models") == f"ok {base}/models HTTP 200"
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "BROKEN {base}/models HTTP 401: the key is refused"),
        (404, "note {base}/models HTTP 404: it answers, but lists no models"),
        (500, "BROKEN {base}/models HTTP 500"),
    ],
)
def test_what_the_judge_server_answers_is_explained(llmeval, status, words):
    """A refused key and a server error are broken; a server without that page is not."""
    with server(status) as (base, _):
        done = llmeval(
            "doctor",
            "--all",
            LLMEVAL_JUDGE_MODEL="m",
            LLMEVAL_JUDGE_BASE_URL=base,
            OPENAI_API_KEY=KEY,
        )
    assert line(done, "/models") == words.format(base=base)
    assert KEY not in done.stdout


def test_the_key_does_not_follow_a_redirect(llmeval):
    """Another host never gets to see it."""
    with server() as (elsewhere, stolen), server(302, elsewhere) as (base, asked):
        done = llmeval(
            "doctor",
            "--all",
            LLMEVAL_JUDGE_MODEL="m",
            LLMEVAL_JUDGE_BASE_URL=base,
            OPENAI_API_KEY=KEY,
        )
    assert len(asked) == 1
    assert stolen == []
    assert line(done, "/models") == f"BROKEN {base}/models HTTP 302"


def test_a_judge_server_that_is_not_there_is_broken(llmeval):
    """Refused connections and wrong addresses are said in one line."""
    done = llmeval(
        "doctor", "--all", LLMEVAL_JUDGE_MODEL="m", LLMEVAL_JUDGE_BASE_URL="http://127.0.0.1:9/v1"
    )
    assert done.returncode == 1
    assert "cannot be reached: [Errno 111] Connection refused" in line(done, "/models")
    done = llmeval("doctor", "--all", LLMEVAL_JUDGE_MODEL="m", LLMEVAL_JUDGE_BASE_URL="localhost")
    assert "no judge runs: LLMEVAL_JUDGE_BASE_URL cannot be read" in done.stdout
    offline = llmeval(
        "doctor",
        "--all",
        "--offline",
        LLMEVAL_JUDGE_MODEL="m",
        LLMEVAL_JUDGE_BASE_URL="http://127.0.0.1:9/v1",
    )
    assert "/models" not in offline.stdout


def test_what_is_misspelt_is_named_with_its_nearest_match(llmeval):
    """Unknown variables, bad values, unknown evaluators and exporters, and broken rules."""
    done = llmeval(
        "doctor",
        "--all",
        LLMEVAL_EVALUATERS="safety",
        LLMEVAL_JUDGE_TIMEOUT="soon",
        LLMEVAL_EVALUATORS="saftey",
        LLMEVAL_EXPORTERS="locale",
        LLMEVAL_SAMPLING_RULES="[{]",
    )
    assert done.returncode == 1
    assert line(done, "LLMEVAL_EVALUATERS") == (
        "BROKEN LLMEVAL_EVALUATERS is not a setting did you mean 'LLMEVAL_EVALUATORS'?"
    )
    assert line(done, "'soon'").startswith("BROKEN LLMEVAL_JUDGE_TIMEOUT='soon'")
    assert (
        line(done, "judge_timeout")
        == "judge_timeout 60.0 LLMEVAL_JUDGE_TIMEOUT, which cannot be read"
    )
    assert (
        line(done, "BROKEN saftey")
        == "BROKEN saftey unknown evaluator 'saftey': did you mean 'safety'?"
    )
    assert (
        line(done, "BROKEN locale")
        == "BROKEN locale unknown exporter 'locale': did you mean 'local'?"
    )
    assert line(done, "BROKEN LLMEVAL_SAMPLING_RULES")
    assert done.stdout.endswith("\n6 broken.\n")


def test_escalations_and_budgets_of_groups_that_cannot_be_read_are_broken(llmeval):
    """Each line says which variable is wrong, and that no judge spends anything because of it."""
    done = llmeval(
        "doctor",
        "--offline",
        LLMEVAL_ESCALATIONS='[{"judge": "safety", "shar": 0.2}]',
        LLMEVAL_BUDGET_GROUPS="[{]",
    )
    assert done.returncode == 1
    assert line(done, "BROKEN LLMEVAL_ESCALATIONS") == (
        "BROKEN LLMEVAL_ESCALATIONS escalation 1: unknown key 'shar', did you mean 'share'?;"
        " 'safety' does not run"
    )
    assert "no judge runs until that is mended" in line(done, "BROKEN LLMEVAL_BUDGET_GROUPS")


def test_a_sampling_rule_that_names_no_evaluator_is_broken(llmeval):
    """The judge that was meant does not run either: the consequence comes first."""
    one = '[{"sample_rate": 0, "evaluator_label": "groundednes"}]'
    done = llmeval("doctor", "--offline", LLMEVAL_SAMPLING_RULES=one)
    assert done.returncode == 1
    assert line(done, "limits no evaluator") == (
        "BROKEN LLMEVAL_SAMPLING_RULES sampling rule 1: the rule limits no evaluator: unknown"
        " evaluator 'groundednes': did you mean 'groundedness'?; until a judge has that name,"
        " 'groundedness' does not run"
    )


def test_a_sampling_rule_for_what_does_not_run_here_is_a_note(llmeval):
    """Several apps may share an environment, so a rule of another app is no mistake."""
    rules = json.dumps(
        [
            {"sample_rate": 0, "evaluator": name}
            for name in ("context_relevance", "groundedness", "safety", "context_recall_llm")
        ]
    )
    environment = {"LLMEVAL_SAMPLING_RULES": rules, "LLMEVAL_EVALUATORS": "safety"}
    assert "limits no" not in llmeval("doctor", "--offline", **environment).stdout
    done = llmeval("doctor", "--offline", "--all", **environment)
    assert done.returncode == 0
    begin = "note LLMEVAL_SAMPLING_RULES sampling rule"
    assert line(done, "rule 1:") == (
        f"{begin} 1: the rule limits no judge: 'context_relevance' is a heuristic, and rules are"
        " for judges"
    )
    assert line(done, "rule 2:") == (
        f"{begin} 2: the rule limits no judge: 'groundedness' is not among those that run (one"
        " that a span names is limited)"
    )
    assert "rule 3:" not in done.stdout
    assert "rule 4:" not in done.stdout


def test_a_store_that_exists_is_counted(llmeval, store):
    """How much is there, and that it may be written."""
    store.evaluation(store.span("01" * 8), "context_precision", 0.5)
    done = llmeval("doctor", "--all", LLMEVAL_STORE=str(store.path))
    assert line(done, f"ok {store.path}") == f"ok {store.path} 1 span, 1 evaluation, may be written"


def test_what_was_lost_since_the_last_start_is_broken(llmeval, store):
    """The first page of troubleshooting says not "ok" over lost records, but what helps."""
    lost = {"local": {"queue_full": 31_656}}
    store.writer.note_losses(Process(time.time_ns(), 1), lost)
    done = llmeval("doctor", "--offline", LLMEVAL_STORE=str(store.path))
    assert done.returncode == 1
    assert done.stdout.startswith("NOT ok, 1 broken (see below)")
    told = " ".join(done.stdout.split())
    assert "BROKEN local: queue_full 31,656 records never reached the store since" in told
    assert "`llmeval agent`" in told
    found = json.loads(
        llmeval("doctor", "--offline", "--json", LLMEVAL_STORE=str(store.path)).stdout
    )
    (lately,) = found["sections"]["Since the last start"]
    assert (lately["ok"], lately["subject"]) == (False, "local: queue_full")


def test_losses_before_the_last_start_are_shown_as_a_note(llmeval, store):
    """Whoever has mended the set-up sees it, without --all, and the command succeeds again."""
    now = time.time_ns()
    store.writer.note_losses(Process(now - 9, 1), {"local": {"queue_full": 5}})
    store.writer.note_losses(Process(now, 2), {})
    done = llmeval("doctor", "--offline", LLMEVAL_STORE=str(store.path))
    assert done.returncode == 0
    assert "note local: queue_full 5 records never reached the store before that" in " ".join(
        done.stdout.split()
    )


def test_the_store_says_how_long_its_limit_lasts(llmeval, store):
    """At the pace of the latest traces; a limit that not even one trace keeps to is broken."""
    now = time.time_ns()
    for number in range(10):
        store.span(f"{number + 1:016x}", start_ns=now - (10 - number) * 60 * 10**9)
    done = llmeval("doctor", "--all", LLMEVAL_STORE=str(store.path))
    said = line(done, f"ok {store.path}")
    assert "10 spans, 0 evaluations, may be written; 1,073.7 MB last about " in said
    assert " days at the pace of the last 1" in said
    assert "1,073.7 MB last about " in llmeval("report", "--store", str(store.path)).stdout
    with closing(StoreWriter(store.path, max_bytes=1)) as writer:
        writer.write(Batch())
        while writer.prune():
            pass
    done = llmeval("doctor", "--all", LLMEVAL_STORE=str(store.path), LLMEVAL_STORE_MAX_BYTES="1")
    assert "LLMEVAL_STORE_MAX_BYTES=1 is less than one trace takes: none stays" in done.stdout


def test_a_store_that_cannot_be_written_is_broken(llmeval, tmp_path):
    """Said before an app finds itself with scores in memory only."""
    (tmp_path / "file").write_text("")
    done = llmeval("doctor", "--all", LLMEVAL_STORE=str(tmp_path / "file" / "llmeval.db"))
    assert done.returncode == 1
    assert (
        line(done, "memory only")
        == f"BROKEN {tmp_path}/file/llmeval.db {tmp_path}/file cannot be written: memory only"
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:secret@host:8443/v1?key=secret#secret", "https://host:8443/v1"),
        ("http://[::1]:80/v1", "http://::1:80/v1"),
        ("http://host:port/", "(not an address)"),
        ("nonsense", "://nonsense"),
    ],
)
def test_addresses_lose_what_may_be_a_key(url, expected):
    """Scheme, host, port and path are enough to recognise a server."""
    assert address(url) == expected


def test_no_key_goes_in_clear_through_a_proxy(llmeval):
    """A proxy of the environment could read it; the server is asked without it, which is said."""
    with server(401) as (address_of_proxy, asked):
        proxy = address_of_proxy.removesuffix("/v1")
        done = llmeval(
            "doctor",
            "--all",
            LLMEVAL_JUDGE_MODEL="m",
            LLMEVAL_JUDGE_API_KEY=KEY,
            LLMEVAL_JUDGE_BASE_URL="http://models.example/v1",
            http_proxy=proxy,
            no_proxy="",
        )
    assert [authorization for _, authorization in asked] == [None]
    assert "asked without the key" in done.stdout


def test_resource_attributes_are_not_shown(llmeval):
    """They are the app's own, and may name customers or hold tokens."""
    done = llmeval("doctor", "--all", OTEL_RESOURCE_ATTRIBUTES="customer=acme,token=abc-123")
    assert "acme" not in done.stdout
    assert "abc-123" not in done.stdout
    assert "2 set, not shown" in done.stdout


def test_doctor_says_where_spans_and_scores_go(llmeval):
    """Of our own spans, and of those that other libraries made."""
    assert (
        "takes our spans, all scores, and the spans of other libraries"
        in llmeval("doctor", "--all").stdout
    )
    done = llmeval("doctor", "--all", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert "every score as a log event" in done.stdout


def test_it_says_which_ceilings_hold_where_the_price_is_known(llmeval):
    """Calls and dollars, and tokens only where somebody set them."""
    done = llmeval(
        "doctor", "--all", "--offline", LLMEVAL_JUDGE_MODEL="gpt-4o-mini", OPENAI_API_KEY=KEY
    )
    assert line(done, " calls ") == "ok calls at most 60 a minute on this host"
    assert line(done, " dollars ") == (
        "ok dollars at most 5 a day, at 0.15 in and 0.6 out per million tokens"
    )
    assert " tokens at most" not in done.stdout


def test_it_says_that_an_unknown_price_has_tokens_in_place_of_dollars(llmeval):
    """And how to set the price; then the dollars hold."""
    env = {"LLMEVAL_JUDGE_MODEL": "mine", "LLMEVAL_JUDGE_BASE_URL": "http://127.0.0.1:9/v1"}
    done = llmeval("doctor", "--all", "--offline", **env)
    assert line(done, " dollars ") == (
        "note dollars NO limit: the price of mine is unknown; set LLMEVAL_PRICES='mine=in,out'"
        " (USD per million tokens), or 'mine=0,0' where it costs nothing"
    )
    assert line(done, " tokens at") == "ok tokens at most 200,000 a minute on this host"
    done = llmeval("doctor", "--all", "--offline", **env, LLMEVAL_PRICES="mine=1,2")
    assert "dollars at most 5 a day" in line(done, " dollars ")
    done = llmeval("doctor", "--all", "--offline", **env, LLMEVAL_BUDGET_TOKENS_PER_MINUTE="5000")
    assert line(done, " tokens at") == "ok tokens at most 5,000 a minute on this host"


@pytest.mark.parametrize(
    "limit",
    [
        {"LLMEVAL_BUDGET_USD_PER_DAY": "5"},
        {"LLMEVAL_BUDGET_GROUPS": '[{"usd_per_day": 0.5, "per": "tag:tenant"}]'},
    ],
)
def test_a_limit_in_dollars_without_a_price_is_broken(llmeval, limit):
    """No judge runs on that model; the line says what to set, and `0,0` where it costs nothing."""
    env = {"LLMEVAL_JUDGE_MODEL": "mine", "LLMEVAL_JUDGE_BASE_URL": "http://127.0.0.1:9/v1"}
    done = llmeval("doctor", "--offline", **env, **limit)
    assert done.returncode == 1
    said = line(done, " dollars ")
    assert "no_price" in said
    assert "LLMEVAL_PRICES='mine=in,out'" in said
    assert "'mine=0,0' where it costs nothing" in said
    assert not llmeval("doctor", "--offline", **env, **limit, LLMEVAL_PRICES="mine=0,0").returncode


def test_it_says_of_which_day_the_prices_are(llmeval):
    """And warns when nobody has looked at them for more than 120 days."""
    listed = price_list()
    said = f"price list {listed.source} {listed.version} of {listed.as_of}"
    assert said in line(llmeval("doctor", "--all", "--offline"), " price list ")
    good, old = (doctor.price_list(listed.as_of + timedelta(days=days)) for days in (120, 121))
    assert good.ok
    assert old.ok is None
    assert "121 days old" in old.words


def test_a_placeholder_for_a_key_does_not_blot_out_the_words(llmeval):
    """A local server takes any key, such as ``x``: its letters stay readable everywhere else."""
    done = llmeval("doctor", "--all", "--offline", OPENAI_API_KEY="x", LLMEVAL_JUDGE_MODEL="local")
    assert "context_precision" in done.stdout
    assert "***" not in done.stdout


def test_a_decision_model_is_shown_with_its_wire_and_asked_whether_it_is_there(llmeval):
    """Who is decided, who is not, what it may cost; a key is never shown, a wrong wire is broken."""
    with DecisionServer(key="dk-secret-9981") as server:
        environment = {
            "LLMEVAL_DECISION_MODEL": "systemone/stand-in",
            "LLMEVAL_DECISION_BASE_URL": server.base_url,
            "LLMEVAL_DECISION_API_KEY": "dk-secret-9981",
            "LLMEVAL_EVALUATORS": "safety",
        }
        done = llmeval("doctor", "--all", **environment)
    assert done.returncode == 0, done.stdout
    assert "wire systemone; asked by POST" in line(done, " systemone/stand-in wire")
    assert line(done, " decided ") == "ok decided safety"
    assert line(done, " HTTP 200 ").startswith("ok ")
    assert "dk-secret" not in done.stdout
    assert "asked without a key; the default" not in done.stdout  # nobody asks a judge model
    wrong = llmeval("doctor", "--all", **{**environment, "LLMEVAL_DECISION_MODEL": "opnai/x"})
    assert wrong.returncode == 1
    assert "openai/<model>" in line(wrong, "BROKEN opnai/x ")


def test_calibrations_are_shown_with_their_state(llmeval, store):
    """One that fits what answers now, and one that is stale."""
    fitted = calibrations.FittedCalibration(
        Calibration(slope=0.5, shift=0.1, labels=200), "1", "luna-1", 10**18, 0.61, 0.52
    )
    calibrations.write(
        state_path(store.path),
        {"polite": fitted, "kind": replace(fitted, model="luna-0")},
    )
    span = store.span("01" * 8)
    for name in ("polite", "kind"):
        store.evaluation(
            span, name, "yes", evaluator_kind="decision", probability=0.8,
            metadata={"model": "luna-1"},
        )  # fmt: skip
    done = llmeval("doctor", "--all", "--offline", LLMEVAL_STORE=str(store.path))
    assert (
        "fitted 2001-09-09 to 200 labels, luna-1 as v1; held-out log loss 0.610 to 0.520"
        in line(done, " polite ")
    )
    assert "STALE" in line(done, "STALE: the calibration of kind")


@pytest.mark.plugin("instrument")
def test_clients_say_whether_they_are_instrumented(llmeval):
    """The one that the environment names, those that an app may name, and what is not installed."""
    pytest.importorskip("openinference.instrumentation.openai")
    done = llmeval("doctor", "--all", LLMEVAL_INSTRUMENT="openai,groq")
    assert done.returncode == 1
    assert line(done, " openai LLMEVAL_INSTRUMENT names it (openai ").startswith("ok ")
    groq = line(done, " groq instrumenting ")
    assert groq.startswith("BROKEN ")
    assert "openinference-instrumentation-groq" in groq
    assert line(llmeval("doctor", "--all"), 'app has instrument("openai")').startswith(
        "note openai "
    )


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"LLMEVAL_EXPORTERS": "langfuse"}, "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"),
        (
            {"LLMEVAL_EXPORTERS": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://h"},
            "nothing is sent to it: OTEL_EXPORTER_OTLP_ENDPOINT cannot be read",
        ),
    ],
)
@pytest.mark.plugin("langfuse")
def test_an_exporter_that_cannot_be_made_is_broken(llmeval, environment, words):
    """Its keys, packages and address are looked at before the app has to do without it."""
    done = llmeval("doctor", "--all", **environment)
    assert done.returncode == 1
    assert words in " ".join(done.stdout.split())


@pytest.mark.plugin("langfuse")
def test_langfuse_is_active_once_it_has_its_keys(llmeval):
    """And they are not shown."""
    keys = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": KEY}
    done = llmeval("doctor", "--all", LLMEVAL_EXPORTERS="langfuse", **keys)
    assert line(done, " langfuse active").startswith("ok langfuse active; takes our spans")
    assert KEY not in done.stdout
