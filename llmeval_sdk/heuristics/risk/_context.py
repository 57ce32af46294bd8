"""A context, read once for all scores: where its stems stand, which are neighbours, its numbers.

A context may have thousands of words and an answer asks after some dozens of them. So a passage is
written as one string with a character for each stem and a `BREAK` behind each sentence, and what an
answer asks for is searched in that string, in C. What nobody asks for costs one look into a table.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, count, islice, pairwise
from threading import Lock
from typing import Generic, TypeVar

from llmeval_sdk.heuristics.risk import _text, _words
from llmeval_sdk.heuristics.risk._text import BREAK, Unit, behind, scaled
from llmeval_sdk.heuristics.risk._words import SCALES
from llmeval_sdk.process.forks import after_in_child
from llmeval_sdk.process.pieces import pause
from llmeval_sdk.text.budget import WorkBudget


MAX_CHARACTERS = 40_000
"""How many characters of a context are read."""
MAX_TOKENS = 8_000
MAX_SENTENCES = 2_000
"""The tokens of a context that are read; each sentence counts as one more. Passages of a lower rank
than these are left out, and the evaluation says so."""
PREFIX = 5
_GRAM = 4
_MAX_LENGTH = 24
"""How many letters of a word are cut into parts."""
_SAMPLE = 60
"""How many tokens of a passage decide which language it is in."""
_WINDOW = 40
"""How many tokens a sentence has at most. Longer ones are parted, so that alignment stays local."""
_AT_ONCE = 16
"""How many sentences one search cuts into tokens."""
_FEW = 64
"""A stem that stands in more places is looked for together with its neighbour."""
_KEPT_CONTEXTS = 4
_KEPT_BYTES = 5_000_000
"""How many bytes the passages that are kept may take."""
_KEPT_WORDS, _KEPT_LETTERS = 12_000, 500_000
"""How many words, or stems, and letters of stems a vocabulary has before it is begun anew."""


# The characters that stand for stems.

_DENSE = "\1"
"""Stands for a run of a script without spaces, which has no stem of its own."""
_WORDS_FROM, _NUMBERS_FROM, _BEYOND = 0x100, 0x8000, 0x10000
_NUMERIC = re.compile("[\u8000-\uffff\U00090000-\U0010ffff]+")
"""The characters of stems that say a number, or multiply one."""


def _code_points(first: int, end: int, beyond: int) -> Iterator[str]:
    """Yield the characters from ``first`` up to ``end``, and then those from ``beyond`` on.

    Those of two bytes come first: one of four bytes makes all characters of a string take four.
    """
    return chain(map(chr, range(first, end)), map(chr, count(beyond)))


class _Characters(dict[str, str]):
    """The character of each stem that was read."""

    def __init__(self, *, english: bool) -> None:
        super().__init__({BREAK: BREAK})
        self.numeric: dict[str, str] = {}
        """The stems of numbers, spelled-out numbers and words such as "million", by character."""
        self.prefixes: dict[str, list[str]] = {}
        """The characters of the stems that begin with the same five letters."""
        self.letters = 0
        self._spelled = _text.SPELLED_OUT_NUMBERS[english]
        self._of_words = _code_points(_WORDS_FROM, _NUMBERS_FROM, _BEYOND)
        self._of_numbers = _code_points(_NUMBERS_FROM, _BEYOND, 0x90000)

    def __missing__(self, stem: str) -> str:
        if stem < ":" or stem in SCALES or stem in self._spelled:
            character = next(self._of_numbers)
            self.numeric[character] = stem
        else:
            character = next(self._of_words)
        if len(stem) >= PREFIX:  # before another thread can see the stem
            self.prefixes.setdefault(stem[:PREFIX], []).append(character)
        self.letters += len(stem)
        return self.setdefault(stem, character)


class Vocabulary(dict[str, str]):
    """Gives each stem a character; by a word of a text, what stands for its tokens.

    It only grows. Threads may share it: what two of them add at once has one character afterwards.

    Args:
        english: whether stems follow the rules for English, or those for any other language.
    """

    def __init__(self, *, english: bool) -> None:
        super().__init__({BREAK: BREAK})
        self.english = english
        self.characters = _Characters(english=english)

    @property
    def is_full(self) -> bool:
        """Whether a new one should take its place, because it would take too much memory."""
        stems = self.characters
        return max(len(self), len(stems)) > _KEPT_WORDS or stems.letters > _KEPT_LETTERS

    def __missing__(self, word: str) -> str:
        bare = word.strip(_text.BESIDE)
        if bare.isascii() and bare.isalpha():  # it is one token, and most words are of this kind
            written = self.get(bare) or self.write((bare,))
        else:
            tokens = _text.tokens_of_word(word)
            dense = not word.isascii() and any(map(_text.is_dense, tokens))
            written = _DENSE if dense else self.write(tokens)
        if len(word) <= _text.LONGEST_WORD:
            self[word] = written
        return written

    def write(self, tokens: Sequence[str]) -> str:
        """Return a character for each stem of the tokens."""
        stems = _text.stems(tokens, english=self.english)
        return "".join(map(self.characters.__getitem__, stems))


_vocabularies = {english: Vocabulary(english=english) for english in (True, False)}


class Passage:
    """One retrieved text, as far as it is read. The text itself is not kept.

    Args:
        content: the text.
        vocabulary: the one it is written with first.
    """

    __slots__ = ("_firsts", "_spans", "_written", "capped", "count", "numbered", "sample", "tokens")

    def __init__(self, content: str, vocabulary: Vocabulary) -> None:
        pause()
        spans = list(islice(_text.sentences(content), MAX_SENTENCES + 1))
        self.capped = len(spans) > MAX_SENTENCES
        """Whether not all of the text was read."""
        self._spans = array("I", chain.from_iterable(spans[:MAX_SENTENCES]))
        words = self._words(content)
        tokens = chain.from_iterable(map(_text.tokens_of_word, words))
        self.sample = _text.sample(_first(tokens if words else iter(self.all_tokens(content))))
        """What tells its language."""
        self._firsts: list[int] | None = None
        """The number of the first sentence of each span, where one has several."""
        written = self._read(words, vocabulary)
        sentences = self._tokens_of(content) if written is None else _parted(written)
        self.tokens = len(sentences) + sum(map(len, sentences))
        """How many tokens were read; each sentence counts as one more."""
        if self.tokens > MAX_TOKENS:
            self._cap(sentences)
            written = None
        self.count = len(sentences)
        """How many sentences were read."""
        if max(map(len, sentences), default=0) > _WINDOW:
            parts = [max(1, -(-len(sentence) // _WINDOW)) for sentence in sentences]
            self._firsts = list(accumulate(parts, initial=0))
            self.count = self._firsts.pop()
            self.tokens += self.count - len(sentences)
            written = None
        if written is None:
            written = self._write(sentences, vocabulary)
        self._written = vocabulary, written
        self.numbered = self._numbers(content) if ":" in content else {}
        """By sentence, the number of the passage that begins there, as in "passage 2: …"."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        firsts = 40 * len(self._firsts or ()) + 200 * len(self.numbered)
        return 1_500 + 4 * len(self._spans) + 2 * len(self._written[1]) + firsts

    def written(self, content: str, vocabulary: Vocabulary) -> str:
        """Return a character for each stem, and a `BREAK` behind each sentence."""
        known, written = self._written
        if known is not vocabulary:
            again = self._read(self._words(content), vocabulary)
            if again is None or self._firsts is not None:
                sentences = self._tokens_of(content) if again is None else _parted(again)
                again = self._write(sentences, vocabulary)
            written = again
            self._written = vocabulary, written
        return written

    def sentence(self, content: str, number: int) -> list[str]:
        """Return the tokens of a sentence."""
        span, window = number, 0
        if self._firsts is not None:
            span = bisect_right(self._firsts, number) - 1
            window = _WINDOW * (number - self._firsts[span])
        start, end = self._spans[2 * span : 2 * span + 2]
        if _text.JOINER in content:  # whether it joins depends on the scripts of the whole text
            return [*self._tokens_of(content)[span][window : window + _WINDOW]]
        return _text.tokens(content, start, end)[window : window + _WINDOW]

    def all_tokens(self, content: str) -> list[str]:
        """Return the tokens of all sentences that are read, each followed by a `BREAK`."""
        spans, tokens = list(self._pairs()), []
        for at in range(0, len(spans), _AT_ONCE):
            tokens += _text.parted_tokens(content, spans[at : at + _AT_ONCE])
        return tokens

    def _pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self._spans[::2], self._spans[1::2], strict=True)

    def _words(self, content: str) -> list[str]:
        """Return the words, a `BREAK` behind each sentence; none if signs join what spaces part."""
        if _text.has_joined_words(content):
            return []
        if BREAK in content:
            content = content.replace(BREAK, " ")
        text = "".join([f"{content[start:end]} {BREAK} " for start, end in self._pairs()])
        return _text.words_of(text)

    def _read(self, words: list[str], vocabulary: Vocabulary) -> str | None:
        """Return what stands for the words; ``None`` where spaces do not part all tokens."""
        if not words or not self.sample.is_latin:
            return None
        written = "".join(map(vocabulary.__getitem__, words))
        return None if _DENSE in written else written

    def _tokens_of(self, content: str) -> list[Sequence[str]]:
        """Return the tokens of each sentence."""
        tokens = self.all_tokens(content)
        sentences: list[Sequence[str]] = []
        start = 0
        for _ in range(len(self._spans) // 2):
            end = tokens.index(BREAK, start)
            sentences.append(tokens[start:end])
            start = end + 1
        return sentences

    def _write(self, sentences: Iterable[Sequence[str]], vocabulary: Vocabulary) -> str:
        """Join sentences, the long ones in parts; those that are tokens are written first."""
        if self._firsts is not None:
            sentences = [window for sentence in sentences for window in _windows(sentence)]
        return "".join(
            [
                f"{sentence if type(sentence) is str else vocabulary.write(sentence)}{BREAK}"
                for sentence in sentences
            ]
        )

    def _cap(self, sentences: list[Sequence[str]]) -> None:
        """Leave out the sentences behind the last token that may be read."""
        for number, end in enumerate(accumulate(map(len, sentences)), 1):
            if number + end >= MAX_TOKENS:
                self.capped = self.capped or number < len(sentences)
                self.tokens = number + end
                del sentences[number:], self._spans[2 * number :]
                break

    def _numbers(self, content: str) -> dict[int, int]:
        """Read the marks at the start of lines."""
        marks = []
        end = content.find(":") + 1
        while end:
            if content[end - 2].isdecimal() or content[end - 2] in "])":
                line = content.rfind("\n", max(0, end - _MAX_WORD), end) + 1
                mark = _MARK.fullmatch(content, line, end) if line or end <= _MAX_WORD else None
                if mark is not None:
                    marks.append((mark.start(1), int(mark[1])))
            end = content.find(":", end) + 1
        numbered: dict[int, int] = {}
        at = 0
        for span, end in enumerate(self._spans[1::2]):
            if at == len(marks):
                break
            while at < len(marks) and marks[at][0] < end:
                numbered[span if self._firsts is None else self._firsts[span]] = marks[at][1]
                at += 1
        return numbered


def _first(tokens: Iterator[str]) -> list[str]:
    """Return the tokens that decide which language it is in, with a `BREAK` behind each window."""
    first = list(islice(tokens, _SAMPLE))
    start = 0
    while len(first) - start > _WINDOW:
        end = start + _WINDOW
        if BREAK in first[start : end + 1]:
            end = first.index(BREAK, start)
        else:
            first.insert(end, BREAK)
        start = end + 1
    return first[:_SAMPLE]


def _parted(written: str) -> list[Sequence[str]]:
    """Split what was written into its sentences, each of which ends with a `BREAK`."""
    sentences: list[Sequence[str]] = [*written.split(BREAK)]
    return sentences[:-1]


def _windows(sentence: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a sentence, or several parts of a long one."""
    return (sentence[at : at + _WINDOW] for at in range(0, len(sentence) or 1, _WINDOW))


_MARK = re.compile(
    r"[ \t]{0,8}(?:(?:passage|document|source|chunk|context) ?)?[\[#(]?(\d{1,3})[\])]?:",
    re.IGNORECASE,
)
"""A mark before a passage, such as "passage 2:" or "[2]:"."""
_MAX_WORD = 24
"""How many characters a mark may have."""


class Context:
    """A context, with what the features ask of it. It must not be changed once it is built."""

    def __init__(self, contents: Sequence[str], *, english: bool | None = None) -> None:
        _renew_vocabularies()
        vocabulary = _vocabularies[english is not False]
        self.capped = sum(map(len, contents)) > MAX_CHARACTERS
        self._passages: list[Passage] = []
        self._contents: list[str] = []
        characters, tokens, sentences = MAX_CHARACTERS, 0, 0
        budget = WorkBudget()
        for content in contents:
            if characters <= 0 or tokens >= MAX_TOKENS or sentences >= MAX_SENTENCES:
                self.capped = True
                break
            read = content[:characters]
            budget.spend(len(read))
            passage = _passage_of(read, vocabulary)
            if english is None and not self._passages:  # the others are mostly in its language
                vocabulary = _vocabularies[_text.language([passage.sample]).english]
            self._passages.append(passage)
            self._contents.append(read)
            self.capped = self.capped or passage.capped
            characters -= len(content)
            sentences += passage.count
            tokens += passage.tokens
        self.language = _text.language(passage.sample for passage in self._passages[:8])
        self.english = self.language.english if english is None else english
        if self.english != vocabulary.english:
            vocabulary = _vocabularies[self.english]
        self._vocabulary = vocabulary
        self._text = "".join(
            [
                passage.written(content, vocabulary)
                for passage, content in zip(self._passages, self._contents, strict=True)
            ]
        )
        self.chunks: list[int] = []
        """The rank of the passage that each sentence belongs to."""
        self._firsts: list[int] = []
        """The number of the first sentence of each passage."""
        for rank, passage in enumerate(self._passages):
            self._firsts.append(len(self.chunks))
            self.chunks += [rank] * passage.count
        self._sentence_at: list[int] = []
        """The sentence of each place of the text."""
        self._places: dict[str, list[int]] = {}
        """The places in the text of each stem that was looked for so far."""
        self._postings: dict[str, list[int]] = {}
        """The sentences of each stem that was looked for so far. The lists are never changed."""
        self._neighbours: dict[str, bool] = {}
        self._numbers: set[str] | None = None
        self._cited: list[int] | None = None
        self._parts: set[str] | None = None
        self._negating: dict[int, bool] = {}
        self._units: dict[str, list[Unit | None]] = {}

    @property
    def cited(self) -> list[int]:
        """The number by which an answer cites the passage of each sentence."""
        if self._cited is None:
            self._cited = _numbering(self._passages)
        return self._cited

    @property
    def numbers(self) -> set[str]:
        """The numbers that the context has, including spelled-out and multiplied ones."""
        if self._numbers is None:
            self._numbers = self._find_numbers()
        return self._numbers

    def _find_numbers(self) -> set[str]:
        stem_of, spelled = (
            self._vocabulary.characters.numeric,
            _text.SPELLED_OUT_NUMBERS[self.english],
        )
        runs = _NUMERIC.findall(self._text)
        numbers: set[str] = set()
        for character in set("".join(runs)):
            stem = stem_of[character]
            if stem < ":":
                numbers.add(stem)
            elif stem in spelled:
                numbers.add(spelled[stem])
        if self.english:
            for first, second in chain.from_iterable(map(pairwise, runs)):
                whole = scaled(stem_of[first], stem_of[second]) if stem_of[first] < ":" else None
                if whole is not None:
                    numbers.add(whole)
        return numbers

    def where(self, wanted: set[str]) -> dict[str, list[int]]:
        """Return the sentences of each wanted stem that the context has.

        Stems that were wanted before, by this score or another, are not looked for again.
        """
        postings = self._postings
        self._search(wanted.difference(postings))
        return {stem: sentences for stem in wanted if (sentences := postings[stem])}

    def _search(self, stems: set[str]) -> None:
        if stems and not self._sentence_at:
            for number, part in enumerate(self._text.split(BREAK)):
                self._sentence_at += [number] * (len(part) + 1)
        find, sentence_at = self._text.find, self._sentence_at
        characters = self._vocabulary.characters
        for stem in stems:
            places: list[int] = []
            sentences: list[int] = []
            character = characters.get(stem)
            place = -1 if character is None else find(character)
            last = -1
            while place >= 0 and character is not None:
                places.append(place)
                sentence = sentence_at[place]
                if sentence != last:
                    sentences.append(sentence)
                    last = sentence
                place = find(character, place + 1)
            self._places[stem], self._postings[stem] = places, sentences

    def neighbours(self, stems: Sequence[str]) -> list[bool]:
        """Return for each two stems in a row whether they stand so in a sentence of the context."""
        known, text, places = self._neighbours, self._text, self._places
        written = list(map(self._vocabulary.characters.get, stems))
        are = []
        for at, (former, latter) in enumerate(pairwise(written)):
            if former is None or latter is None:
                are.append(False)
                continue
            pair = former + latter
            if pair not in known:
                before, after = places.get(stems[at]), places.get(stems[at + 1])
                if before is not None and len(before) <= _FEW:
                    known[pair] = latter in [text[place + 1] for place in before]
                elif after is not None and len(after) <= _FEW:
                    known[pair] = former in [text[place - 1] for place in after]
                else:
                    known[pair] = pair in text
            are.append(known[pair])
        return are

    def resembles(self, stem: str, word: str) -> float:
        """Return how much of a word the context has inside other words, 0..1."""
        if self.english:
            alike = (
                self._vocabulary.characters.prefixes.get(stem[:PREFIX], ())
                if len(stem) >= PREFIX
                else ()
            )
            return float(any(map(self._text.__contains__, alike)))
        if self._parts is None:
            self._parts = self._cut()
        grams = _grams(_words.fold(word[:_MAX_LENGTH]))
        return sum(map(self._parts.__contains__, grams)) / len(grams) if grams else 0.0

    def _cut(self) -> set[str]:
        different: set[str] = set()
        for passage, content in zip(self._passages, self._contents, strict=True):
            different.update(passage.all_tokens(content))
        words = (token[:_MAX_LENGTH] for token in different if len(token) >= _GRAM - 1)
        return {gram for word in words for gram in _grams(_words.fold(word))}

    def _sentence(self, number: int) -> list[str]:
        """Return the tokens of a sentence."""
        rank = self.chunks[number]
        return self._passages[rank].sentence(self._contents[rank], number - self._firsts[rank])

    def negates(self, sentence: int) -> bool:
        """Return whether the sentence with this number has a negation in it."""
        known = self._negating.get(sentence)
        if known is None:
            known = _words.negates(self._sentence(sentence), english=self.english)
            self._negating[sentence] = known
        return known

    def units(self, digits: str, sentences: Iterable[int]) -> list[Unit | None]:
        """Return the units that stand with a number. They are read once for each number."""
        known = self._units.get(digits)
        if known is None:
            known = self._units[digits] = list(self._units_in(digits, sentences))
        return known

    def _units_in(self, digits: str, sentences: Iterable[int]) -> Iterator[Unit | None]:
        forms = {digits, *_text.SPELLED[self.english].get(digits, ())}
        for sentence in sentences:
            tokens = self._sentence(sentence)
            for at, token in enumerate(tokens):
                if _text.stem_of(token, english=self.english) in forms:
                    yield behind(tokens, at)


def _grams(word: str) -> list[str]:
    """Cut a word into overlapping parts. They are shorter in scripts whose letters mean more."""
    width = _GRAM - 1 if word > "\u0590" else _GRAM
    return [word[at : at + width] for at in range(len(word) - width + 1)]


def _numbering(passages: Sequence[Passage]) -> list[int]:
    """Number sentences by the marks in the text if there are several, and else by rank."""
    marked = sum(len(passage.numbered) for passage in passages) > 1
    numbers = []
    for rank, passage in enumerate(passages, start=1):
        current = 0 if marked else rank
        for at in range(passage.count):
            if marked:
                current = passage.numbered.get(at, current)
            numbers.append(current)
    return numbers


Built = TypeVar("Built")
Key = TypeVar("Key")


class _Kept(Generic[Key, Built]):
    """A small cache of what was read last, by what it was made of."""

    def __init__(self, most: float, size: Callable[[Key, Built], int], largest: int) -> None:
        self._most, self._size, self._room = most, size, largest
        self._free = largest
        self._kept: OrderedDict[Key, Built] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[Key], Built]) -> Built:
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        built = make(key)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = built
                self._free -= self._size(key, built)
            while self._kept and (len(self._kept) > self._most or self._free < 0):
                self._free += self._size(*self._kept.popitem(last=False))
        return built

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._free = self._room

    def renew(self) -> None:
        """Go on in a forked child, where the thread that held the lock does not exist."""
        self._lock = Lock()
        self._free = self._room - sum(map(self._size, self._kept, self._kept.values()))


_Contents = tuple[tuple[str, ...], "bool | None"]


def _length(key: _Contents, _: Context) -> int:
    return sum(map(len, key[0]))


_passages: _Kept[tuple[int, int], Passage] = _Kept(
    math.inf, lambda _, passage: passage.size, _KEPT_BYTES
)
"""By Python's salted hash of their text and its length, so that a text is not kept as well."""


def _passage_of(content: str, vocabulary: Vocabulary) -> Passage:
    """Read a passage, or take it from those that were read lately."""
    return _passages.get((hash(content), len(content)), lambda _: Passage(content, vocabulary))


_contexts: _Kept[_Contents, Context] = _Kept(_KEPT_CONTEXTS, _length, 8 * MAX_CHARACTERS)


def context_of(contents: Sequence[str], *, english: bool | None = None) -> Context:
    """Read passages, or take what was read last; ``english=None`` detects."""
    return _contexts.get((tuple(contents), english), lambda key: Context(key[0], english=key[1]))


def forget_contexts() -> None:
    """Empty the caches, for tests and measurements."""
    _passages.forget()
    _contexts.forget()


def _renew_vocabularies() -> None:
    """Begin anew with a vocabulary that is full, and forget what was written with it."""
    for english, vocabulary in _vocabularies.items():
        if vocabulary.is_full:
            _vocabularies[english] = Vocabulary(english=english)
            forget_contexts()


def _renew() -> None:
    _passages.renew()
    _contexts.renew()


after_in_child(_renew)
