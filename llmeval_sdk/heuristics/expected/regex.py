"""``regex:PATTERN``: whether the answer has a certain form."""

from __future__ import annotations

import re

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.heuristics.expected._ground_truth import (
    SECONDS,
    compiled,
    of_answer,
    searched,
    unrated,
)
from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation


_NAMED = re.compile(r"([A-Za-z]\w{0,99})=(.+)", re.ASCII | re.DOTALL)


def by_pattern(text: str) -> FunctionHeuristic[Evaluation | None]:
    r"""Make a heuristic of ``PATTERN``, or of ``NAME=PATTERN`` where there are several.

    The value says whether the pattern is found anywhere in the answer (the response, else the
    extracted value); ``^`` and ``$`` bind it to the ends. The syntax is that of the package
    ``regex``, a superset of Python's. A search that takes longer than a tenth of a second is given
    up and is an error.

    Raises:
        ConfigurationError: the pattern is none, or the extra is not installed.

    Examples:
        >>> from llmeval_sdk.heuristics.expected.regex import by_pattern
        >>> by_pattern(r"year=^\d{4}$").name
        'year'
    """
    if not text:
        raise ConfigurationError(r"regex needs a pattern, such as regex:^\d{4}$")
    named = _NAMED.fullmatch(text)
    name, pattern = named.groups() if named else ("regex", text)
    search = compiled(pattern, who=f"regex:{text}")

    def check(answer: str) -> Evaluation:
        try:
            return Evaluation(name, searched(search, answer) is not None)
        except TimeoutError:
            why = f"not searched: the pattern takes longer than {SECONDS:g} s on this answer"
            return unrated(name, "timeout", why)

    return of_answer(name, check, "not searched")
