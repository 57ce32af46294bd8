r"""How long a text may be that a pattern of the app's is matched with.

`re` searches by trying: where a pattern leaves several ways to read a text, a text that fits none
of them costs all of them, inside one call that nothing can interrupt. ``(a+)+`` takes seconds for
thirty characters. So the ways are counted from the parse tree, before the first text is matched. A
repeat that can end in many places is many ways, unless what follows it is a character that it
cannot hold: ``\d+-\d+`` leaves one way, ``.*-.*`` as many as there are characters. Repeats within a
repeat leave one only where each round begins or ends with a character of its own.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple


_sre: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
"""The reader of patterns that `re` itself uses."""


MAX_PATTERN = 2_000
"""Characters of a pattern."""
MAX_TEXT = 1_000
"""Characters of the longest text that is matched, even where there is one way."""
MAX_STEPS = 50_000
"""Ways that a text may cost: about a millisecond."""
_SMALL = 8
"""A repeat of at most so many rounds is read as that many parts after each other."""
_ODD = "\0\t\n\r \x1f\x7f\x85\xa0ªµßàéİıſΣÆŒДא٣中ａ１²ⅷ\u2028\u3000\U0001f600\U00010400"
"""Characters beyond ASCII that stand for all others, of each category that `re` tells apart."""


class UnboundedPatternError(ValueError):
    """A pattern that no text may be matched with; the message is a sentence that says why."""


@lru_cache(maxsize=512)
def longest_text(pattern: str | re.Pattern[str]) -> int:
    """Return how many characters a text may have that ``pattern`` is matched with, from its start.

    Raises:
        UnboundedPatternError: a few characters can take seconds, or the pattern is too long.
        re.error: it is none.
    """
    text = pattern if isinstance(pattern, str) else pattern.pattern
    flags = 0 if isinstance(pattern, str) else pattern.flags
    if not isinstance(text, str) or len(text) > MAX_PATTERN:
        raise UnboundedPatternError(f"a pattern is a text of at most {MAX_PATTERN:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _sre.parse(text, flags)
        ways = _Reader(text, tree.state.flags).ways(tree)
    except RecursionError:
        raise UnboundedPatternError("the pattern is nested too deep") from None
    return ways.longest()


class _Ways(NamedTuple):
    """In how many ways a part can end: some, each as often as a text has characters."""

    limited: int = 1
    unlimited: int = 0

    def times(self, other: _Ways) -> _Ways:
        limited = min(self.limited * other.limited, MAX_STEPS + 1)
        return _Ways(limited, self.unlimited + other.unlimited)

    def longest(self) -> int:
        length = MAX_TEXT
        while length and self.limited * length**self.unlimited > MAX_STEPS:
            length = length * 9 // 10
        if length < _SMALL:
            raise UnboundedPatternError(_WHY)
        return length


_ONE = _Ways()
_WHY = (
    "the pattern can take seconds for a few characters, since its repeats can share a text in many"
    " ways: let each begin or end with a character that the others cannot hold"
)


class _Part(NamedTuple):
    """A part of a sequence: one character, a repeat, alternatives."""

    characters: frozenset[int]
    """All that it can hold."""
    first: frozenset[int]
    """What it can begin with."""
    is_needed: bool
    """Whether it holds a character at least."""
    ways: _Ways
    is_ambiguous: bool = False
    """Whether it can read one and the same text in two ways."""
    is_assertion: bool = False
    """Whether it holds nothing: it is tried for each way before it, and adds none behind it."""


class _Reader:
    """Reads the parse tree of one pattern."""

    def __init__(self, text: str, flags: int) -> None:
        self._ignores_case = bool(flags & re.IGNORECASE)
        known = {*map(ord, text), *map(ord, _ODD), *range(128)}
        if self._ignores_case:
            known |= {ord(c) for each in known for c in _cases(each)}
        self._all = frozenset(known)

    def ways(self, tree: Iterable[Any]) -> _Ways:
        """Return in how many ways a sequence can be read, at most."""
        return _of_sequence(self._parts(tree))

    def _parts(self, tree: Iterable[Any]) -> list[_Part]:
        parts: list[_Part] = []
        for operator, argument in tree:
            parts += self._read(str(operator), argument)
            if len(parts) > MAX_PATTERN:
                raise UnboundedPatternError("the pattern has too many parts")
        return parts

    def _read(self, operator: str, argument: Any) -> list[_Part]:  # noqa: PLR0911 - one of each kind
        if operator in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
            held = self._held(operator, argument)
            return [_Part(held, held, True, _ONE)]
        if operator == "SUBPATTERN":
            return self._parts(argument[3])
        if operator == "ATOMIC_GROUP":
            return self._parts(argument)
        if operator in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            return self._repeat(*argument)
        if operator == "BRANCH":
            return [_of_branches([self._parts(each) for each in argument[1]])]
        if operator == "GROUPREF_EXISTS":
            branches = [each for each in argument[1:] if each is not None]
            return [_of_branches([*map(self._parts, branches), []])]
        if operator in ("ASSERT", "ASSERT_NOT"):
            nothing = frozenset[int]()
            return [_Part(nothing, nothing, False, self.ways(argument[1]), is_assertion=True)]
        if operator == "GROUPREF":
            return [_Part(self._all, self._all, False, _ONE)]
        return []  # a place, such as the end

    def _repeat(self, least: int, most: int, tree: Iterable[Any]) -> list[_Part]:
        body, most = self._parts(tree), int(most)
        if not body or (least == most and len(body) * most <= _SMALL):
            return body * most
        whole = _joined(body)
        rounds = _Ways(most - least + 1) if most <= MAX_TEXT // 4 else _Ways(1, 1)
        is_safe = whole.ways == _ONE or (_is_delimited(body) and not whole.is_ambiguous)
        if whole.is_needed and (is_safe or most == 1):
            ways = rounds.times(whole.ways)
            if rounds.unlimited and whole.ways.unlimited:  # each character ends one round at most
                ways = whole.ways
            return [whole._replace(is_needed=least > 0, ways=ways)]
        if most > _SMALL:
            raise UnboundedPatternError(_WHY)
        optional = [part._replace(is_needed=False) for part in body]
        extra = whole._replace(is_needed=False, ways=rounds)
        return [*body * least, *optional * (most - least), extra]

    def _held(self, operator: str, argument: Any) -> frozenset[int]:
        """Return the characters, among those that stand for all, that one place can hold."""
        if operator == "ANY":
            return self._all
        if operator in ("LITERAL", "NOT_LITERAL"):
            held = self._with_cases({argument})
            return self._all - held if operator == "NOT_LITERAL" else held
        listed, is_negated = set[int](), False
        for kind, item in argument:
            name = str(kind)
            if name == "NEGATE":
                is_negated = True
            elif name == "LITERAL":
                listed.add(item)
            elif name == "RANGE":
                listed |= {each for each in self._all if item[0] <= each <= item[1]}
            else:
                listed |= {each for each in self._all if _is_of(str(item), chr(each))}
        cased = self._with_cases(listed)
        return self._all - cased if is_negated else cased

    def _with_cases(self, held: Iterable[int]) -> frozenset[int]:
        if not self._ignores_case:
            return frozenset(held)
        folded = {c for each in held for c in _cases(each)}
        return frozenset(each for each in self._all if _cases(each) & folded)


def _cases(code: int) -> set[str]:
    character = chr(code)
    forms = {character, character.lower(), character.upper(), character.casefold()}
    return {form for form in forms if len(form) == 1}


def _is_of(category: str, character: str) -> bool:
    """Say whether a category, such as ``CATEGORY_NOT_DIGIT``, holds a character."""
    name = category.removeprefix("CATEGORY_")
    sign = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[name.removeprefix("NOT_")]
    return (re.match(sign, character) is not None) != name.startswith("NOT_")


def _of_sequence(parts: Sequence[_Part]) -> _Ways:
    """Multiply the ways of parts that can hold the same characters with nothing between them."""
    most, chain, held = _ONE, _ONE, frozenset[int]()
    for part in parts:
        if part.is_assertion:
            most = max(most, chain.times(part.ways), key=_by_size)
            continue
        if not held.isdisjoint(part.first):
            chain = chain.times(part.ways)
        elif part.is_needed:  # what stands before it ends here, and nowhere else
            chain, held = part.ways, frozenset()
        else:
            chain = max(chain, part.ways, key=_by_size)
        if chain != _ONE:
            held |= part.characters
        most = max(most, chain, key=_by_size)
    return most


def _by_size(ways: _Ways) -> tuple[int, int]:
    return ways.unlimited, ways.limited


def _of_branches(branches: Sequence[Sequence[_Part]]) -> _Part:
    """Join alternatives: they are as many ways, unless their first characters differ."""
    joined = [_joined(branch) for branch in branches if branch]
    needed = len(joined) == len(branches) and all(each.is_needed for each in joined)
    size = sum(len(each.first) for each in joined)
    first = frozenset[int]().union(*(each.first for each in joined))
    ways = _Ways(1 if needed and size == len(first) else len(branches))
    for each in joined:
        ways = ways.times(each.ways)
    held = frozenset[int]().union(*(each.characters for each in joined))
    empty = sum(not branch or not _joined(branch).is_needed for branch in branches)
    ambiguous = size != len(first) or empty > 1 or any(each.is_ambiguous for each in joined)
    return _Part(held, first, needed, ways, ambiguous)


def _joined(parts: Sequence[_Part]) -> _Part:
    """Read a sequence as one part."""
    first: set[int] = set()
    for part in parts:
        first |= part.first
        if part.is_needed:
            break
    held = frozenset[int]().union(*(part.characters for part in parts))
    needed, ambiguous = any(p.is_needed for p in parts), any(p.is_ambiguous for p in parts)
    return _Part(held, frozenset(first), needed, _of_sequence(parts), ambiguous)


def _is_delimited(body: Sequence[_Part]) -> bool:
    """Say whether each round begins or ends with one character that the rest cannot hold."""
    for edge, rest in ((body[0], body[1:]), (body[-1], body[:-1])):
        held = frozenset[int]().union(*(part.characters for part in rest))
        if edge.is_needed and edge.ways == _ONE and edge.characters.isdisjoint(held):
            return True
    return False
