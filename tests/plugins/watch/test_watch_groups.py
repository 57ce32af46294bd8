"""``llmeval watch --by``: each group has alerts of its own, under one promise for all of them."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from llmeval_sdk.store.alerts import read_bound


ALERT = ("--alert", "groundedness<0.9")
BY = (*ALERT, "--by", "tag:tenant")


def tenants(traffic, first, last, **bad):
    """Fill hours with the traffic of tenants, of which so much is bad."""
    for tenant, share in bad.items():
        traffic.hours(first, last, share, per_hour=10, tags={"tenant": tenant})


def standings(done):
    assert done.stderr == ""
    return {one["group"]: one for one in json.loads(done.stdout)["alerts"]}


@pytest.fixture
def remembered_groups(traffic):
    """Return the names of the alerts in the file of state."""

    def read():
        with closing(sqlite3.connect(traffic.path.with_suffix(".state"))) as file:
            (text,) = file.execute("SELECT text FROM texts WHERE name = 'alerts'").fetchone()
        return sorted(json.loads(text)["alerts"])

    return read


def test_the_tenant_that_fell_is_named(traffic, watch, hook):
    """Its alarm has its own mean and examples; that of all others stays calm."""
    tenants(traffic, 90, 50, acme=0.04, globex=0.04, initech=0.04)
    tenants(traffic, 50, 1, acme=0.04, globex=0.5, initech=0.04)
    done = watch(*BY, "--json", LLMEVAL_ALERT_WEBHOOK=hook.url)
    found = standings(done)
    assert done.returncode == 1
    assert {name: one["state"] for name, one in found.items()} == {
        "tag:tenant=acme": "calm", "tag:tenant=globex": "alarm", "tag:tenant=initech": "calm",
    }  # fmt: skip
    (told,) = hook.taken
    assert told["alert"] == "groundedness<0.9 of tag:tenant=globex"
    assert told["group"] == {"tag:tenant": "globex"}
    assert told["low"] <= 0.5 <= told["high"]
    assert told["mean"] == pytest.approx(found["tag:tenant=globex"]["mean"])
    of_globex = {
        trace
        for (trace,) in traffic.connection.execute(
            "SELECT trace_id FROM spans WHERE json_extract(tags, '$.tenant') = 'globex'"
        )
    }
    assert len(told["worst"]) == 5
    assert {one["trace_id"] for one in told["worst"]} <= of_globex
    assert watch(*BY, LLMEVAL_ALERT_WEBHOOK=hook.url).returncode == 1
    assert len(hook.taken) == 1


def test_all_further_groups_share_an_alert(traffic, watch):
    """A tenant without a place of its own is not unwatched."""
    tenants(traffic, 60, 1, large=0.02)
    tenants(traffic, 60, 1, large=0.02)
    tenants(traffic, 60, 1, small=0.5, tiny=0.5)
    found = standings(watch(*BY, "--groups", "1", "--json"))
    assert {name: one["state"] for name, one in found.items()} == {
        "tag:tenant=large": "calm", "tag:tenant=(others)": "alarm",
    }  # fmt: skip
    assert 0.4 < found["tag:tenant=(others)"]["mean"] < 0.6


def test_a_group_counts_what_its_own_filter_counts(traffic, watch):
    """The evidence of a group is that of a bound with the filter, but for the number of alerts."""
    tenants(traffic, 60, 1, acme=0.12, globex=0.02)
    by_group = standings(watch(*BY, "--groups", "4", "--json"))["tag:tenant=acme"]
    bound = "groundedness<0.9 where tag:tenant=acme"
    (alone,) = json.loads(watch("--alert", bound, "--json").stdout)["alerts"]
    assert alone["alert"] == bound
    assert alone["judged"] == by_group["judged"]
    assert alone["mean"] == pytest.approx(by_group["mean"])
    assert alone["evidence"] == pytest.approx(by_group["evidence"] * 5)


def test_the_filter_of_the_command_is_that_of_all_its_bounds(traffic, watch):
    """As in every other command."""
    tenants(traffic, 60, 1, acme=0.12, globex=0.02)
    done = watch(*ALERT, "--where", "tag:tenant=globex", "--json")
    (alone,) = json.loads(done.stdout)["alerts"]
    assert alone["alert"] == "groundedness<0.9 where tag:tenant=globex"
    assert alone["mean"] > 0.95


def test_looks_may_come_at_any_time(traffic, watch):
    """Looking after each part of the traffic counts the same as looking once."""
    tenants(traffic, 60, 30, acme=0.1, globex=0.1)
    watch(*BY)
    tenants(traffic, 30, 10, acme=0.1, globex=0.1)
    tenants(traffic, 58, 40, globex=0.1)  # late, as from a spool
    watch(*BY)
    tenants(traffic, 10, 1, acme=0.1, globex=0.1, newcomer=0.1)
    found = standings(watch(*BY, "--json"))
    (rows,) = zip(*traffic.connection.execute("SELECT count(*) FROM evaluations"), strict=True)
    assert sum(one["judged"] for one in found.values()) == rows[0]
    assert "tag:tenant=newcomer" in found


def test_one_group_can_be_silenced(traffic, watch):
    """The others still raise the exit code; a name that no alert has is refused."""
    tenants(traffic, 60, 1, acme=0.5, globex=0.5)
    assert watch(*BY).returncode == 1
    found = standings(watch(*BY, "--silence", "1h", "--group", "acme", "--json"))
    assert [one["state"] for one in found.values()] == ["silenced", "alarm"]
    assert watch(*BY, "--resolve", "--group", "globex").returncode == 0
    refused = watch(*BY, "--silence", "1h", "--group", "acmee")
    assert refused.returncode == 2
    assert "'acme'" in refused.stderr


def test_a_group_that_left_makes_way(traffic, watch, remembered_groups):
    """After 30 days without requests its alarm is over, and another group gets its place."""
    tenants(traffic, 1_000, 960, gone=0.5)
    watch(*BY, "--groups", "1", "--since", "60d")
    tenants(traffic, 200, 150, here=0.02)
    watch(*BY, "--groups", "1", "--since", "60d")
    tenants(traffic, 100, 1, here=0.02)
    done = watch(*BY, "--groups", "1", "--json")
    assert "groundedness<0.9 of tag:tenant=here" in remembered_groups()
    assert "groundedness<0.9 of tag:tenant=gone" not in remembered_groups()
    assert done.returncode == 0


def test_two_groupings_at_once(traffic, watch):
    """The names of both stand in the alert."""
    traffic.hours(40, 1, 0.5, per_hour=10, tags={"tenant": "acme", "release": "2"})
    traffic.hours(40, 1, 0.02, per_hour=10, tags={"tenant": "acme", "release": "1"})
    found = standings(watch(*BY, "--by", "tag:release", "--json"))
    assert found["tag:tenant=acme, tag:release=2"]["state"] == "alarm"
    assert found["tag:tenant=acme, tag:release=1"]["state"] == "calm"


def test_a_small_group_without_verdicts_breaks_nothing(traffic, watch):
    """It is undecided and waits, which is no reason for the exit code 2."""
    tenants(traffic, 40, 1, acme=0.02)
    traffic.hours(3, 1, 0.0, per_hour=2, chance=0.0, tags={"tenant": "small"})
    done = watch(*BY, "--json")
    assert standings(done)["tag:tenant=small"]["waiting"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    "bound", ["groundedness<0.9", "latency_seconds.p95>2"], ids=["scores", "traffic"]
)
def test_that_there_is_no_group_is_no_good_news(traffic, watch, bound):
    """Nothing was watched, so the look does not pass for a calm one."""
    done = watch("--alert", bound, "--by", "tag:tenant", "--json")
    (alert,) = json.loads(done.stdout)["alerts"]
    assert (alert["state"], alert["waiting"]) == ("undecided", False)
    assert "there is no group" in alert["detail"]
    assert done.returncode == 2


@pytest.mark.parametrize("lost", [{"lost": 1.0}, {"chance": 0.0}], ids=["failed", "never asked"])
def test_a_judge_that_gives_no_group_a_verdict_is_told(traffic, watch, lost):
    """A small group may wait for its first verdict, but not all groups at once."""
    for tenant in ("acme", "globex"):
        traffic.hours(40, 1, 0.0, per_hour=10, tags={"tenant": tenant}, **lost)
    done = watch(*BY, "--json")
    assert not any(one["waiting"] for one in standings(done).values())
    assert done.returncode == 2


def test_a_judge_that_fails_for_one_group_is_told(traffic, watch):
    """Its judgements were lost, which is no lack of traffic."""
    tenants(traffic, 40, 1, acme=0.02)
    traffic.hours(40, 1, 0.0, per_hour=10, lost=1.0, tags={"tenant": "globex"})
    done = watch(*BY, "--json")
    assert "judgements were lost" in standings(done)["tag:tenant=globex"]["detail"]
    assert done.returncode == 2


def test_names_of_groups_are_strangers_texts(traffic, watch, hook):
    """They reach neither the terminal nor a header as they are, and are bounded."""
    name = "x\r\nevil: 1\x1b[31m" + "y" * 500
    traffic.hours(40, 1, 0.6, per_hour=10, tags={"tenant": name})
    done = watch(*BY, LLMEVAL_ALERT_WEBHOOK=hook.url)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert hook.taken[0]["kind"] == "raised"
    assert "evil" not in hook.headers[0]
    assert len(hook.taken[0]["alert"]) < 300


def test_the_traffic_of_each_group_is_compared(traffic, watch):
    """Plain bounds too: one tenant is slow, its alarm is told once, and over once."""
    now = time.time_ns()

    def request(number, tenant, seconds):
        start = now - 60_000_000_000
        traffic.insert(
            "spans", trace_id=f"{number:032x}", span_id=f"{number:016x}", name="answer",
            kind="workflow", start_ns=start, end_ns=start + int(seconds * 1e9),
            tags=json.dumps({"tenant": tenant}),
        )  # fmt: skip

    request(1, "acme", 0.1)
    request(2, "globex", 9.0)
    plain = ("--alert", "latency_seconds.p50>2", "--alert", "no_answer>0.5", "--by", "tag:tenant")
    done = watch(*plain, "--json")
    found = {one["alert"]: one for one in json.loads(done.stdout)["alerts"]}
    assert found["latency_seconds.p50>2 of tag:tenant=globex"]["state"] == "alarm"
    assert found["latency_seconds.p50>2 of tag:tenant=acme"]["state"] == "calm"
    (told,) = json.loads(done.stdout)["told"]
    assert told["group"] == {"tag:tenant": "globex"}
    for number in range(3, 8):
        request(number, "globex", 0.1)
    (told,) = json.loads(watch(*plain, "--json").stdout)["told"]
    assert (told["kind"], told["group"]) == ("over", {"tag:tenant": "globex"})


def test_a_state_of_before_goes_on(traffic, watch):
    """What version 1 wrote, without filters and with two sizes of drops, is read."""
    traffic.hours(40, 1, 0.5)
    assert watch(*ALERT).returncode == 1
    with closing(sqlite3.connect(traffic.path.with_suffix(".state"))) as file:
        (text,) = file.execute("SELECT text FROM texts WHERE name = 'alerts'").fetchone()
        plain = json.loads(text)
        plain["version"] = 1
        for alert in plain["alerts"].values():
            del alert["bound"]
            for evidence in (alert["evidence"], alert["recovery"]):
                for name in ("wealth", "gains", "starts"):
                    evidence[name].pop()
        file.execute("UPDATE texts SET text = ? WHERE name = 'alerts'", (json.dumps(plain),))
        file.commit()
    done = watch(*ALERT, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["told"] == []
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--alert", "groundedness<0.9 where tenant=acme"), "tag:tenant"),
        ((*ALERT, "--by", "tenant"), "no grouping"),
        ((*BY, "--groups", "0"), "1 to 200"),
        ((*ALERT, "--group", "acme"), "--group goes with"),
        ((*BY, "--by", "model", "--by", "user"), "at most 2"),
    ],
)
def test_a_mistake_with_groups_is_said(traffic, watch, args, message):
    """Before anything is looked at."""
    done = watch(*args)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_bound_has_as_many_conditions_as_it_needs():
    """Each follows the word "where"."""
    bound = read_bound("groundedness<0.85 where tag:plan=paid, trial where model~gpt-4o")
    assert bound.where == ("tag:plan=paid, trial", "model~gpt-4o")
    assert read_bound(str(bound)) == bound


def test_a_report_takes_its_filter_apart(llmeval, traffic):
    """It has one for all that it says."""
    done = llmeval(
        "report", "--store", traffic.path, "--alert", "groundedness<0.9 where tag:tenant=acme"
    )
    assert done.returncode == 2
    assert "--where" in done.stderr
