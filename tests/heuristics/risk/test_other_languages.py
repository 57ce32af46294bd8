"""Risk scores beyond English: digits, refusals, inflection, units, negation."""

import pytest

from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.model import Chunk, Evaluation, Record


def risk(response, *context, request=None) -> Evaluation:
    chunks = tuple(Chunk(content) for content in context)
    found = groundedness_risk(Record(request=request, response=response, retrieved_context=chunks))
    assert isinstance(found, Evaluation)
    return found


COPIES = {
    "Persian": ("اجاره ماهانه ۱۲۰۰ یورو است و باید تا ۵ روز پرداخت شود.", "۱۲۰۰", "۱۷۰۰"),
    "Bengali": ("মাসিক ভাড়া ১২০০ ইউরো এবং ৫ দিনের মধ্যে দিতে হবে।", "১২০০", "১৭০০"),
    "Hindi": ("मासिक किराया १२०० यूरो है और ५ दिन में देना होगा।", "१२००", "१७००"),
    "Arabic": ("الإيجار الشهري ١٢٠٠ يورو ويجب دفعه خلال ٥ أيام.", "١٢٠٠", "١٧٠٠"),
    "full width": ("毎月の家賃は１２００ユーロで、５日以内に支払います。", "１２００", "１７００"),
    "Thai": ("ค่าเช่ารายเดือนคือ ๑๒๐๐ ยูโร", "๑๒๐๐", "๑๗๐๐"),
}


@pytest.mark.parametrize("language", COPIES)
def test_a_copy_with_native_digits_is_supported_and_a_changed_number_is_not(language):
    """Digits of every script are numbers."""
    passage, number, other = COPIES[language]
    copied, changed = risk(passage, passage), risk(passage.replace(number, other), passage)
    assert copied.metadata["numbers_absent"] == []
    assert copied.metadata["unsupported_spans"] == []
    assert changed.metadata["numbers_absent"] == [other]
    assert changed.value > copied.value + 0.1


def test_digits_of_two_scripts_are_the_same_number():
    """A model may answer with ASCII digits where the document has native ones."""
    passage, number, _ = COPIES["Persian"]
    assert risk(passage.replace(number, "1200"), passage).metadata["numbers_absent"] == []


@pytest.mark.parametrize(
    "refusal",
    [
        "Der Kontext enthält dazu keine Angaben.",
        "Das geht aus dem Text nicht hervor.",
        "Le contexte ne mentionne pas cette information.",
        "El contexto no menciona quién lo diseñó.",
        "O contexto não contém essa informação.",
        "Il testo non fornisce questa informazione.",
        "De tekst vermeldt dit niet.",
        "Kontext nie zawiera informacji na ten temat.",
        "В тексте об этом не сказано.",
        "Bağlamda bu konuda bilgi yok.",
        "上下文中没有提到这一点。",
        "文脈にはその情報は記載されていません。",
        "문서에는 해당 정보가 없습니다.",
        "لا يذكر النص هذه المعلومة.",
    ],
)
def test_a_refusal_in_any_language_is_not_unsupported(refusal):
    """Against a context of its own language it claims nothing."""
    passages = {
        "Der": "Der Leuchtturm wurde 1874 auf der Nordklippe gebaut und ist von weit her zu sehen.",
        "上": "灯塔建于1874年，位于岛屿北部的悬崖上。",
        "文": "灯台は1874年に島の北の崖に建てられた。",
        "문": "등대는 1874년에 섬의 북쪽 절벽에 세워졌다.",
        "В": "Маяк был построен в 1874 году на северном утёсе острова.",
        "Le": "Le phare a été construit en 1874 sur la falaise du nord de l'île.",
        "El": "El faro fue construido en 1874 en el acantilado del norte de la isla.",
        "O ": "O farol foi construído em 1874 na falésia do norte da ilha.",
        "Il": "Il faro è stato costruito nel 1874 sulla scogliera del nord dell'isola.",
        "De ": "De vuurtoren is in 1874 op de klif in het noorden van het eiland gebouwd.",
        "Das": "Der Leuchtturm wurde 1874 auf der Nordklippe der Insel gebaut.",
        "Ko": "Latarnia została zbudowana w 1874 roku na klifie i jest na wyspie.",
        "Ba": "Deniz feneri 1874 yılında adanın kuzeyinde bir kayalık için ve çok güzel.",
        "لا": "بُنيت المنارة عام 1874 على الجرف الشمالي من الجزيرة.",
    }
    passage = next(p for start, p in passages.items() if refusal.startswith(start))
    assert risk(refusal, passage).value <= 0.05


def test_a_number_at_the_start_and_an_abbreviation_end_no_sentence():
    """A list mark such as "10." and a title such as "Dr." are parts of their sentences."""
    passage = "Heat the pan. Flip the fish after two minutes. Ask Dr. Ito for the recipe."
    found = risk("10. Flip the fish after two minutes.\n11. Ask Dr. Ito for the recipe.", passage)
    assert found.metadata["sentences"] == 2
    assert found.metadata["numbers_absent"] == []


def test_short_answers_that_differ_in_what_they_copy_have_different_values():
    """Uncovered neighbours break the ties of the trained steps."""
    passage = "The old slate roof of the northern chapel was renewed by the parish in spring."
    answers = (
        "The old slate roof of the northern chapel was renewed.",
        "The slate roof of the chapel was renewed.",
        "The parish renewed the roof of slate in spring.",
    )
    values = [risk(answer, passage).value for answer in answers]
    assert values == sorted(set(values))


@pytest.mark.parametrize(
    ("passage", "right", "wrong"),
    [
        ("Bake it for 45 minutes.", "Bake it for 45 minutes.", "Bake it for 45 seconds."),
        ("Take 400 mg a day.", "Take 400 milligrams a day.", "Take 400 grams a day."),
        (
            "Die Lieferung dauert zwei Werktage.",
            "Die Lieferung dauert zwei Arbeitstage.",
            "Die Lieferung dauert zwei Wochen.",
        ),
        ("每次服用400毫克。", "每次服用400毫克。", "每次服用400微克。"),
        ("Принимать по 400 мг.", "Принимать по 400 миллиграммов.", "Принимать по 400 микрограммов."),
    ],
)  # fmt: skip
def test_a_changed_unit_raises_the_risk(passage, right, wrong):
    """The number stands in the context, but in another unit."""
    assert risk(wrong, passage).value > risk(right, passage).value + 0.1


@pytest.mark.parametrize(
    ("passage", "right", "wrong"),
    [
        ("Das Fotografieren ist erlaubt.", "Fotografieren ist erlaubt.", "Fotografieren ist nicht erlaubt."),
        ("La photographie est autorisée.", "La photographie est autorisée.", "La photographie n'est pas autorisée."),
        ("Фотографировать разрешено.", "Фотографировать разрешено.", "Фотографировать не разрешено."),
    ],
)  # fmt: skip
def test_a_negation_that_the_context_lacks_raises_the_risk(passage, right, wrong):
    """The words are the same, the claim is the opposite."""
    assert risk(wrong, passage).value > risk(right, passage).value + 0.02


def test_a_citation_of_the_wrong_passage_raises_the_risk():
    """What passage 1 says is not said by passage 2."""
    passages = (
        "The Aurora lighthouse was built in 1874 on the northern cliff.",
        "Keepers lived on Skerry Island until the lamp became automatic.",
    )
    said = "Passage {} says that the Aurora lighthouse was built on the northern cliff."
    assert risk(said.format(2), *passages).value > risk(said.format(1), *passages).value


def test_a_compound_or_an_inflection_is_no_new_word():
    """A German paraphrase is not riskier because its words are longer."""
    passage = "Die Kaution wird nach der Schlüsselübergabe zurückgezahlt."
    near = risk("Nach Übergabe der Schlüssel wird die Kaution gezahlt.", passage)
    far = risk("Nach Ankunft der Handwerker wird die Miete gesenkt.", passage)
    assert far.value > near.value + 0.1
    assert near.metadata["language"] == "other"
