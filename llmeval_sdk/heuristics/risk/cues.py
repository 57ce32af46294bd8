"""Turns of phrase that say what a sentence does: decline, hedge, advise, cite …"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator


_NOT = r"(?:can|could|is|are|do|does|did|has|have)(?: ?not|n['’]t)"
_REFUSAL = re.compile(
    rf"unable to (?:answer|determine|provide|find|say)|{_NOT} (?:possible to )?(?:be )?(?:\w+ly )?"
    r"(?:answer|determin|tell|say|said|mention|specif|contain|provide|include|state|give|address|"
    r"find|know|cover|discuss|describe|disclose|have (?:enough|any|the|information|access))|"
    r"cannot (?:be )?(?:answer|determin|tell|say|find)|"
    r"no (?:information|mention|answer|details?|specific|relevant|direct|data|evidence|reference)|"
    r"not (?:mentioned|stated|specified|provided|clear|enough|sufficient|explicitly|available|"
    r"possible|given|included|found|addressed|covered|discussed|described)|"
    r"insufficient|(?:nothing|nowhere) (?:in|is|about)"
)
_REFUSES = frozenset(
    "unable cannot no not insufficient nothing nowhere can't couldn't isn't aren't don't doesn't "
    "didn't hasn't haven't".split()
)
"""One of these words is in every sentence that the pattern matches."""
HEDGES = frozenset(
    "may might could possible possibly perhaps likely probably typically generally usually often "
    "sometimes suggest suggests seem seems appear appears depend depends depending vary "
    "varies".split()
)
META = frozenset(
    "passage passages provided given context contexts document documents source sources according "
    "based summary conclusion overall summarize summarise here's sure article text".split()
)
ADVICE = frozenset(
    "note important sure recommended consult consider remember advisable ensure essential crucial "
    "helpful".split()
)
LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
_NOUN = (
    r"(?:passages?|documents?|sources?|chunks?|contexts?|dokument\w?|quellen?|abschnitt|pasajes?|"
    r"documentos?|fuentes?|passaggi[o]?|document[oi]|font[ei]|passagens?|trechos?|bron|bronnen|"
    r"отрыв\w{1,3}|документ\w?|источник\w?|فقرة|الفقرة|مستند|المستند|文档|段落|资料|文書|資料|문서|단락)"
)
_CITATION = re.compile(
    rf"\(?(?<!\w){_NOUN} ?#?\d+(?:(?:,| and|, and|-| &) ?(?:passages? )?\d+)*\)?|\[\d+(?:, ?\d+)*\]",
    re.IGNORECASE,
)
_CITED = re.compile(r"\d+")
_MOST_CITED = 20

_REFUSALS = re.compile(
    "|".join(
        (
            # German
            r"(?:geht|gehen|lässt|lassen|steht|wird|werden|ist|sind|enth[aä]lt\w*|nenn\w+|erwähn\w+|liefer\w+|gib\w?|find\w+|mach\w+|sag\w+|kann|können|konnte)\b.{0,80}\b(?:nicht|kein\w*|nichts|keinerlei)\b.{0,60}(?:hervor|beantwort\w+|sagen|entnehmen|erwähnt|angegeben|genannt|angaben?|information\w*|hinweis\w*|auskunft|bestimm\w+|ersichtlich|enthalten|finden|antwort\w*|dar\w+|steht)",
            r"\b(?:keine?n?|keinerlei) (?:\w+ )?(?:angaben?|information\w*|hinweis\w*|antwort|auskunft|erwähnung)|weiß (?:ich |es )?nicht|nicht (?:erwähnt|angegeben|genannt|enthalten|ersichtlich|beantwort\w+|hervor)|\bnichts (?:über|zu|dazu|darüber)\b",
            # French
            r"\b(?:ne|n[e'’]) ?\w+(?: \w+){0,2} (?:pas|aucun\w*|rien)\b|\baucune? (?:information|mention|indication|donnée|réponse|précision)|pas (?:mentionné|précisé|indiqué|possible|fourni|suffisam)\w*|je ne sais pas|impossible de (?:répondre|dire|déterminer)",
            # Spanish and Portuguese
            r"\bno (?:se |lo |es |está |hay |puedo |puede |contiene|menciona|dice|indica|especifica|proporciona|ofrece|incluye|figura|aparece|consta|sé\b|tengo|dispongo|permite|responde|aclara|precisa|da )|\bning\w+ (?:información|dato|mención)|sin (?:información|datos)",
            r"\bnão (?:se |é |está |há |posso |pode |contém|contêm|menciona|diz|indica|especifica|fornece|oferece|inclui|consta|sei\b|tenho|permite|responde|refere|d[áã])|\bnenhuma? (?:informação|menção|dado)",
            # Italian
            r"\bnon (?:\w+ )?(?:è|sono|si|c'è|contien\w+|menzion\w+|dic\w+|indic\w+|specific\w+|forni\w+|includ\w+|cita\w*|lo so|so|posso|può|permett\w+|rispond\w+|riport\w+|precis\w+|risult\w+|viene)\b|\bnessun\w* (?:informazion\w+|menzione|dato|indicazione|riferimento)",
            # Dutch and Scandinavian
            r"\b(?:niet|geen|niets)\b.{0,60}(?:vermeld|genoemd|informatie|antwoord\w*|gegeven|gegevens|staat|zeggen|bepalen|bekend|duidelijk|vinden|over)|(?:staat|wordt|kan|weet|vermeld\w*|noemt?|bevat\w*|geeft)\b.{0,50}\b(?:niet|geen|niets)\b",
            r"\b(?:inte|ikke|ikkje|ingen|inga|inget)\b.{0,50}(?:nämn\w+|ange\w*|informa\w+|svar\w*|framgår|nævn\w+|nevn\w+|oplys\w+|opplys\w+|står|säg\w+|vet)|(?:framgår|nämn\w+|ange\w*|inneh\w+|står|vet|nævn\w+|nevn\w+|inde\w+|inne\w+)\b.{0,50}\b(?:inte|ikke|ingen|inga|inget)\b",
            # Polish, Czech, Finnish, Turkish, Romanian, Hungarian
            r"\bnie (?:\w+ ){0,3}?(?:zawiera\w*|wspomin\w+|poda\w+|okre\w+|ma|mówi\w*|wiem|można|wynika|odpowi\w+|wiadomo|wymien\w+)|\bbrak (?:\w+ )?(?:informacj\w+|danych|odpowied\w+)",
            r"\b(?:ne(?:ní|obsah\w+|zmi\w+|uv\w+|vím|lze|jsou|odpov\w+)|žádn\w+ (?:informac\w+|zmínk\w+))",
            r"\b(?:ei|eivät|en) (?:\w+ ){0,3}?(?:mainit\w*|kerro\w*|sisäl\w+|ilmene\w*|tiedä|voi\w*|löydy|vastaa|ole|selviä|anna)",
            r"(?:bilgi|cevap|yanıt|bahsed\w*|belirt\w*|açıkla\w*|söylen\w*|geç\w*|yer al\w*|veril\w*|bulun\w*|içer\w*|bil\w*)\b.{0,20}(?:yok\w*|değil\w*|m[ıiuü]yor\w*|memiş\w*|mamış\w*|m[ae]z)|\w+(?:m[ıiuü]yor|memiş|mamış|m[ae]mektedir|m[ae]kt[ae]dır)\w*|bilgi yok|bilmiyorum",
            r"\bnu (?:se |este |sunt |conține|menționează|precizează|oferă|știu|pot|specifică|spune|indică)|\bnem (?:\w+ )?(?:tartalmaz\w*|említ\w*|tud\w*|derül|ad|szól|szerepel|lehet|található)|nincs (?:\w+ )?(?:információ|adat|szó|válasz)",
            # Russian and Ukrainian
            r"\bне (?:\w+ ){0,2}?(?:сказан\w*|указан\w*|упом\w+|содерж\w+|говор\w+|знаю|могу|может|позвол\w+|описан\w*|сообща\w+|приведен\w*|дан\w+|отвеча\w+|известн\w+|назван\w*|раскры\w+|предостав\w+|ясно|вказан\w*|згад\w+|міст\w+|знаю|наведен\w*|уточн\w+|удалось|хватает|достаточно|определ\w+|называ\w+)|\bнет (?:\w+ ){0,2}?(?:информац\w+|данных|сведен\w+|ответа|упоминан\w+|указан\w+)|невозможно|немає",
            # Arabic, Persian, Hebrew, Hindi, Bengali, Greek
            r"(?:لا|لم|ليس|ليست|لن)\s(?:\w+\s){0,2}?(?:[يت]?\w*(?:ذكر|حتو|وجد|وفر|حدد|جيب|جاب|شير|تضمن|ورد|رد|عرف|علم|مكن|كف|وضح|قول|قدم|تطرق|تناول|عط)\w*|معلومات|إجابة)|لا (?:أعرف|توجد|يوجد)|لا معلومات|غير (?:مذكور|موجود|محدد|متوفر|كاف|واضح|قادر)\w*|لا تتوفر|تعذر|لا يمكن",
            r"(?:نشده|نیامده|ندارد|نمی\S*|نیست|وجود ندارد|ذکر نشده|نگفته|ندارم|نمی‌دانم|نمی دانم|ناموجود|نکرده)",
            r"(?:לא|אין)\s(?:\w+\s){0,2}?(?:\w*(?:ציין|צוין|מצוין|מוזכר|הוזכר|נאמר|כולל|מכיל|יודע|ניתן|מידע|תשובה|מופיע|מספק|אפשר)\w*)",
            r"(?:जानकारी|उल्लेख|उत्तर|बताया|दिया|कहा|पता|मौजूद|उपलब्ध|ज्ञात|स्पष्ट|संभव|मालूम)\S*\s(?:\S+\s){0,4}?(?:नहीं|न\s)|नहीं (?:दी|दिया|बताया|कहा|है|मिल|किया|बता)",
            r"(?:উল্লেখ|তথ্য|উত্তর|বলা|জানা|দেওয়া|পাওয়া|জানি|স্পষ্ট)\S*\s?(?:\S+\s){0,4}?(?:নেই|হয়নি|না|নয়|নি)(?!\w)|(?:নেই|হয়নি|যায় না)",
            r"\bδεν (?:\w+ ){0,2}?(?:αναφέρ\w+|περιέχ\w+|υπάρχ\w+|γνωρίζ\w+|ξέρω|μπορ\w+|δίν\w+|παρέχ\w+|προκύπτ\w+|απαντ\w+|λέ\w+|διευκριν\w+|προσδιορ\w+)",
            # Chinese, Japanese, Korean, Thai, Vietnamese, Indonesian
            r"(?:没有?|未|沒有?|并未|並未|不)(?:\S{0,6})(?:提及|提到|提供|说明|說明|给出|給出|包含|涉及|指出|信息|資訊|答案|回答|写明|知道|清楚|明确|足以|足够|提|讲|介绍|确定)|无法(?:\S{0,8})(?:回答|确定|得知|判断|找到|得出|获知|知道)|無法|无从|不知道",
            r"(?:記載|言及|情報|記述|説明|答え|回答|わか|分か|判断|述べ|書か|含ま|示さ|触れ|明記|読み取|特定|知り|不明|見つか|見当た|答え)\S{0,12}(?:ない|ません|なかった|ず)|不明です|不明である|お答えできません",
            r"(?:정보|언급|내용|답|설명|나와|명시|기재|제공|알 ?수|포함|다루|찾을|적혀|확인|모르|답변|대답)\S{0,6}\s?(?:\S{0,6}\s?){0,3}(?:없|않|못|모르)|모르겠|모릅니다|알 ?수 ?없",
            r"ไม่(?:ได้|มี|ทราบ|สามารถ|พบ|ระบุ|กล่าว|เพียงพอ)",
            r"\bkhông (?:\w+ ){0,2}?(?:đề cập|cung cấp|có|biết|nêu|nói|chứa|thể|rõ|đủ|trả lời)|\btidak (?:\w+ ){0,2}?(?:ada|disebut\w*|menyebut\w*|memuat|tahu|dapat|bisa|menjelas\w+|terdapat|mencantum\w*|dijelas\w*|cukup|memberi\w*|tersedia)|\btiada\b",
        )
    )
)  # fmt: skip
_MOST_LOOKED_AT = 400


def declines(sentence: str, words: Collection[str], *, english: bool) -> bool:
    """Say whether a lower-case sentence says that it cannot say; ``words`` are its words."""
    if english:
        return not _REFUSES.isdisjoint(words) and _REFUSAL.search(sentence) is not None
    return len(sentence) <= _MOST_LOOKED_AT and _REFUSALS.search(sentence) is not None


def citations(sentence: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where a sentence cites passages, and their numbers: "passage 2", "[1, 3]"."""
    for count, match in enumerate(_CITATION.finditer(sentence)):
        if count >= _MOST_CITED:
            break
        numbers = [int(digits) for digits in _CITED.findall(match.group()) if len(digits) <= 4]
        yield match.start(), match.end(), numbers
