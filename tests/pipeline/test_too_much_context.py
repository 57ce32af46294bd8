"""More context than is kept, and texts of megabytes: bounded work, and scores that say so."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import _capture


MEGABYTES = 5_000_000


def ask(passages, answer="Pump 7 weighs 52 kg."):
    """Record a request with these passages; return its scores and its spans."""

    @llmeval.retrieval
    def find(question):
        return passages

    @llmeval.workflow
    def reply(question):
        find(question)
        return answer

    with capture() as seen:
        reply("How much does pump 7 weigh?")
        seen.drain()
    return seen.scores("reply"), {span.name: span for span in seen.spans}


def pumps(count):
    return [f"Pump {number} weighs {7 * number + 3} kg." for number in range(count)]


@pytest.mark.parametrize("score", ["groundedness_risk", "retrieval_risk"])
def test_a_score_of_ten_thousand_passages_says_that_it_saw_a_part(score):
    """What it misses may stand in a passage that was not kept, so the finding says so."""
    scores, spans = ask(pumps(10_000))
    assert len(spans["find"].retrieved_context) == 1_001
    assert scores[score].explanation.endswith("; only a part of the context was kept")
    assert scores[score].metadata["context_capped"] is True


@pytest.mark.parametrize("score", ["groundedness_risk", "retrieval_risk"])
def test_a_score_of_all_passages_says_nothing_of_it(score):
    """A thousand passages are kept whole."""
    scores, _ = ask(pumps(1_000))
    assert "was kept" not in scores[score].explanation
    assert "context_capped" not in scores[score].metadata


def test_one_passage_a_million_times_is_kept_a_thousand_times(monkeypatch):
    """The work is that of a thousand passages, whatever the length of the list."""
    looked_at = []
    capture_one = _capture.capture
    monkeypatch.setattr(_capture, "capture", lambda *now: looked_at.append(1) or capture_one(*now))
    scores, spans = ask(["Pump 7 weighs 52 kg."] * 1_000_000)
    assert len(spans["find"].retrieved_context) == 1_001
    assert spans["find"].retrieved_context[-1].content == "<999000 more>"
    assert len(looked_at) < 5_000
    assert scores["groundedness_risk"].value < 0.5


def test_texts_of_five_megabytes_are_cut_and_say_how_much_is_missing():
    """A span keeps 131,072 characters of each text and a million in all."""
    scores, spans = ask(["word " * (MEGABYTES // 5)] * 10, answer="x" * MEGABYTES)
    kept = [chunk.content for chunk in spans["find"].retrieved_context]
    assert kept[0].endswith(f"<truncated {MEGABYTES - (1 << 17)} characters>")
    assert sum(map(len, kept)) < (1 << 20) + 1_000
    assert len(spans["reply"].response) < 1 << 18
    assert scores["groundedness_risk"].metadata["context_capped"] is True


def test_what_is_missing_of_a_question_is_no_word_of_it():
    """The number of characters that were cut is nothing that a context could hold."""
    with capture() as seen:
        with llmeval.workflow("ask") as span:
            span.annotate(
                request="How heavy is pump 7? " * (MEGABYTES // 21),
                retrieved_context=["Pump 7 weighs 52 kg."], response="Pump 7 weighs 52 kg.",
            )  # fmt: skip
        seen.drain()
    score = seen.scores("ask")["retrieval_risk"]
    assert "not in the context" in score.explanation
    assert not any(word.isdecimal() for word in score.metadata["uncovered_query_terms"])


def test_no_text_is_looked_through_once_a_span_is_full(monkeypatch):
    """Images are looked for in what is kept, and not in ten thousand texts that are not."""
    searched = []
    search = _capture._without_media
    monkeypatch.setattr(_capture, "_without_media", lambda text: searched.append(1) or search(text))
    ask(["word " * 2_000] * 900)
    assert len(searched) < 3 * (_capture.ROOM // 10_000 + 2)
