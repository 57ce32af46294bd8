"""Word lists of languages other than English, all written for this project.

Each list joins all languages, because short answers do not show which language they are in. A wrong
guess would cost more than the few words that mean different things in two languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmeval_sdk.heuristics.risk import _resources
from llmeval_sdk.heuristics.risk._words import FUNCTION_WORDS


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


NUMBER_WORDS = _numbers(_resources.lines("number_words"))

STOP_WORDS = _folded(
    word for name, words in FUNCTION_WORDS.items() if name != "en" for word in words
) | _folded(_resources.listed("stop_words"))

CLOSED = STOP_WORDS | NUMBER_WORDS.keys()

NEGATIONS = _folded(_resources.listed("negations"))

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
