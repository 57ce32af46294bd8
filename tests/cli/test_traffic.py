"""``llmeval report --by …`` says what the app's own traffic costs, how slow and how faulty it is."""

import json
import random
import re
import sqlite3
import statistics
import time

import pytest

from llmeval_sdk.model import JUDGE_TAG, Failure, Usage
from llmeval_sdk.store.losses import Process


SECOND = 1_000_000_000
START = time.time_ns() - 5 * 3_600 * SECOND


@pytest.fixture
def calls(store):
    with store.at_once():
        return fill(store)


def fill(store):
    """Three hundred requests of two releases and four users, each with a call of a model."""
    rng = random.Random(3)
    begun = time.time_ns() - 3_600 * SECOND
    known = []
    for number in range(300):
        trace, root, call = f"{number + 1:032x}", f"{2 * number + 1:016x}", f"{2 * number + 2:016x}"
        took = int(rng.lognormvariate(20, 0.6))
        failure = Failure("TimeoutError", "") if number % 50 == 7 else None
        model = ("gpt-4o", "own-7b")[number % 2]
        tokens, answer = rng.randrange(100, 900), rng.randrange(10, 90)
        tags = {"release": ("1.4", "1.5")[number % 3 == 0], "user_id": f"user-{number % 4}"}
        start = begun + number * SECOND
        store.span(
            root, "answer", start_ns=start, end_ns=start + took, trace_id=trace, error=failure,
            tags=tags, session_id=f"chat-{number // 10}",
        )  # fmt: skip
        store.span(
            call, "chat", kind="llm", trace_id=trace, parent_id=root, start_ns=start,
            end_ns=start + took // 2, model_name=model, session_id=f"chat-{number // 10}",
            usage=Usage(tokens, answer, tokens + answer, 0.01 if model == "gpt-4o" else None),
            metrics={
                "cache_read_input_tokens": tokens // 2, "reasoning_output_tokens": 3,
                "time_to_first_token": took / 8e9,
            },
        )  # fmt: skip
        known.append({"took": took, "failed": failure is not None, "model": model, **tags})
        known[-1] |= {"tokens": tokens, "answer": answer}
    return known


def groups(run, *options):
    """Return the groups of a report by their key, and all else of it."""
    done = run("report", "--json", *options)
    told = json.loads(done.stdout)
    return {group["key"]: group for group in told["traffic"]["groups"]}, told


def quantile(values, place):
    """Return a percentile as `statistics` interpolates it, in seconds."""
    return statistics.quantiles(values, n=100, method="inclusive")[place - 1] / 1e9


def test_a_model_has_exact_latencies_tokens_and_money(llmeval, store, calls):
    """Each percentile is that of all calls; tokens of a cache and of reasoning stand apart."""
    found, _ = groups(llmeval, "--store", store.path, "--by", "model")
    mine = [call for call in calls if call["model"] == "gpt-4o"]
    group = found["gpt-4o"]
    for name, place in (("p50", 50), ("p95", 95), ("p99", 99)):
        took = [call["took"] // 2 for call in mine]
        assert group["latency_seconds"][name] == pytest.approx(quantile(took, place), rel=1e-12)
    assert group["count"] == group["calls"] == 150
    assert group["input_tokens"] == sum(call["tokens"] for call in mine)
    assert group["output_tokens"] == sum(call["answer"] for call in mine)
    assert group["cache_read_input_tokens"] == sum(call["tokens"] // 2 for call in mine)
    assert group["reasoning_output_tokens"] == 450
    assert group["cost_usd"] == pytest.approx(1.5)
    assert group["time_to_first_token_seconds"]["p50"] == pytest.approx(
        statistics.median(call["took"] / 8e9 for call in mine)
    )
    speeds = [call["answer"] / (call["took"] // 2 / 1e9 - call["took"] / 8e9) for call in mine]
    assert group["tokens_per_second"]["p50"] == pytest.approx(statistics.median(speeds), abs=0.01)


@pytest.mark.parametrize(
    ("by", "tag"), [("user", "user_id"), ("tag:release", "release"), ("session", None)]
)
def test_requests_have_the_money_of_their_calls(llmeval, store, calls, by, tag):
    """A user, tag or session stands on the request, and the model calls below it count for it."""
    found, _ = groups(llmeval, "--store", store.path, "--by", by)
    for key, group in found.items():
        mine = [
            call
            for number, call in enumerate(calls)
            if (call[tag] if tag else f"chat-{number // 10}") == key
        ]
        assert (group["unit"], group["count"], group["calls"]) == ("request", len(mine), len(mine))
        assert group["input_tokens"] == sum(call["tokens"] for call in mine)
        assert group["failed"] == sum(call["failed"] for call in mine)
        paid = sum(call["model"] == "gpt-4o" for call in mine)
        assert (group["cost_usd"] or 0.0) == pytest.approx(0.01 * paid)
        assert group["latency_seconds"]["p95"] == pytest.approx(
            quantile([call["took"] for call in mine], 95)
        )
    assert sum(group["count"] for group in found.values()) == 300


def test_failures_are_counted_by_their_type(llmeval, store, calls):
    """The rate is over all spans of the name, and each type has its number."""
    found, _ = groups(llmeval, "--store", store.path)
    assert found["answer"]["error_types"] == {"TimeoutError": 6}
    assert found["answer"]["error_rate"] == pytest.approx(6 / 300)
    assert found["chat"]["error_types"] == {}


def test_a_model_without_a_price_is_said_and_can_get_one(llmeval, store, calls):
    """Its calls are in no sum of money until `--prices` or the environment names their price."""
    where = ("--store", store.path, "--by", "model")
    found, told = groups(llmeval, *where)
    assert found["own-7b"]["cost_usd"] is None
    assert found["own-7b"]["unpriced_calls"] == 150
    assert told["traffic"]["unpriced_models"] == {"own-7b": 150}
    assert "No price is known for own-7b (150 calls)" in llmeval("report", *where).stdout
    mine = [call for call in calls if call["model"] == "own-7b"]
    cached = sum(call["tokens"] // 2 for call in mine)
    tokens, answers = (sum(call[name] for call in mine) for name in ("tokens", "answer"))
    expected = ((tokens - cached) * 2 + cached * 0.5 + answers * 8) / 1e6
    priced, _ = groups(llmeval, *where, "--prices", "own-7b=2,8,0.5")
    assert priced["own-7b"]["cost_usd"] == pytest.approx(expected)
    assert priced["gpt-4o"]["cost_usd"] == pytest.approx(1.5)
    done = llmeval("report", *where, "--json", LLMEVAL_PRICES="own-7b=2,8,0.5")
    assert expected in [
        pytest.approx(group["cost_usd"]) for group in json.loads(done.stdout)["traffic"]["groups"]
    ]
    by_user, _ = groups(llmeval, *where[:2], "--by", "user", "--prices", "own-7b=2,8,0.5")
    assert sum(group["cost_usd"] for group in by_user.values()) == pytest.approx(1.5 + expected)


def test_prices_of_the_command_replace_what_was_stored(llmeval, store, calls):
    """What another price would have cost is the question that `--prices` answers."""
    options = ("--store", store.path, "--prices", "gpt-4o=1,1,1")
    mine = [call for call in calls if call["model"] == "gpt-4o"]
    expected = sum(call["tokens"] + call["answer"] for call in mine) / 1e6
    for by in ("model", "request"):
        found, _ = groups(llmeval, *options, "--by", by)
        assert found["gpt-4o" if by == "model" else "answer"]["cost_usd"] == pytest.approx(expected)


def test_what_judges_cost_is_no_traffic_of_the_app(llmeval, store, calls):
    """The model calls of judges are spans too; the report on judges has them."""
    store.span(
        "f" * 16, "groundedness", trace_id="f" * 32, tags={JUDGE_TAG: "groundedness"},
        kind="llm", model_name="judge-model", usage=Usage(9, 9, 18, 4.0),
    )  # fmt: skip
    for by in ("name", "model", "user"):
        found, told = groups(llmeval, "--store", store.path, "--by", by)
        assert told["traffic"]["total"]["cost_usd"] == pytest.approx(1.5)
        assert not {"groundedness", "judge-model", None} & found.keys()


def test_a_tiny_cost_does_not_read_as_nothing(llmeval, store):
    """Less than a hundredth of a cent is written with its digits."""
    store.span("1" * 16, "chat", kind="llm", usage=Usage(9, 9, 18, 0.000017), model_name="m")
    shown = llmeval("report", "--store", store.path, "--by", "model").stdout
    assert "$1.7e-05" in shown
    assert "$0.0000" not in shown


def test_ten_thousand_values_of_a_tag_are_bounded(llmeval, store):
    """A thousand groups are told, the rest is added up in one, and nothing is missing."""
    with store.at_once():
        for number in range(1, 3_001):
            store.span(f"{number:016x}", trace_id=f"{number:032x}", tags={"id": str(number)})
    found, told = groups(llmeval, "--store", store.path, "--by", "tag:id")
    assert len(found) == 1_001
    assert found["(others)"]["count"] == 2_000 == told["traffic"]["left_out"]
    assert (
        "2,950 further groups" in llmeval("report", "--store", store.path, "--by", "tag:id").stdout
    )


def test_a_clock_that_jumps_is_counted_and_in_no_latency(llmeval, store):
    """A span that ends before it begins has no duration; one of tomorrow is named."""
    now = time.time_ns()
    store.span("1" * 16, trace_id="1" * 32, start_ns=now, end_ns=now - 5 * SECOND)
    store.span("2" * 16, trace_id="2" * 32, start_ns=now, end_ns=now + SECOND)
    store.span("3" * 16, trace_id="3" * 32, start_ns=now + 10**14, end_ns=now + 10**14 + SECOND)
    found, told = groups(llmeval, "--store", store.path, "--by", "request")
    assert found["extract_field"]["clock_jumps"] == 1
    assert found["extract_field"]["latency_seconds"]["p50"] == 1.0
    assert told["from_the_future"] == 1
    text = llmeval("report", "--store", store.path, "--by", "request").stdout
    assert "no latency; there is 1." in text
    assert "began in the future, by their clock: 1." in text


def test_columns_with_foreign_types_are_survived(llmeval, store, calls):
    """A file in which somebody wrote texts for numbers is summed up without a crash."""
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE spans SET tags = '{', input_tokens = 'x' WHERE seq % 7 = 0")
        connection.execute("UPDATE spans SET total_tokens = 9e18, output_tokens = 9e18")
    for by in ("name", "model", "user", "tag:release"):
        assert llmeval("report", "--store", store.path, "--by", by).returncode == 0


@pytest.mark.parametrize(
    ("alert", "code", "said"),
    [
        ("latency_seconds.p95>0.001", 1, "ALERT"),
        ("latency_seconds.p95>1000", 0, "no alert"),
        ("error_rate>0.01", 1, "it is 0.02"),
        ("error_rate>0.05", 0, "no alert"),
        ("cost_usd.per_day>0.1", 1, "ALERT"),
        ("cost_usd.per_day>2000", 2, "150 calls of unknown price (own-7b)"),
        ("time_to_first_token_seconds.p50<0.001", 0, "no alert"),
    ],
)
def test_plain_alerts_compare_the_window_with_the_bound(llmeval, store, calls, alert, code, said):
    """They are decided by what was measured since `--since`, and say which time that was."""
    for by in ((), ("--by", "model")):
        done = llmeval("report", "--store", store.path, "--since", "2h", "--alert", alert, *by)
        assert done.returncode == code, done.stdout + done.stderr
        assert said in done.stdout
        assert "300 requests" in done.stdout


@pytest.mark.parametrize(("alert", "code"), [("thumbs<0.9", 1), ("thumbs<0.5", 0)])
def test_what_users_say_can_raise_an_alert(llmeval, store, calls, alert, code):
    """The mean of their thumbs is compared, and the share of the traffic that gave any is said."""
    for number in range(30):
        store.feedback(number + 1, "thumbs", number % 5 != 0)
    done = llmeval("report", "--store", store.path, "--since", "2h", "--alert", alert)
    assert done.returncode == code, done.stdout
    assert "it is 0.8" in done.stdout
    assert "feedback on 30 traces, 10.0% of all" in done.stdout


def test_stars_words_and_corrections_are_in_the_report(llmeval, store, calls):
    """Numbers have a mean on their own scale, words are counted, and nothing is left out."""
    for number in range(12):
        store.feedback(number + 1, "stars", 1 + number % 5)
        store.feedback(number + 1, "tone", "polite" if number % 3 else "rude")
        store.feedback(number + 1, "correct_answer", f"It is {number}.\x1b[31m")
    where = ("report", "--store", store.path, "--since", "2h")
    done = llmeval(*where, "--alert", "stars<3.5", "--alert", "tone<0.5")
    shown = " ".join(done.stdout.split())
    assert "stars: feedback on 12 traces, 4.0% of all: mean 2.75 (from 1 to 5)." in shown
    assert 'tone: feedback on 12 traces, 4.0% of all: "polite" 8, "rude" 4.' in shown
    assert "correct_answer: feedback on 12 traces, 4.0% of all: " in shown
    assert ", 7 others." in shown
    assert "\x1b" not in done.stdout
    assert "stars<3.5: ALERT, it is 2.75" in shown
    assert "tone<0.5: cannot be decided" in shown
    assert "in words, which have no mean" in shown
    by_name = {
        said["name"]: said for said in json.loads(llmeval(*where, "--json").stdout)["feedback"]
    }
    assert by_name["stars"]["mean"] == pytest.approx(2.75)
    assert (by_name["tone"]["mean"], by_name["tone"]["words"]) == (None, {"polite": 8, "rude": 4})
    assert by_name["correct_answer"]["other_words"] == 7


def test_feedback_is_in_the_report_of_a_store_without_judges(llmeval, store):
    """What users say needs nobody else's verdict."""
    store.span(f"{1:016x}", trace_id=f"{1:032x}")
    store.feedback(1, "stars", 4)
    assert "stars: feedback on 1 trace, 100.0% of all: mean 4.00" in " ".join(
        llmeval("report", "--store", store.path).stdout.split()
    )


def test_feedback_on_unknown_traces_is_told_apart(llmeval, store, calls):
    """It may be about a pruned trace, or a wrong id: it is no part of the share, and counted."""
    for number in (1, 2, 9_001):
        store.feedback(number, "thumbs", True)
    run = ("report", "--store", store.path, "--since", "2h", "--alert", "thumbs<0.9")
    assert "feedback on 3 traces (1 not in this store), 0.7% of all" in llmeval(*run).stdout
    (said,) = json.loads(llmeval(*run, "--json").stdout)["feedback"]
    assert (said["count"], said["unmatched"]) == (3, 1)
    assert said["share"] == pytest.approx(2 / 300)


@pytest.mark.parametrize("alert", ["latency_seconds.p42>2", "cost_usd.per_week>20"])
@pytest.mark.plugin("watch")
def test_a_figure_that_is_not_measured_is_refused(llmeval, store, calls, alert):
    """With the one that was probably meant; it could never be decided."""
    for command in (("report",), ("watch", "--once")):
        done = llmeval(*command, "--store", store.path, "--alert", alert)
        assert done.returncode == 2
        assert "is not measured: did you mean" in done.stderr


def test_no_feedback_is_no_good_feedback(llmeval, store, calls):
    """An alert on thumbs that nobody gave cannot be decided."""
    done = llmeval("report", "--store", store.path, "--since", "2h", "--alert", "thumbs<0.9")
    assert (done.returncode, "nobody gave such feedback" in done.stdout) == (2, True)


def test_an_alert_on_nothing_cannot_be_decided(llmeval, store):
    """No traffic is no good latency."""
    store.span("1" * 16)
    done = llmeval(
        "report", "--store", store.path, "--since", "1h", "--alert", "latency_seconds.p95>2"
    )
    assert done.returncode == 2
    assert "nothing was measured" in done.stdout


@pytest.mark.parametrize("word", ["colour", "tag:", "models"])
def test_an_unknown_grouping_is_refused_with_those_there_are(llmeval, store, word):
    """The message names what `--by` takes."""
    done = llmeval("report", "--store", store.path, "--by", word)
    assert done.returncode == 2
    assert "name, request, model, user, session, tag:KEY" in done.stderr


def test_requests_of_a_session_and_of_a_user_are_listed(llmeval, store, calls):
    """`llmeval traces` takes either, or both."""

    def listed(*options):
        done = llmeval("traces", "--store", store.path, "--json", "--limit", "500", *options)
        return {row["span_id"] for row in json.loads(done.stdout)}

    session = {f"{2 * number + 1:016x}" for number in range(10)}
    user = {f"{2 * number + 1:016x}" for number in range(0, 300, 4)}
    assert listed("--session", "chat-0") == session
    assert listed("--user", "user-0") == user
    assert listed("--session", "chat-0", "--user", "user-0") == session & user
    assert llmeval("traces", "--store", store.path, "--user", "nobody").returncode == 1


def test_a_call_that_does_not_say_what_it_used_leaves_a_bound_of_cost_undecided(store, llmeval):
    """A stream without usage may have cost anything; one that failed cost nothing."""
    now = time.time_ns()
    store.span(f"{1:016x}", "answer", start_ns=now - SECOND, end_ns=now)
    store.span(
        f"{2:016x}", "chat", kind="llm", start_ns=now - SECOND, end_ns=now, model_name="gpt-4o"
    )
    done = llmeval("report", "--store", store.path, "--alert", "cost_usd.total>20")
    assert done.returncode == 2, done.stdout
    assert "1 call of unknown usage (gpt-4o)" in " ".join(done.stdout.split())


@pytest.mark.parametrize("by", ["name", "model", "request", "user"])
@pytest.mark.parametrize("prices", [(), ("--prices", "gpt-4o=1,2")], ids=["known", "named"])
def test_a_call_that_does_not_say_what_it_used_is_not_called_unpriced(store, llmeval, by, prices):
    """Its model has a price, so that naming one again would help nobody; its cost is unknown."""
    now = time.time_ns()
    ended = {"start_ns": now - SECOND, "end_ns": now}
    store.span(f"{1:016x}", "answer", **ended)
    for number in (2, 3):
        store.span(f"{number:016x}", "chat", kind="llm", model_name="gpt-4o", **ended)
    used = Usage(10, 5, 15)
    store.span(f"{4:016x}", "chat", kind="llm", model_name="own-7b", usage=used, **ended)
    where = ("report", "--store", store.path, "--by", by, *prices)
    shown = " ".join(llmeval(*where).stdout.split())
    assert "No price is known for own-7b (1 call):" in shown
    assert "No usage is known for gpt-4o (2 calls):" in shown
    assert "In all: 3 model calls with 10 tokens in, 5 out; usage unknown of 2 calls; cost" in shown
    assert "$0.0000" not in shown
    traffic = json.loads(llmeval(*where, "--json").stdout)["traffic"]
    assert (traffic["unpriced_models"], traffic["silent_models"]) == ({"own-7b": 1}, {"gpt-4o": 2})
    assert sum(group["unpriced_calls"] for group in traffic["groups"]) == 3


def test_a_window_without_requests_decides_nothing(store, llmeval):
    """A dead exporter is no app that costs nothing: the alarm of before is not over."""
    now = time.time_ns()
    store.span(f"{1:016x}", "answer", start_ns=now - 3_600 * SECOND)
    where = ("report", "--store", store.path, "--since", "1m")
    assert llmeval(*where, "--alert", "cost_usd.per_request>1").returncode == 2


def test_tags_in_any_script_are_found(store, llmeval):
    """As the store writes them."""
    now = time.time_ns()
    tags = {"équipe": "bleue"}
    store.span(f"{1:016x}", "answer", start_ns=now - SECOND, tags=tags)
    found, _ = groups(llmeval, "--store", store.path, "--by", "tag:équipe")
    assert list(found) == ["bleue"]


@pytest.mark.parametrize("key", ["release", 'say "when"', "back\\slash", "it's", "straße", "a.b"])
def test_a_tag_with_any_name_groups(llmeval, store, key):
    """Quotes and backslashes in the name of a tag are part of the name."""
    for number in range(1, 4):
        tags = {key: "v7"} if number < 3 else {"other": "v7"}
        store.span(f"{number:016x}", trace_id=f"{number:032x}", tags=tags)
    found, _ = groups(llmeval, "--store", store.path, "--by", f"tag:{key}")
    assert {name: group["count"] for name, group in found.items()} == {"v7": 2, None: 1}


def fill_requests(store, count, **more):
    """Requests of a tenth to some seconds, each with a call of a cent, hours ago."""
    with store.at_once():
        for number in range(count):
            trace, root = f"{number + 1:032x}", f"{2 * number + 1:016x}"
            store.span(
                root, "answer", trace_id=trace, start_ns=START, **more,
                end_ns=START + (number + 10) * SECOND // 100,
            )  # fmt: skip
            store.span(
                f"{2 * number + 2:016x}", "chat", kind="llm", trace_id=trace, parent_id=root,
                start_ns=START, end_ns=START + SECOND, model_name="gpt-4o",
                usage=Usage(90, 10, 100, 0.01), **more,
            )  # fmt: skip


def lose(store, records, traces=0):
    lost = {"local": {"queue_full": records}, **({"traces": {"local": traces}} if traces else {})}
    store.writer.note_losses(Process(START, 1), lost, START)


def test_figures_over_a_window_with_losses_say_so(llmeval, store):
    """Totals are at least what is stored, and no interval stands where it cannot be right."""
    fill_requests(store, 400)
    whole = llmeval("report", "--store", store.path, "--by", "name").stdout
    assert "stored" not in whole
    assert re.search(r"s \[\d", whole), whole
    lose(store, 31_656, 100)
    told = llmeval("report", "--store", store.path, "--by", "name")
    text = " ".join(told.stdout.split())
    assert "80% of 500 traces stored, 31,656 records lost (queue_full 31,656): totals are" in text
    assert re.search(r"chat ≥ 400 .* ≥ 36,000 ≥ 4,000 ≥ \$4\.0000", text), text
    assert not re.search(r"s \[\d", text)
    plain = json.loads(llmeval("report", "--store", store.path, "--json").stdout)["traffic"]
    assert plain["completeness"]["share"] == 0.8
    assert plain["completeness"]["is_weighted"] is False
    assert plain["groups"][0]["latency_seconds"]["p95_interval"] is None
    later = llmeval("report", "--store", store.path, "--by", "name", "--since", "1h").stdout
    assert "stored" not in later


def test_losses_that_were_not_counted_by_traces_have_no_share(llmeval, store):
    """Of an earlier release, the records are told."""
    fill_requests(store, 40)
    lose(store, 7)
    text = " ".join(llmeval("report", "--store", store.path, "--by", "name").stdout.split())
    assert "7 records lost (queue_full 7): totals are at least these" in text


def test_figures_are_weighted_where_the_chances_account_for_what_is_lost(llmeval, store):
    """A trace that stayed by one in four counts as four, with the interval of what it costs."""
    fill_requests(store, 400, inclusion_probability=0.25)
    lose(store, 2_400, 1_200)
    told = llmeval("report", "--store", store.path, "--by", "name")
    text = " ".join(told.stdout.split())
    assert "25% of 1,600 traces stored" in text
    assert "figures are weighted" in text
    assert "answer ≈ 1,600" in text
    assert "cost ≈ $16.0000" in text
    assert "95 % interval of the cost: $14." in text
