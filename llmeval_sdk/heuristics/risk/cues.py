"""Turns of phrase that say what a sentence does: refuse, hedge, advise, cite … (English)."""

from __future__ import annotations

import re


_NOT = r"(?:can|could|is|are|do|does|did|has|have)(?: ?not|n['’]t)"
REFUSAL = re.compile(
    rf"unable to (?:answer|determine|provide|find|say)|{_NOT} (?:possible to )?(?:be )?(?:\w+ly )?"
    r"(?:answer|determin|tell|say|said|mention|specif|contain|provide|include|state|give|address|"
    r"find|know|cover|discuss|describe|disclose|have (?:enough|any|the|information|access))|"
    r"cannot (?:be )?(?:answer|determin|tell|say|find)|"
    r"no (?:information|mention|answer|details?|specific|relevant|direct|data|evidence|reference)|"
    r"not (?:mentioned|stated|specified|provided|clear|enough|sufficient|explicitly|available|"
    r"possible|given|included|found|addressed|covered|discussed|described)|"
    r"insufficient|(?:nothing|nowhere) (?:in|is|about)"
)
HEDGE = re.compile(
    r"\b(?:may|might|could|possibl[ey]|perhaps|likely|probably|typically|generally|usually|often|"
    r"sometimes|suggests?|seems?|appears?|depend(?:s|ing)?|vary|varies)\b"
)
META = re.compile(
    r"\b(?:passages?|provided|given|context|documents?|sources?|according to|based on|in summary|"
    r"in conclusion|overall|to summari[sz]e|here (?:is|are)|here['’]s|sure|article|text)\b"
)
ADVICE = re.compile(
    r"\b(?:note that|important to|make sure|be sure|recommended|consult|consider|remember|"
    r"advisable|ensure|essential|crucial|helpful)\b"
)
LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s")
_NOUN = r"(?:passages?|documents?|sources?|chunks?|contexts?)"
CITATION = re.compile(
    rf"\(?\b{_NOUN} ?#?\d+(?:(?:,| and|, and|-| &) ?(?:passages? )?\d+)*\)?|\[\d+(?:, ?\d+)*\]",
    re.IGNORECASE,
)
