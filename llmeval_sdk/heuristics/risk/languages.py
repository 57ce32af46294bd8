"""Closed word lists of languages other than English, all written for this project.

One union over all languages stands for each list: short answers do not show which language they
are in, and a wrong guess would cost more than the few words that mean different things in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmeval_sdk.heuristics.risk.words import FUNCTION_WORDS


_FOLDED = str.maketrans(
    {
        **dict.fromkeys(map(chr, range(0x64B, 0x653)), None),
        **dict.fromkeys("أإآٱ", "ا"),
        "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ё": "е", "ς": "σ", "\u0640": None,
        "\u200c": None, "’": "'",
    }
)  # fmt: skip
_ARABIC_PREFIXES = ("وال", "بال", "فال", "كال", "ال", "لل")


def fold(word: str) -> str:
    """Write a word one way: lower case, no vowel signs, Arabic without its article."""
    word = word.lower()
    if word.isascii():
        return word
    word = word.translate(_FOLDED) or word
    if "\u0600" <= word[0] < "\u0700" and len(word) > 4:
        for prefix in _ARABIC_PREFIXES:
            if word.startswith(prefix) and len(word) > len(prefix) + 1:
                return word[len(prefix) :]
    return word


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(fold, words))


def _numbers(listed: str) -> dict[str, str]:
    """Read lines of ``digits: words``."""
    table = {}
    for line in listed.strip().splitlines():
        digits, words = line.split(":")
        table.update(dict.fromkeys(map(fold, words.split()), digits.strip()))
    return table


NUMBER_WORDS = _numbers(
    """
    2: 두 둘 zwei beide beiden deux dos due dois duas twee två dwa dwie dwóch kaksi iki два две двух оба два
    2: اثنان اثنين دو दो দুই δύο שני שתי doi două dva dvě
    3: 세 셋 drei trois tres tre tri três drie trzy trzech kolme üç три трёх трех ثلاثة ثلاث سه तीन তিন τρεις τρία שלוש שלושה trei tři
    4: 네 넷 vier quatre cuatro quattro quatro fyra cztery czterech neljä dört четыре четырёх четырех أربعة أربع چهار चार চার τέσσερα ארבע ארבעה patru čtyři
    5: 다섯 fünf cinq cinco cinque vijf fem pięć pięciu viisi beş пять пяти خمسة خمس پنج पांच पाँच পাঁচ πέντε חמש חמישה cinci pět
    6: 여섯 sechs six seis zes sex sześć sześciu kuusi altı шесть шести ستة ست شش छह छः ছয় έξι שש שישה șase šest
    7: 일곱 sieben sept siete sette sete zeven sju siedem siedmiu seitsemän yedi семь семи سبعة سبع هفت सात সাত επτά שבע שבעה șapte sedm
    8: 여덟 acht huit ocho otto oito åtta osiem ośmiu kahdeksan sekiz восемь восьми ثمانية ثماني ثمان هشت आठ আট οκτώ שמונה opt osm
    9: 아홉 neun neuf nueve nove negen nio dziewięć dziewięciu yhdeksän dokuz девять девяти تسعة تسع नौ নয় εννέα תשע תשעה nouă devět
    10: 열 zehn dix diez dieci dez tien tio dziesięć dziesięciu kymmenen десять десяти عشرة عشر दस দশ δέκα עשר עשרה zece deset
    11: elf onze undici elva jedenaście yksitoista одиннадцать ग्यारह এগারো
    12: zwölf douze doce dodici doze twaalf tolv dwanaście kaksitoista двенадцать двенадцати बारह বারো δώδεκα
    15: 다섯 fünfzehn quinze quince quindici vijftien femton piętnaście пятнадцать пятнадцати पंद्रह পনেরো
    20: zwanzig vingt veinte venti vinte twintig tjugo dwadzieścia kaksikymmentä yirmi двадцать двадцати عشرون عشرين بیست बीस বিশ
    30: dreißig trente treinta trenta trinta dertig trettio trzydzieści otuz тридцать тридцати ثلاثون ثلاثين तीस ত্রিশ
    """
)

STOP_WORDS = _folded(
    word for name, words in FUNCTION_WORDS.items() if name != "en" for word in words
) | _folded(
        """
        ein eine einen einem einer eines dem den des im am zum zur ins vom wer wie was wo wann wenn
        dass man noch nur aber als bis durch gegen ohne um vor nach über unter zwischen wird werden
        wurde kann können muss müssen darf dürfen soll sollte hat haben war waren sein seine seiner
        ihr ihre ihrer sie er es wir diese dieser dieses diesem diesen jeder jede sofern sowie etwa
        un une de du d'un d'une en au aux se sa ses leur leurs qui que dont où lors être été ont
        avait peut doit cette cet ces après avant chez entre jusqu
        unos unas lo le les sus ha han hay fue ser puede pueden debe deben este esta estos estas
        cuando donde quien desde hasta sobre entre sin
        dei degli delle nel nella nello negli nelle dal dalla dallo sul sulla uno gli ha hanno può
        possono deve devono questo questa questi queste quando dove chi fino tra fra senza
        um uma uns umas pelo pela pelos pelas nos nas seu sua seus suas tem têm pode podem deve devem
        este esta estes estas isso quando onde quem até entre sem
        deze dit die dan als naar over onder tussen tot bij kan kunnen moet moeten mag mogen heeft
        hebben werd worden hun haar zijn wie waar wanneer zonder
        и в во не на с со что как по из к ко у за от о об для это его её ее их он она они мы вы при
        до после между можно должен должна должны может могут быть был была было были если когда где
        кто чтобы или но же ли а то том этот эта эти этого этой который которая которые которых
        в у з на до що як та і або для від по не це він вона вони бути був була
        في من على إلى عن مع أن إن كان كانت هذا هذه ذلك تلك التي الذي الذين ما لا لم لن هو هي هم كل
        قبل بعد بين عند حتى أو ثم قد كما إذا يجب يمكن دون خلال
        در از به با که را این آن است بود شد برای تا یا و هم می شود شده کرد کند های هر
        के का की को में से है हैं था थे थी पर और यह वह एक लिए ने भी तक या कि जो हो होता होती होते
        गया गई किया जा सकता सकते करने
        এবং এর ও এই যে হয় হয়েছে করা করে থেকে জন্য একটি তার তা না সে কি ছিল হবে পর্যন্ত
        και το τα η ο οι του της των τον την στο στη στην για με σε από που είναι να δεν θα
        של את על עם לא הוא היא הם זה זו כי אם או גם כל אל מן יש אין היה היתה
        """.split()
)

CLOSED = STOP_WORDS | NUMBER_WORDS.keys()

NEGATIONS = _folded(
    """
    no not never none nobody nothing neither nor cannot don't doesn't didn't isn't aren't
    wasn't weren't won't can't couldn't shouldn't wouldn't hasn't haven't mustn't forbidden
    prohibited banned excluded disallowed impossible unable
    nein nicht nichts kein keine keinen keinem keiner keines nie niemals niemand verboten untersagt
    ausgeschlossen unmöglich unzulässig
    non pas jamais aucun aucunement inutile aucune rien personne interdit interdite interdits interdites exclu exclue
    exclus exclues défendu impossible n'est n'a n'ont
    nunca jamás nadie ningún ninguna ninguno nada tampoco prohibido prohibida prohibidos prohibidas
    excluido excluida excluidos excluidas imposible
    mai nessuno nessun nessuna niente nulla vietato vietata vietati vietate escluso esclusa esclusi
    escluse proibito impossibile
    não nem ninguém nenhum nenhuma proibido proibida proibidos proibidas excluído excluída excluídos
    excluídas impossível
    nee niet geen nooit niemand niets verboden uitgesloten onmogelijk
    nej inte aldrig ingen inget inga förbjudet undantaget
    nie nigdy nikt żaden żadna zabronione zakazane wykluczone
    ei eivät eikä ikinä kielletty
    hayır değil yok yasak yasaktır hiç asla
    нет не ни никогда никто ничего нельзя невозможно запрещено запрещена запрещён запрещены
    запрещается исключено исключены исключён исключена ні немає заборонено
    لا لم لن ليس ليست غير ممنوع ممنوعة يحظر يُحظر محظور محظورة مستثناة مستثنى تستثنى كلا
    نه نیست نمی ممنوع نباید نکنید
    नहीं न मत ना नही वर्जित मना निषिद्ध
    না নয় নেই নি নিষিদ্ধ
    δεν όχι μη μην ποτέ απαγορεύεται
    לא אין אסור אינו אינה
    """.split()
)

DENSE_NEGATIONS = (
    "不 没 沒 无法 無法 未 禁止 除外 非 别 勿 ない ません ず なく なかっ 禁じ 対象外 いいえ 不可 "
    "않 없 아니 못 안 금지 제외 ไม่ ห้าม"
).split()
"""Of scripts that do not part words: searched as they stand."""

_OF_NO_MEANING = "不过 不仅 不但 不少 不同 不超过 不晚于 不得超过 非常 無料 少なくとも 未満 未成年 不使用 かまいません 構いません 問題ありません 差し支えありません ならない なければなりません 안내 안전 안에 안정".split()
"""Longer words that hold one of them and negate nothing."""


_HARMLESS_BEHIND = _folded(
    """
    only later more less fewer longer earlier until than just nur mehr später länger weniger
    plus moins seulement uniquement sólo solo más menos più meno soltanto mais menos apenas
    meer minder later langer alleen позднее позже более больше менее меньше только ранее
    """.split()
)
"""Behind a negation they make a bound of it: "not later than", "not only"."""


def negates(tokens: Sequence[str], dense: str) -> bool:
    """Say whether tokens, or text of a script without spaces, hold a negation."""
    words = [fold(token) for token in tokens]
    for at, word in enumerate(words):
        if (word in NEGATIONS or (word[0] == "و" and word[1:] in NEGATIONS)) and not (
            at + 1 < len(words) and words[at + 1] in _HARMLESS_BEHIND
        ):
            return True
    if not dense:
        return False
    for harmless in _OF_NO_MEANING:
        dense = dense.replace(harmless, " ")
    return any(map(dense.__contains__, DENSE_NEGATIONS))
