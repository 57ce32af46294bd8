"""Turns of phrase that say what a sentence does: decline, hedge, advise, cite."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from llmeval_sdk.heuristics.risk import _resources
from llmeval_sdk.heuristics.risk._words import words


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
LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s")
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
_MOST_CITED = 20

_MOST_LOOKED_AT = 400


def declines(sentence: str, words: Collection[str], *, english: bool) -> bool:
    """Return whether a lower-case sentence, with these words, says that it cannot answer."""
    if english:
        return not _REFUSES.isdisjoint(words) and _REFUSAL.search(sentence) is not None
    return len(sentence) <= _MOST_LOOKED_AT and _refusals().search(sentence) is not None


@lru_cache(None)
def _refusals() -> re.Pattern[str]:
    """Read the patterns of other languages than English."""
    return re.compile("|".join(_resources.lines("refusals")))


def citations(sentence: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where a sentence cites passages, and their numbers: "passage 2", "[1, 3]"."""
    for count, match in enumerate(_CITATION.finditer(sentence)):
        if count >= _MOST_CITED:
            break
        numbers = [int(digits) for digits in _CITED.findall(match.group()) if len(digits) <= 4]
        yield match.start(), match.end(), numbers
