"""Words for actions: what users ask for, what agents say they did, and the tools that do it.

A tool is *kin* to a verb if its name contains one of the verb's stems. The lists are English, and
rather too wide than too narrow, because a wrong kinship only hides a fault, and a missing one would
report a fault that is none. Measured on six sets of agent runs (see the documentation).
"""

from __future__ import annotations

import re
from functools import lru_cache


_DOES = {
    "cancel": "cancel void refund",
    "book": "book reserv order purchas buy checkout place cart pay money",
    "reserv": "book reserv",
    "purchas": "book order purchas buy checkout cart pay",
    "order": "order purchas buy checkout cart place",
    "paid": "pay money transfer checkout transaction book",
    "transfer": "transfer send money mov",
    "updat": "updat modif chang edit set reschedul move append put patch exchang add renam",
    "chang": "updat modif chang edit set reschedul exchang move renam",
    "modif": "updat modif chang edit set reschedul exchang",
    "switch": "exchang modif updat chang",
    "swap": "exchang swap modif",
    "exchang": "exchang modif swap",
    "return": "return refund",
    "refund": "refund return cancel money send exchang modif",
    "sent": "send email mail messag post transfer money pay shar repl invite certificate transact",
    "email": "send email mail",
    "creat": "creat add mak mkdir touch new book post open generat",
    "add": "add creat updat append invit put book modif insert",
    "schedul": "schedul creat add book event transaction",
    "reschedul": "reschedul updat modif creat",
    "delet": "delet remov rm clear cancel",
    "remov": "remov delet rm clear cancel updat",
    "submit": "submit post send creat issue input file upload exchang return",
    "upload": "upload send post push input share",
    "download": "download clone get fetch pull",
    "upgrad": "upgrad updat modif chang",
    "invit": "invit add send",
    "shar": "shar send post invit",
    "post": "post send creat publish messag tweet",
    "mov": "mov mv transfer updat",
    "clon": "clon",
    "star": "star",
    "push": "push",
    "issu": "issu send certificate refund",
    "regist": "regist creat add sign input",
    "sav": "sav creat writ append download",
}
"""For each stem of a participle, such as "cancelled": stems of the names of tools that do it."""
_SERVES = {
    "cancel": "cancel void refund remov delet",
    "return": "return refund",
    "refund": "refund return cancel money certificate",
    "exchange swap": "exchang modif swap",
    "book reserve": "book reserv order input",
    "buy purchase": "buy purchas checkout order cart input",
    "pay transfer": "pay money transfer transaction checkout input send",
    "send email forward reply message": "send mail messag post shar money transfer input repl",
    "update change modify switch edit correct":
        "updat chang modif edit set reschedul exchang append create_file password input",
    "create add schedule":
        "creat add schedul mak mkdir touch new event append input cart post invit book",
    "delete remove clear": "delet remov clear rm cancel",
    "share invite": "shar invit add send",
    "download": "download clone",
    "upload submit fill": "upload submit input push post send",
    "reschedule postpone": "reschedul updat modif creat",
    "upgrade": "upgrad updat modif",
    "push commit": "push commit",
    "clone": "clone",
    "star": "star",
    "post": "post send tweet messag",
    "save": "sav creat append download mov copy write",
}  # fmt: skip
"""For each verb of a request: stems of the names of tools that may fulfil it. These are more than
above, because a request leaves open how it is fulfilled."""
_STEMS = {stem: tuple(kin.split()) for stem, kin in _DOES.items()}
_BY_LENGTH = sorted(_STEMS, key=len, reverse=True)
_REQUESTS = {
    verb: (verbs, tuple(kin.split())) for verbs, kin in _SERVES.items() for verb in verbs.split()
}

_DONE = re.compile(
    r"\b(cancell?ed|booked|reserved|purchased|ordered|updated|changed|modified|sent|emailed|paid|"
    r"transferred|returned|refunded|exchanged|created|added|scheduled|rescheduled|deleted|removed|"
    r"submitted|uploaded|downloaded|upgraded|invited|shared|posted|moved|cloned|starred|pushed|"
    r"issued|registered|saved|swapped|switched|processed|completed|applied)\b",
    re.IGNORECASE,
)
_CLAIM = re.compile(
    r"(?:\bI(?:['’]ve| have)?|\b(?:has|have|had)(?: now)?(?: also)? been|\b(?:was|were|is now|are"
    r" now)|\bsuccessfully)\s+(?:(?:successfully|now|also|already|just|fully)\s+)*$",
    re.IGNORECASE,
)
"""What stands before a participle where somebody says that it is done."""
_HEDGE = re.compile(
    r"\b(?:once|if|when|after|before|until|will|would|can|could|may|might|not|unless|whether"
    r"|as soon as|which|that|who|already|previously|cannot)\b|n['’]t\b",
    re.IGNORECASE,
)
"""What turns such a clause into a plan, a condition or old news."""
_CLAUSE_END = re.compile(r"[.\n!?;:]")
_BEFORE = 90
"""Characters before a participle in which its subject is looked for."""
_MOST_CLAIMS = 100
_WORD = re.compile(r"[a-z]+")
_SORRY = re.compile(
    r"sorry|apologi|unfortunately|unable to|cannot|can[’']t|not able to|couldn[’']t|could not"
    r"|not possible",
    re.IGNORECASE,
)


@lru_cache(maxsize=512)
def kin_of(verb: str) -> tuple[str, ...]:
    """Return the stems by which a tool for this verb is recognised.

    An empty tuple means that any tool may do it.
    """
    stem = next((stem for stem in _BY_LENGTH if verb.startswith(stem)), None)
    return () if stem is None else _STEMS[stem]


def is_kin(tool: str, stems: tuple[str, ...]) -> bool:
    """Say whether a tool's name (lower case) contains one of some stems."""
    return any(stem in tool for stem in stems)


def wanted(asked: str) -> dict[str, tuple[str, ...]]:
    """Return the actions that a user's words (lower case) ask for, each with its kin.

    Verbs for about the same are one action: to send and to email. Only plain forms count, because
    the past tense tells what happened, and a gerund is rarely a request.
    """
    actions: dict[str, tuple[str, tuple[str, ...]]] = {}
    for word in sorted(_REQUESTS.keys() & set(_WORD.findall(asked))):
        verbs, kin = _REQUESTS[word]
        actions.setdefault(verbs, (word, kin))
    return dict(actions.values())


def claims(text: str) -> list[tuple[str, str]]:
    """Return the actions that a text reports as done, each as its verb and an excerpt around it.

    A claim is a participle after "I have", "has been", "successfully" and the like, in a clause
    without a condition, a plan or a negation before it.
    """
    claimed: list[tuple[str, str]] = []
    for match in _DONE.finditer(text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        subject = _CLAIM.search(before)
        if subject is None:
            continue
        clause = _CLAUSE_END.split(before[: subject.start()])[-1]
        if not _HEDGE.search(clause):
            shown = text[max(0, match.start() - 30) : match.end() + 40]
            claimed.append((match[1].lower(), " ".join(shown.split())))
            if len(claimed) >= _MOST_CLAIMS:
                break
    return claimed


def apologises(text: str) -> bool:
    """Say whether a text says sorry, or that something was not possible."""
    return _SORRY.search(text) is not None
