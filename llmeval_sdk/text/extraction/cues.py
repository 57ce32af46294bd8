"""The words that announce a field: "total" before an amount, "expires" beside a date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from llmeval_sdk.model.chat import bounded_question


MAX_CUES = 24
MAX_CHARACTERS = 600
NAME, DESCRIPTION, REQUEST = 1.0, 0.6, 0.4
"""What a cue is worth by where it was read: the field's own name says most."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_ENDINGS = ("ations", "ation", "ing", "ies", "ied", "ers", "ed", "er", "es", "s", "e", "y")
_STOP_WORDS = """
a an and any are as at be been by can did do does document documents every field for
from give given has have how if in into is it its may must name of on one or other out
page passage please return should such than that the their them then there these they
this those to value was were what when where which who whom whose why will with word
words would you your all each exact extract extracted find first get look most not only
per text tell use used using within under about after before between during also both
"""
_STOP = frozenset(_STOP_WORDS.split())


def cues(config: Any, request: Any) -> tuple[tuple[str, float], ...]:
    """Read the cue words of a field, as stems with what each is worth, the field's name first.

    ``config`` is a Record's ``field_config``: its ``name``, its ``description``, and ``cues``, a
    list of further words that count like the name. ``request`` adds the words of its question.
    """
    config = config if isinstance(config, Mapping) else {}
    name, description, more = config.get("name"), config.get("description"), config.get("cues")
    words = [name] if isinstance(name, str) else []
    if isinstance(more, (list, tuple)):
        words += [cue for cue in more[:MAX_CUES] if isinstance(cue, str)]
    return _read(
        " ".join(words)[:MAX_CHARACTERS],
        description[:MAX_CHARACTERS] if isinstance(description, str) else "",
        bounded_question(request)[-MAX_CHARACTERS:],
    )


@lru_cache(512)
def _read(name: str, description: str, request: str) -> tuple[tuple[str, float], ...]:
    worth: dict[str, float] = {}
    sources = ((_JOINT.sub(" ", name), NAME), (description, DESCRIPTION), (request, REQUEST))
    for text, weight in sources:
        for word in _WORD.findall(text.lower()):
            if word not in _STOP and len(worth) < MAX_CUES:
                worth.setdefault(_stem(word), weight)
    return tuple(worth.items())


def _stem(word: str) -> str:
    """Cut a word to the beginning that its inflections share."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
