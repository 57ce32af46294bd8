"""The retrieved context as sets and postings, built once and shared by the risk scores."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Lock

from llmeval_sdk.heuristics.risk import text


MAX_CHARACTERS = 40_000
MAX_TOKENS = 8_000
"""Of a context, a sentence counting as one more; what comes after in rank order is left out, and
the evaluation says so."""
PREFIX = 5
_KEPT = 8
_WINDOW = 40


class Context:
    """What the features ask of a context; treat it as frozen once built."""

    __slots__ = (
        "_tokens",
        "bigrams",
        "capped",
        "chunks",
        "language",
        "numbers",
        "postings",
        "prefixes",
    )  # fmt: skip

    def __init__(self, contents: Sequence[str], *, english: bool | None = None) -> None:
        self.postings: defaultdict[str, list[int]] = defaultdict(list)
        """Stem -> the sentences it stands in, in order."""
        self.chunks: list[int] = []
        """Sentence -> passage, by rank."""
        self.bigrams: set[int] = set()
        self.numbers: set[str] = set()
        self.language = text.language("\n".join(content[:1000] for content in contents[:8]))
        english = self.language.english if english is None else english
        self.capped = sum(map(len, contents)) > MAX_CHARACTERS
        room, self._tokens = MAX_CHARACTERS, 0
        for rank, content in enumerate(contents):
            if room <= 0 or self._tokens >= MAX_TOKENS:
                self.capped = True
                break
            self._add(rank, content[:room], english=english)
            room -= len(content)
        self.numbers |= {n for n in map(text.number_word, self.postings) if n is not None}
        self.postings.default_factory = None
        self.prefixes = {stem[:PREFIX] for stem in self.postings if len(stem) >= PREFIX}

    def _add(self, rank: int, content: str, *, english: bool) -> None:
        postings, ranks = self.postings, self.chunks
        for start, end in text.sentences(content):
            if self._tokens >= MAX_TOKENS:
                self.capped = True
                break
            stems = text.stems(content[start:end].lower(), english=english)
            self._tokens += 1 + len(stems)
            self.bigrams.update(bigrams(stems))
            if min(stems, default=":") < ":":  # one starts with a digit
                self._add_numbers(stems)
            for first in range(0, len(stems), _WINDOW):
                here = len(ranks)
                ranks.append(rank)
                for stem in set(stems[first : first + _WINDOW]):
                    postings[stem].append(here)

    def _add_numbers(self, stems: list[str]) -> None:
        for at, stem in enumerate(stems):
            if stem < ":":
                self.numbers.add(stem)
                whole = text.scaled(stem, stems[at + 1]) if at + 1 < len(stems) else None
                if whole is not None:
                    self.numbers.add(whole)


def bigrams(stems: Sequence[str]) -> Iterator[int]:
    """Hash each pair of neighbours: a set of numbers costs the garbage collector nothing."""
    return map(hash, pairwise(stems))


_Key = tuple[tuple[str, ...], "bool | None"]
_cache: OrderedDict[_Key, Context] = OrderedDict()
_lock = Lock()


def of(contents: Sequence[str], *, english: bool | None = None) -> Context:
    """Read passages, or take them from the few contexts read last; ``english=None`` detects."""
    key = (tuple(contents), english)
    with _lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
            return known
    built = Context(key[0], english=english)
    with _lock:
        _cache[key] = built
        while len(_cache) > _KEPT:
            _cache.popitem(last=False)
    return built


def forget() -> None:
    """Empty the cache, for tests and measurements."""
    with _lock:
        _cache.clear()
