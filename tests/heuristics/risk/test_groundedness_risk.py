"""`groundedness_risk`: an answer that goes beyond its context stands out, and says where."""

import random

import pytest
from counted import calls_of

from llmeval_sdk import registry
from llmeval_sdk.heuristics.risk import _context
from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.model import Chunk, Evaluation, Record
from llmeval_sdk.model.protocols import Heuristic


LIGHTHOUSE = (
    (
        "The Aurora lighthouse was built in 1874 on the northern cliff of Skerry Island. It is 42 metres "
        "tall and its lamp can be seen for 30 kilometres."
    ),
    (
        "Keepers lived in the lighthouse until 1989, when the lamp became automatic. Visitors may climb "
        "the tower from May to September."
    ),
)
QUESTION = "When was the Aurora lighthouse built, and how tall is it?"
TRUE = "The Aurora lighthouse was built in 1874 and is 42 metres tall."


def risk(response, context=LIGHTHOUSE, request=QUESTION) -> Evaluation:
    chunks = tuple(Chunk(content) for content in context)
    found = groundedness_risk(Record(request=request, response=response, retrieved_context=chunks))
    assert isinstance(found, Evaluation)
    return found


def test_it_is_a_heuristic_for_the_worker_that_attaches_by_itself():
    """The registry knows it, and it keeps off the caller's thread."""
    found = registry.evaluator("groundedness_risk")
    assert isinstance(found, Heuristic)
    assert (found.kind, found.inline, found.automatic) == ("heuristic", False, True)
    assert found.needs == ("response", "retrieved_context|steps.result")


def test_an_answer_from_the_context_has_a_low_risk():
    """Paraphrased or copied word for word, it is far below an invented one."""
    invented = "The tower was designed by Robert Fenwick, who won a gold medal at the Paris fair."
    assert risk(TRUE).value < 0.2
    assert risk(" ".join(LIGHTHOUSE)).value < 0.2
    assert risk(invented).value > 0.5


@pytest.mark.parametrize(
    ("wrong", "figure"), [("1921", "1921"), ("1874, 1875", "1875"), ("1,874,000", "1,874,000")]
)
def test_a_number_that_the_context_lacks_raises_the_risk(wrong, figure):
    """The figure is named in the metadata as it was written."""
    found = risk(TRUE.replace("1874", wrong))
    assert found.value > risk(TRUE).value + 0.2
    assert found.metadata["numbers_absent"] == [figure]
    assert found.metadata["unsupported_spans"] == [[0, len(TRUE) + len(wrong) - 4]]
    assert figure in found.explanation


def test_the_same_number_written_another_way_is_supported():
    """Separators, scale words and number words do not make it another number."""
    passage = ("The bridge cost 1,500,000 crowns, took two years and is 2.50 km long.",)
    for said in ("It cost 1.5 million crowns.", "It took 2 years.", "It is 2.5 km long."):
        assert risk(said, passage, "How was the bridge built?").metadata["numbers_absent"] == []


def test_a_scale_word_is_part_of_the_number():
    """Two billion is not supported by two million."""
    passage = ("The company earned 2 million crowns in its first year.",)
    found = risk("The company earned 2 billion crowns in its first year.", passage, None)
    assert found.metadata["numbers_absent"] == ["2"]


def test_spans_point_at_the_unsupported_sentence():
    """Offsets are of the response as it was given, and cover that sentence only."""
    invented = "It was designed by the engineer Robert Fenwick, who won a gold medal in Paris."
    response = f"{TRUE}\n\n  {invented} Visitors may climb the tower from May to September."
    spans = risk(response).metadata["unsupported_spans"]
    assert [response[start:end] for start, end in spans] == [invented]


@pytest.mark.parametrize(
    "refusal",
    [
        "The context does not say who designed the lighthouse.",
        "I'm sorry, but the documents don't mention the architect.",
        "Unable to answer based on the given passages.",
        "There is no information about the architect in the provided text.",
        "I don't know.",
    ],
)
def test_a_refusal_is_not_unsupported(refusal):
    """Saying that the context does not tell claims nothing beyond it."""
    found = risk(refusal, request="Which architect designed the lighthouse?")
    assert found.value <= 0.1
    assert found.metadata["unsupported_spans"] == []


def test_a_refusal_does_not_hide_a_claim():
    """An invented answer beside a refusal still counts."""
    found = risk(
        "The context does not say who designed the lighthouse. It was the Scottish engineer Robert "
        "Fenwick, who won a gold medal at the world fair for his iron harbours."
    )
    assert found.value > 0.4


@pytest.mark.parametrize("nothing", ["", "   \n", "...", "-----", "—"])
def test_an_answer_that_claims_nothing_has_no_risk(nothing):
    """Empty answers are sound, not unknown."""
    assert risk(nothing).value == 0.0


def test_without_any_context_a_claim_is_unsupported():
    """An empty retrieval supports nothing."""
    assert risk(TRUE, ()).value > risk(TRUE).value + 0.3


def test_without_response_or_context_it_does_not_apply():
    """Missing inputs give None, not a number."""
    assert groundedness_risk(Record(response="yes")) is None
    assert groundedness_risk(Record(retrieved_context=(Chunk("yes"),))) is None


def test_the_same_record_gets_the_same_evaluation():
    """With a warm or a cold cache, nothing depends on what came before."""
    first = risk(TRUE)
    _context.forget_contexts()
    assert risk(TRUE) == first == risk(TRUE)


@pytest.mark.parametrize(
    ("passage", "true", "invented"),
    [
        (
            (
                "Der Leuchtturm Aurora wurde 1874 auf der Nordklippe der Insel gebaut. Er ist 42 Meter "
                "hoch, und sein Licht ist von weit her zu sehen."
            ),
            "Der Leuchtturm wurde 1874 gebaut und ist 42 Meter hoch.",
            "Der Leuchtturm wurde 1921 vom Ingenieur Fenwick für die Königin entworfen.",
        ),
        (
            "极光灯塔建于1874年，位于斯凯里岛北部的悬崖上。塔高42米，灯光在三十公里外可见。",
            "灯塔建于1874年，塔高42米。",
            "灯塔由著名工程师设计，1921年获得巴黎博览会金奖。",
        ),
        (
            "オーロラ灯台は1874年に島の北の崖に建てられた。高さは42メートルである。",
            "オーロラ灯台は1874年に建てられた。",
            "この灯台は1921年にパリの有名な技師が設計した。",
        ),
        (
            "등대는 1874년에 섬의 북쪽 절벽에 세워졌다. 높이는 42미터이다.",
            "등대는 1874년에 세워졌다.",
            "유명한 기술자가 1921년에 파리에서 설계하였다.",
        ),
        (
            "ประภาคารสร้างขึ้นในปี 1874 บนหน้าผาทางเหนือของเกาะ สูง 42 เมตร",
            "ประภาคารสร้างขึ้นในปี 1874",
            "วิศวกรชื่อดังออกแบบในปี 1921 และได้รับรางวัลเหรียญทอง",
        ),
        (
            "Маяк был построен в 1874 году на северном утёсе острова. Его высота 42 метра.",
            "Маяк был построен в 1874 году.",
            "Его спроектировал знаменитый инженер в 1921 году в Париже.",
        ),
    ],
)
def test_other_languages_are_compared_without_english_rules_and_say_so(passage, true, invented):
    """Scripts without spaces too: an invented answer outranks a true one."""
    good, bad = risk(true, (passage,), None), risk(invented, (passage,), None)
    assert good.metadata["language"] == bad.metadata["language"] == "other"
    assert bad.value > good.value + 0.2
    assert bad.metadata["numbers_absent"] == ["1921"]


def test_an_answer_in_another_language_than_its_context_is_not_scored():
    """Words of two languages cannot be compared, and a guess would be no score."""
    found = risk("Der Leuchtturm wurde von einem Ingenieur für die Königin und den Hof gebaut.")
    assert found.value is None
    assert "languages" in found.explanation


HOSTILE = [
    "\x00\ud800\udfff" * 50,
    "İ" * 300,
    "e\u0301" * 300,
    "1" * 5000,
    "1,1.1,1." * 300,
    "9" * 400 + " million",
    "a" * 5000,
    "\n" * 3000 + "x",
    ". " * 2000,
    "passage 1, 2, " * 300,
    "\u202e(((((((((",
    "½ ² ① ٣ ১২",
    "的" * 3000,
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_never_raises(hostile):
    """On either side, any string gives a score or says that there is none."""
    for found in (risk(hostile), risk(TRUE, (hostile,)), risk(hostile, (hostile,), hostile)):
        assert found.value is None or 0.0 <= found.value <= 1.0


@pytest.mark.parametrize(
    "request_", [None, 7, {"messages": [{"role": "user", "content": [{"text": "why"}, 3]}]}, {"query": 5},
                 {"messages": "no"}, {"query": "Why?", "history": []}]
)  # fmt: skip
def test_any_request_and_chunk_will_do(request_):
    """Requests of every shape, chunks without content or with content of another type."""
    chunks = (Chunk(doc_uri="a"), Chunk(b"bytes"), Chunk(""), Chunk(LIGHTHOUSE[0]))  # type: ignore[arg-type]
    found = groundedness_risk(Record(request=request_, response=TRUE, retrieved_context=chunks))
    assert found.value < 0.3


@pytest.mark.parametrize(
    "unit",
    [
        "word ",
        "a",
        "1,",
        "1",
        ". ",
        "\n ",
        "的",
        "passage 1, ",
        "[1, ",
        "'\"))",
        "A. b ",
        "e\u0301",
    ],
)
def test_a_megabyte_takes_no_more_work_than_the_cap(unit):
    """Adversarial repeats on both sides cost a small, fixed amount of work."""
    text = unit * (1_000_000 // len(unit))
    _context.forget_contexts()
    assert calls_of(lambda: risk(text, (text,), text)) < 120_000


def test_long_texts_are_capped_and_say_so():
    """Both the context and the response, so that one evaluation stays a small piece of work."""
    dice = random.Random(1)
    words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"]
    long = " ".join(dice.choice(words) + "." * (dice.random() < 0.1) for _ in range(30_000))
    found = risk(long, (long,))
    assert found.metadata["context_capped"] is True
    assert found.metadata["response_capped"] is True
    assert "context_capped" not in risk(TRUE).metadata
    assert "response_capped" not in risk(TRUE).metadata
