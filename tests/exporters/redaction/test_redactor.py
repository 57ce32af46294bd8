"""The redactor over plain values: every text, and closed when the app's function fails."""

import os
import threading

import pytest

from llmeval_sdk.exporters.redaction import FAILED, Redactor
from llmeval_sdk.process.threads import MAX_ABANDONED


KEY = "sk-" + "abcdefghij0123456789xyz"


def test_every_text_of_a_value_is_seen_by_the_apps_function_once():
    """Nested texts too; keys of mappings, numbers and empty texts are not."""
    seen = []

    def custom(text):
        seen.append(text)
        return text.upper()

    value = {"a": ["x", ("y", {"k": "x"})], "n": 1, "none": None, "empty": "", "b": True}
    changed, whole = Redactor(custom=custom).call_custom(value)
    assert changed == {"a": ["X", ("Y", {"k": "X"})], "n": 1, "none": None, "empty": "", "b": True}
    assert whole
    assert sorted(seen) == ["x", "y"]


@pytest.mark.parametrize(
    "answer",
    [lambda text: 1 / 0, lambda text: None, lambda text: b"x", lambda text: exit(3), lambda: "x"],
    ids=["raises", "nothing", "bytes", "exits", "other arguments"],
)
def test_a_function_that_fails_closes_the_field_and_only_that(answer):
    """Raising, leaving and answering with no text all end in the marker."""

    def custom(text):
        return answer(text) if "secret" in text else text

    redactor = Redactor(custom=custom)
    changed, whole = redactor.call_custom(["my secret", "fine"])
    assert changed == [FAILED, "fine"]
    assert not whole
    assert redactor.call_custom(["fine"]) == (["fine"], True)


def test_a_function_that_hangs_closes_everything_until_it_comes_back(until):
    """The first records wait for the timeout, of the next it is not asked; then all is as before."""
    release, asked = threading.Event(), []

    def custom(text):
        asked.append(text)
        if text == "hang":
            release.wait()
        return text + "!"

    redactor = Redactor(custom=custom, timeout=0.05)
    for _ in range(MAX_ABANDONED):
        assert redactor.call_custom(["a", "hang"]) == ([FAILED, FAILED], False)
    for _ in range(100):
        assert redactor.call_custom(["b"]) == ([FAILED], False)
    assert "b" not in asked
    release.set()
    until(lambda: redactor.call_custom(["a"]) == (["a!"], True), 60)


def test_a_late_answer_changes_nothing():
    """What comes after the timeout does not reach the record that was given up."""
    release, answered = threading.Event(), threading.Event()

    def custom(text):
        release.wait()
        answered.set()
        return "late"

    given_up = {}
    redactor = Redactor(custom=custom, timeout=0.02)
    given_up["value"], whole = redactor.call_custom(["a"])
    release.set()
    assert answered.wait(10)
    assert (given_up["value"], whole) == ([FAILED], False)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_in_a_forked_child():
    """The thread that calls the function is not inherited; the child starts its own."""
    redactor = Redactor(custom=str.upper)
    assert redactor.call_custom(["a"]) == (["A"], True)
    child = os.fork()
    if child == 0:
        os._exit(0 if redactor.call_custom(["b"]) == (["B"], True) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_values_under_secret_names_go_whatever_they_look_like():
    """An argument called ``password`` has no form that could be detected."""
    value = {"question": "why?", "api_key": "hunter2", "deep": {"password": "x", "n": 1}}
    redactor = Redactor(["api_key"])
    assert redactor.may_concern([value])
    deep = (None, [{"deep": ({"password": "x"},)}])
    assert redactor.may_concern(deep)
    harmless = [{"question": "api_key", "password": ""}, {}]
    assert not redactor.may_concern(harmless)
    assert redactor.detect(value) == {
        "question": "why?", "api_key": "<redacted:secret>",
        "deep": {"password": "<redacted:secret>", "n": 1},
    }  # fmt: skip


def test_all_texts_below_a_secret_name_go_and_numbers_and_flags_stay():
    """Credentials may be a mapping; a count of tokens or a flag is no secret."""
    value = {"credentials": {"user": "a", "keys": ["b", {"c": "d"}], "n": 3, "on": True}}
    assert Redactor(["api_key"]).detect(value) == {
        "credentials": {
            "user": "<redacted:secret>", "n": 3, "on": True,
            "keys": ["<redacted:secret>", {"c": "<redacted:secret>"}],
        }
    }  # fmt: skip


def test_names_are_left_alone_without_the_detector_of_keys():
    """An app that asks for e-mail addresses only gets nothing else taken out."""
    assert Redactor(["email"]).detect({"password": "x@example.com"}) == {
        "password": "<redacted:email>"
    }


def test_keys_of_mappings_are_looked_at_by_the_detectors():
    """A mapping by e-mail address gives the addresses away otherwise."""
    assert Redactor(["email"]).detect({"a@example.com": 1}) == {"<redacted:email>": 1}


def test_without_detectors_and_function_there_is_nothing_to_do():
    """Then the worker does not even look."""
    assert not Redactor().is_needed
    assert not Redactor(["off"]).is_needed
    assert Redactor(["jwt"]).is_needed
    assert Redactor(["api_key"]).detect([KEY]) == ["<redacted:api_key>"]


def test_redactors_share_their_threads():
    """An app that configures itself again and again keeps no thread for each of its redactors."""
    before = set(threading.enumerate())
    for _ in range(20):
        assert Redactor(custom=str.upper).call_custom("a") == ("A", True)
    assert len(set(threading.enumerate()) - before) <= 1
