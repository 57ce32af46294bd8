"""The words that the risk scores know, and their models: data files, English and other lists, cues.

A model is a sum of step functions, one for each feature, and boosted stumps add up to exactly that.
So it is a few short tables, which people can read and draw, and scores in microseconds::

    logit = bias + sum over features of steps[bisect(edges, value)]
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class Table(NamedTuple):
    """The step function of one feature."""

    edges: list[float]
    """The edges in rising order. A value that equals an edge takes the step below it."""
    steps: list[float]
    """The height of each step; there is one more step than there are edges."""


@dataclass(frozen=True, slots=True)
class Additive:
    """An additive logistic model."""

    bias: float
    features: Mapping[str, Table]

    def logit(self, values: Mapping[str, float]) -> float:
        """Return the sum of the steps. ``values`` has a value for every feature."""
        logit = self.bias
        for name, (edges, steps) in self.features.items():
            logit += steps[bisect_left(edges, values[name])]
        return logit

    def risk(self, values: Mapping[str, float]) -> float:
        """Return the probability, 0..1. ``values`` has a value for every feature."""
        return squashed(self.logit(values))


def squashed(logit: float) -> float:
    """Turn a logit into a probability."""
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


def from_json(data: Mapping[str, Any]) -> Additive:
    """Read a model as the training script wrote it."""
    return Additive(data["bias"], {n: Table(**table) for n, table in data["features"].items()})


LETTER, GRAM = 0.75, 1.3
"""What one letter weighs, and a pair of signs, in other languages than English."""
UNKNOWN_WEIGHT = 9.0
"""What a word weighs that the background table does not hold."""


@lru_cache(None)
def data(name: str) -> Mapping[str, Any]:
    """Read ``data/<name>.json``."""
    path = files("llmeval_sdk.heuristics.risk") / "data" / f"{name}.json"
    loaded: Mapping[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def lines(name: str) -> list[str]:
    """Read the lines of ``data/<name>.txt`` that are neither empty nor comments."""
    path = files("llmeval_sdk.heuristics.risk") / "data" / f"{name}.txt"
    found = path.read_text(encoding="utf-8").splitlines()
    return [line for line in found if line and not line.startswith("#")]


def listed(name: str) -> list[str]:
    """Read the words of ``data/<name>.txt``."""
    return " ".join(lines(name)).split()


@lru_cache(None)
def model(file: str, part: str) -> Additive:
    """Read one model of a data file."""
    return from_json(data(file)[part])


class StemWeights(dict[str, float]):
    """The inverse document frequency of each stem, including stems that are not in the table."""

    def __missing__(self, stem: str) -> float:
        return UNKNOWN_WEIGHT


@lru_cache(None)
def background() -> StemWeights:
    """Return how much each stem weighs in English texts and answers."""
    table: Mapping[str, str] = data("background")["stems"]
    return StemWeights(
        {stem: float(weight) for weight, stems in table.items() for stem in stems.split()}
    )


def weigher(table: Mapping[str, float] | None = None, *, english: bool) -> Callable[[str], float]:
    """Return the function that weighs a stem, by the background table or by the word's length."""
    if not english:
        return _by_length
    return (background() if table is None else StemWeights(table)).__getitem__


def _by_length(word: str) -> float:
    """Weigh a word of an unknown language by its length, because long words are rare."""
    return GRAM if len(word) <= 2 and not word.isascii() else LETTER * len(word)


# English word lists, and words that tell languages apart, all written for this project.


def words(listed: str) -> frozenset[str]:
    """Read words that are separated by white space."""
    return frozenset(listed.split())


STOP_WORDS = words(
    """
    a about above after again against all also although am an and another any are as at be
    because been before being below between both but by can cannot could did do does doing done
    down during each either else etc ever every few for from further get gets given had has have
    having he her here hers herself him himself his how however i if in instead into is it its
    itself just let like many may me might more most much must my myself neither no nor not now
    of off often on once one only onto or other others otherwise our ours out over own per
    perhaps quite rather same she should since so some such than that the their theirs them
    themselves then there therefore these they this those though through thus to too toward
    towards under until up upon us very via was we well were what when where whether which while
    who whom whose why will with within without would yet you your yours yourself don't doesn't
    didn't isn't aren't wasn't weren't won't can't couldn't shouldn't wouldn't it's that's
    there's here's you're they're we're i'm i've you've we've
    """
)

FUNCTION_WORDS = {
    "en": words(
        """
        the and of to is that for with was are this it by from be as at have you not or
        can your what how which when
        """
    ),
    "de": words(
        """
        der die das und ist von mit den dem nicht ein eine für auf des im zu sich auch
        wird wie werden bei oder sind was
        """
    ),
    "fr": words(
        """
        le la les des et est une dans pour que qui sur pas du avec par au sont ce il elle
        ou comment quel aux
        """
    ),
    "es": words(
        """
        el la los las y es una en que por con para del se no al como lo su más sus qué
        cuál son está
        """
    ),
    "it": words(
        """
        il lo gli e è una di che per con del della non sono si alla dei nel come le da più
        al anche
        """
    ),
    "pt": words(
        """
        o os as e é uma em que por com para do da não se dos das no na ao como mais são
        foi
        """
    ),
    "nl": words(
        """
        de het een en van is dat op te zijn met voor niet aan er door wordt ook naar hoe
        wat bij uit
        """
    ),
    "sv": words(
        """
        och att det som en på är av för med den till inte om ett var har jag de
        """
    ),
    "pl": words(
        """
        i w na z się nie do to jest że o od po jak co przez dla są lub ale
        """
    ),
    "fi": words(
        """
        ja on ei että se oli joka ovat kuin myös mutta hän sen tai mitä miten
        """
    ),
    "tr": words(
        """
        ve bir bu için ile da de çok olarak ne daha olan gibi kadar nasıl nedir
        """
    ),
}

ABBREVIATIONS = words(
    """
    dr mr mrs ms prof st vs jr sr gen col lt capt sgt rev hon gov sen rep messrs mt ft fig eq approx
    ca cf viz inc ltd corp dept univ assn bros nr bzw usw sog evtl ggf inkl abs str hr fr frl dott
    dra sra srta ing arq lic mme mlle av art op cit ed eds vol pp ch sec ver mio mrd dhr mevr bijv
    """
)
"""Words whose full stop does not end a sentence."""

MONTHS = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june",
    "jul": "july", "aug": "august", "sep": "september", "sept": "september", "oct": "october",
    "nov": "november", "dec": "december",
}  # fmt: skip

_NUMBERS = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(_NUMBERS.split(), start=2)
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80",
     "ninety": "90", "hundred": "100", "twice": "2", "dozen": "12"}  # fmt: skip

SCALES = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, "b": 10**9,
}  # fmt: skip

SYMBOLS = {
    "%": "percent", "٪": "percent", "$": "dollar", "€": "euro", "£": "pound", "°": "degree",
    "¥": "yen",
}  # fmt: skip


# Word lists of languages other than English.
#
# Each list joins all languages, because short answers do not show which language they are in. A
# wrong guess would cost more than the few words that mean different things in two languages.


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
    """Bring a word into one form: lower case, no vowel signs, and no Arabic article."""
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


def _numbers(lines: Iterable[str]) -> dict[str, str]:
    """Read lines of ``digits: words``."""
    table = {}
    for line in lines:
        digits, words = line.split(":")
        table.update(dict.fromkeys(map(fold, words.split()), digits.strip()))
    return table


OTHER_NUMBER_WORDS = _numbers(lines("number_words"))

OTHER_STOP_WORDS = _folded(
    word for name, words in FUNCTION_WORDS.items() if name != "en" for word in words
) | _folded(listed("stop_words"))

CLOSED = OTHER_STOP_WORDS | OTHER_NUMBER_WORDS.keys()

NEGATIONS = _folded(listed("negations"))

DENSE_NEGATIONS = [
    "不",
    "没",
    "沒",
    "无法",
    "無法",
    "未",
    "禁止",
    "除外",
    "非",
    "别",
    "勿",
    "ない",
    "ません",
    "ず",
    "なく",
    "なかっ",
    "禁じ",
    "対象外",
    "いいえ",
    "不可",
    "않",
    "없",
    "아니",
    "못",
    "안",
    "금지",
    "제외",
    "ไม่",
    "ห้าม",
]
"""Negations in scripts without spaces. They are searched for as they stand."""

_OF_NO_MEANING = [
    "不过",
    "不仅",
    "不但",
    "不少",
    "不同",
    "不超过",
    "不晚于",
    "不得超过",
    "非常",
    "無料",
    "少なくとも",
    "未満",
    "未成年",
    "不使用",
    "かまいません",
    "構いません",
    "問題ありません",
    "差し支えありません",
    "ならない",
    "なければなりません",
    "안내",
    "안전",
    "안에",
    "안정",
]
"""Longer words that contain one of them and negate nothing."""


_HARMLESS_BEHIND = _folded(
    [
        "only",
        "later",
        "more",
        "less",
        "fewer",
        "longer",
        "earlier",
        "until",
        "than",
        "just",
        "nur",
        "mehr",
        "später",
        "länger",
        "weniger",
        "plus",
        "moins",
        "seulement",
        "uniquement",
        "sólo",
        "solo",
        "más",
        "menos",
        "più",
        "meno",
        "soltanto",
        "mais",
        "menos",
        "apenas",
        "meer",
        "minder",
        "later",
        "langer",
        "alleen",
        "позднее",
        "позже",
        "более",
        "больше",
        "менее",
        "меньше",
        "только",
        "ранее",
    ]
)
"""Words that turn a negation before them into a bound, as in "not later than" and "not only"."""


def negates(tokens: Sequence[str], *, english: bool) -> bool:
    """Return whether tokens hold a negation, also inside runs of a script without spaces."""
    if english and NEGATIONS.isdisjoint(map(str.lower, tokens)):
        return False
    words = [fold(token) for token in tokens]
    for at, word in enumerate(words):
        if (word in NEGATIONS or (word[0] == "و" and word[1:] in NEGATIONS)) and not (
            at + 1 < len(words) and words[at + 1] in _HARMLESS_BEHIND
        ):
            return True
    dense = " ".join(run for run in tokens if run > "\u0dff")
    if english or not dense:
        return False
    for harmless in _OF_NO_MEANING:
        dense = dense.replace(harmless, " ")
    return any(map(dense.__contains__, DENSE_NEGATIONS))


# Turns of phrase that say what a sentence does: decline, hedge, advise, cite.


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
_REFUSES = words(
    """
    unable cannot no not insufficient nothing nowhere can't couldn't isn't aren't don't
    doesn't  didn't hasn't haven't
    """
)
"""Words of which every sentence that the pattern matches has at least one."""
HEDGES = words(
    """
    may might could possible possibly perhaps likely probably typically generally usually
    often  sometimes suggest suggests seem seems appear appears depend depends depending vary
    varies
    """
)
META = words(
    """
    passage passages provided given context contexts document documents source sources
    according  based summary conclusion overall summarize summarise here's sure article text
    """
)
ADVICE = words(
    """
    note important sure recommended consult consider remember advisable ensure essential
    crucial  helpful
    """
)
LIST_ITEM = re.compile(r"\s{0,40}(?:[-*•+]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
_NOUN = (
    r"(?:passages?|documents?|sources?|chunks?|contexts?|dokument\w?|quellen?|abschnitt|pasajes?|"
    r"documentos?|fuentes?|passaggi[o]?|document[oi]|font[ei]|passagens?|trechos?|bron|bronnen|"
    r"отрыв\w{1,3}|документ\w?|источник\w?|فقرة|الفقرة|مستند|المستند|文档|段落|资料|文書|資料|문서|단락)"
)
_CITATION = re.compile(
    rf"\(?(?<!\w){_NOUN} ?#?\d+(?:(?:,| and|, and|-| &) ?(?:passages? )?\d+)*\)?"
    r"|\[\d+(?:, ?\d+)*\]",
    re.IGNORECASE,
)
_CITED = re.compile(r"\d+")
_MAX_CITED = 20

_MAX_LOOKED_AT = 400


def declines(sentence: str, words: Collection[str], *, english: bool) -> bool:
    """Return whether a lower-case sentence, with these words, says that it cannot answer."""
    if english:
        return not _REFUSES.isdisjoint(words) and _REFUSAL.search(sentence) is not None
    return len(sentence) <= _MAX_LOOKED_AT and _refusals().search(sentence) is not None


@lru_cache(None)
def _refusals() -> re.Pattern[str]:
    """Read the patterns of other languages than English, with a bound for the ends of words.

    Without one, a word as long as the text would be read from each place where one can begin.
    """
    pattern = "|".join(lines("refusals"))
    for letters in (r"\w", r"\S"):
        pattern = pattern.replace(f"{letters}*", f"{letters}{{0,30}}")
        pattern = pattern.replace(f"{letters}+", f"{letters}{{1,30}}")
    return re.compile(pattern)


def citations(sentence: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where a sentence cites passages, and their numbers: "passage 2", "[1, 3]"."""
    for count, match in enumerate(_CITATION.finditer(sentence)):
        if count >= _MAX_CITED:
            break
        numbers = [int(digits) for digits in _CITED.findall(match.group()) if len(digits) <= 4]
        yield match.start(), match.end(), numbers
