"""Messages about alarms: told once, kept while nobody takes them, and never lost silently."""

import argparse
import json
import time
from contextlib import closing

import pytest

from llmeval_sdk.config import Secret
from llmeval_sdk.plugins.watch.command import _Rounds
from llmeval_sdk.plugins.watch.delivery import AlertMessage, Webhook
from llmeval_sdk.plugins.watch.settings import WatchSettings
from llmeval_sdk.plugins.watch.state import WatchStateText


ALERT = ("--alert", "groundedness<0.9")
DAY = 86_400_000_000_000


def test_an_alarm_that_is_found_late_is_told(traffic, watch, hook):
    """It was raised eighteen days ago by the times of its records, and is heard of only now."""
    traffic.hours(480, 430, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url}
    hook.answers = [404]
    assert watch(*ALERT, **env).returncode == 1
    assert hook.taken == []
    assert watch(*ALERT, **env).returncode == 1
    assert [message["kind"] for message in hook.taken] == ["raised"]


def test_what_is_given_up_is_said(traffic, watch, hook, remembered):
    """After seven days of trying: on standard error with its text, in JSON, and no more then."""
    traffic.hours(40, 1, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url}
    hook.answers = [404]
    watch(*ALERT, **env)
    with remembered() as plain:
        plain["outbox"][0]["put_ns"] -= 8 * DAY
    done = watch(*ALERT, "--json", **env)
    assert "could not be told for seven days, and is given up: ALARM" in done.stderr
    assert [message["kind"] for message in json.loads(done.stdout)["expired"]] == ["raised"]
    assert watch(*ALERT, **env).stderr == ""
    assert hook.taken == []


def test_json_tells_apart_what_was_told_and_what_was_not(traffic, watch, hook):
    """A message that the far end refused stands under `untold`, with the reason."""
    traffic.hours(40, 1, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url}
    hook.answers = [404]
    found = json.loads(watch(*ALERT, "--json", **env).stdout)
    assert found["told"] == []
    (untold,) = found["untold"]
    assert (untold["kind"], untold["why"]) == ("raised", "http_404")
    found = json.loads(watch(*ALERT, "--json", **env).stdout)
    assert [message["kind"] for message in found["told"]] == ["raised"]
    assert found["untold"] == []


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ({"LLMEVAL_ALERT_WEBHOOK": "http://[::1/hook"}, "is not the address of an HTTP server"),
        ({"LLMEVAL_ALERT_WEBHOOK": "http://h:99999/hook"}, "is not the address of an HTTP server"),
        ({"LLMEVAL_ALERT_WEBHOOK": "http://a..b/hook"}, "is not the address of an HTTP server"),
        ({"LLMEVAL_ALERT_WEBHOOK": "http://h/größe"}, "is not the address of an HTTP server"),
        ({"LLMEVAL_ALERT_TOKEN": "tökeñ"}, "LLMEVAL_ALERT_TOKEN cannot be sent in a header"),
        ({"LLMEVAL_ALERT_TOKEN": "a\nb"}, "LLMEVAL_ALERT_TOKEN cannot be sent in a header"),
    ],
)
def test_a_mistaken_webhook_is_said_and_the_alarm_is_told_once_it_is_put_right(
    traffic, watch, hook, mistake, sentence
):
    """Exit code 2, no traceback, neither address nor token shown; the next look tells the alarm."""
    traffic.hours(40, 1, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url, "LLMEVAL_ALERT_TOKEN": "right"}
    done = watch(*ALERT, **{**env, **mistake})
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(secret in done.stderr for secret in ("hook?", "tökeñ", "größe"))
    assert watch(*ALERT, **env).returncode == 1
    assert len(hook.taken) == 1


class Broken:
    """A far end whose client fails in a way that nobody foresaw."""

    def tell(self, message):
        """Fail."""
        raise RuntimeError


def test_messages_are_given_back_where_telling_fails_in_an_unforeseen_way(tmp_path):
    """The next look may tell them at once, and need not wait until their lease has run out."""
    file = WatchStateText(tmp_path / "llmeval.db")
    now = time.time_ns()
    message = AlertMessage("1", "a<1", "raised", now, "ALARM", {}, taken_ns=now, put_ns=now)
    with closing(file):
        file.change(lambda state: state.outbox.append(message))
        with pytest.raises(RuntimeError):
            _Rounds(argparse.Namespace(), [], file, Broken(), "")._deliver([message])
        assert file.change(lambda state: [each.taken_ns for each in state.outbox]) == [0]


def test_an_evaluator_with_a_foreign_name_can_be_told(traffic, watch, hook):
    """The key of the request stands in a header, which takes ASCII only."""
    traffic.hours(40, 1, 0.5)
    traffic.connection.execute("UPDATE evaluations SET name = 'begründet'")
    traffic.connection.execute("UPDATE not_run SET evaluator = 'begründet'")
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url}
    assert watch("--alert", "begründet<0.9", **env).returncode == 1
    assert [message["alert"] for message in hook.taken] == ["begründet<0.9"]


def test_slack_gets_its_form(hook):
    """A text and nothing else."""
    watching = WatchSettings(alert_webhook=Secret(hook.url))
    Webhook(watching, for_slack=True).tell({"id": "1", "text": "the alarm", "kind": "raised"})
    assert hook.taken == [{"text": "the alarm"}]
