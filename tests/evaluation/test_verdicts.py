"""Verdicts that are kept: one key, one rule for what is kept, in memory and in a file."""

from __future__ import annotations

from contextlib import closing

import pytest

from llmeval_sdk.evaluation.verdicts import (
    VerdictFile,
    VerdictKey,
    Verdicts,
    judgement_key,
    key_of,
)
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Usage
from llmeval_sdk.testing import FakeLLM


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Judge(BaseJudge):
    kind, version, per, needs = "judge", "1", "answer", ("response",)

    def __init__(self, name="polite", version="1"):
        self.name, self.version = name, version


FULL = Record(
    request={"query": "q", "history": [{"role": "user", "content": "hi"}]},
    response="a",
    retrieved_context=(Chunk("text", "uri", score=0.5), Chunk("more")),
    extractions=(Extraction("v", 1, "HIGH"),),
    attributes={"tenant": "x"},
)


class TestCache:
    def test_identical_judgements_share_a_key_whatever_their_identity(self):
        """Ids, usage and latency do not matter."""
        one = Record(request="q", response="a", trace_id="1", span_id="2", latency_seconds=1.0)
        two = Record(request="q", response="a", request_id="r", usage=Usage(1, 2, 3))
        assert judgement_key(Judge(), "m", one) == judgement_key(Judge(), "m", two) is not None

    @pytest.mark.parametrize(
        "other",
        [
            Record(request="q", response="a "),
            Record(request="qa", response=""),
            Record(request="q", response="a", retrieved_context=()),
            Record(request="q", response="a", value="a"),
            Record(request="q", response="a", value=1),
            Record(request="q", response="a", value=True),
            Record(request="q", response="a", attributes={"tenant": "y"}),
            Record(request="q", response="a", expected_facts=("x", "y")),
            Record(request="q", response="a", expected_facts=("x", "y", "")),
            Record(request="q", response="a", extractions=(Extraction("v"),)),
            Record(request="q", response="a", retrieved_context=(Chunk("v"),)),
        ],
        ids=range(11),
    )
    def test_any_difference_in_content_is_another_judgement(self, other):
        """Nothing that a judge may read is taken for the same."""
        first = judgement_key(Judge(), "m", Record(request="q", response="a"))
        assert judgement_key(Judge(), "m", other) not in (first, None)

    def test_lists_within_lists_are_told_apart(self):
        """Where a list ends belongs to its content."""
        values = [[["x"], "y"], [["x", "y"]], ["x", ["y"]], ["x", "y"]]
        keys = {judgement_key(Judge(), "m", Record(value=value)) for value in values}
        assert len(keys) == 4

    def test_judge_version_and_model_belong_to_the_key(self):
        """Another prompt or another model is another judgement."""
        keys = {
            judgement_key(judge, model, FULL)
            for judge in (Judge(), Judge(version="2"), Judge("safety"))
            for model in ("m", "n")
        }
        assert len(keys) == 6
        assert None not in keys

    def test_the_order_of_a_mapping_does_not_matter(self):
        """Mappings are equal by content."""
        one = Record(response="a", attributes={"a": 1, "b": 2})
        two = Record(response="a", attributes={"b": 2, "a": 1})
        assert judgement_key(Judge(), "m", one) == judgement_key(Judge(), "m", two)

    def test_what_is_no_plain_data_is_never_taken_for_the_same(self):
        """Objects have no content that could be compared, so they are not cached."""
        assert judgement_key(Judge(), "m", Record(response="a", value=object())) is None
        assert judgement_key(Judge(), "m", Record(attributes={"a": {1, 2}})) is None

    def test_a_found_judgement_says_that_it_was_cached_and_cost_nothing(self):
        """Money is counted where it was spent."""
        recent = Verdicts(clock=Clock())
        key = key_of(Judge(), FakeLLM(), FULL)
        paid = Evaluation("polite", "yes", metadata={"a": 1}, usage=Usage(5), duration=2.0)
        recent.put(key, paid)
        kept = recent.get(key)
        assert (kept.value, kept.usage, kept.duration) == ("yes", None, None)
        assert kept.metadata == {"a": 1, "cached": True}
        assert recent.get(VerdictKey(b"other", lasts=True)) is None
        assert recent.get(None) is None

    def test_old_and_superfluous_verdicts_go(self):
        """Age and number are bounded, the least recently used going first."""
        clock = Clock()
        recent = Verdicts(entries=2, seconds=10, clock=clock)
        keys = [VerdictKey(name, lasts=True) for name in (b"a", b"b", b"c")]
        for key in keys[:2]:
            recent.put(key, Evaluation("polite", "yes"))
        recent.get(keys[0])
        recent.put(keys[2], Evaluation("polite", "yes"))
        kept = [key.digest for key in keys if recent.get(key)]
        assert kept == [b"a", b"c"]
        clock.now += 11
        assert recent.get(keys[0]) is None


@pytest.fixture(params=["memory", "file"])
def kept_verdicts(request, tmp_path):
    """Both places where verdicts are kept: one is of a process, one lasts."""
    if request.param == "memory":
        yield Verdicts()
        return
    with closing(Verdicts(entries=0, place=VerdictFile(tmp_path / "verdicts.state"))) as file:
        yield file


ADDRESSED = VerdictKey(b"k" * 16, lasts=True)


@pytest.mark.parametrize(
    ("verdict", "stays"),
    [
        (Evaluation("polite", "yes"), True),
        (Evaluation("polite", None, explanation="does not apply"), True),
        (Evaluation("polite", error=Failure("timeout")), False),
        (Evaluation("on_topic", 1.0, metadata={"ratings": ["yes", None], "failed": 1}), False),
    ],
    ids=["a verdict", "not applicable", "a failure", "a part failed"],
)
def test_memory_and_file_keep_the_same_verdicts(kept_verdicts, verdict, stays):
    """A judge that failed, in whole or in part, is asked again wherever verdicts are kept."""
    kept_verdicts.put(ADDRESSED, verdict)
    if kept_verdicts._place is not None:
        kept_verdicts._place._write()
    kept = kept_verdicts.get(ADDRESSED)
    assert (kept is not None) == stays
    if stays:
        assert (kept.value, kept.metadata["cached"], kept.usage) == (verdict.value, True, None)


def test_without_a_bound_of_days_no_verdict_expires(tmp_path):
    """The setting says so of 0, for the store as well."""
    for number in range(2):
        place = VerdictFile(tmp_path / "verdicts.state", max_days=0.0)
        with closing(Verdicts(place=place)) as file:
            if not number:
                file.put(ADDRESSED, Evaluation("polite", "yes"))
            else:
                assert file.get(ADDRESSED) is not None


class Served(FakeLLM):
    def __init__(self, base_url):
        super().__init__()
        self.base_url = base_url


def test_the_same_record_has_the_same_key_wherever_the_model_is_the_same():
    """Two clients of one server are one model; another server or wording is another judgement."""
    judge = Judge()
    here, again, there = (Served(url) for url in ("http://a", "http://a", "http://b"))
    assert key_of(judge, here, FULL) == key_of(judge, again, FULL)
    assert key_of(judge, here, FULL) != key_of(judge, there, FULL)
    assert key_of(judge, here, FULL).lasts


def test_a_model_without_an_address_is_known_in_this_process_only(tmp_path):
    """Its verdicts cannot be told from those of another one, so no file has them."""
    one, other = FakeLLM(), FakeLLM()
    key = key_of(Judge(), one, FULL)
    assert key == key_of(Judge(), one, FULL) != key_of(Judge(), other, FULL)
    with closing(Verdicts(entries=0, place=VerdictFile(tmp_path / "verdicts.state"))) as file:
        file.put(key, Evaluation("polite", "yes"))
        file._place._write()
        assert file.get(key) is None


def test_a_key_stays_what_it_is():
    """Verdicts that were paid for are found again after an upgrade."""
    key = key_of(Judge(), Served("http://a"), Record(request="q", response="a"))
    assert key.digest.hex() == "91007cfd3f3a1a8ef8db8018e1e3174c"
