"""English texts for the figures under load, made of the sentences of our own pages and docstrings."""

import random
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).resolve().parents[2]
PASSAGES = 2_000
"""What the service retrieves from."""


OTHER_THAN_PROSE = re.compile(r"[_=<>{}$/\\|@~#*+]|\w\.\w|--|\S{18}|key|token|password|secret")
"""Names of settings, files and addresses, and talk of secrets: other English seldom has them."""


class Request(NamedTuple):
    """What one request of an app asks, finds and answers."""

    question: str
    passages: list[str]
    answer: str

    @property
    def chunks(self):
        """The passages as a retriever returns them."""
        return [
            {"content": passage, "chunk_id": str(place), "score": 0.9 - place / 100}
            for place, passage in enumerate(self.passages)
        ]

    @property
    def prompt(self):
        """What the model is asked: it repeats the passages, as every such app does."""
        return prompt(self.question, self.passages)


def prompt(question, passages):
    together = "\n\n".join(passages)
    return f"Answer by these passages only.\n\n{together}\n\nQuestion: {question}"


@cache
def pages():
    """Return the documentation as it is written."""
    return read(chain((ROOT / "docs").rglob("*.md"), ROOT.glob("*.md")))


@cache
def sentences():
    """Return the sentences of the documentation and of docstrings, without code, tables and links.

    They are so many because a text repeats few of another then, as those of other apps do.
    """
    prose = re.sub(r"^```.*?^```", "", pages(), flags=re.DOTALL | re.MULTILINE)
    code = read((ROOT / "llmeval_sdk").rglob("*.py"))
    text = "\n\n".join([prose, *re.findall(r'"""(.*?)"""', code, flags=re.DOTALL)])
    text = re.sub(r"^\s*(?:\||#|<|- |\d\.|:).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "")
    split = (" ".join(each.split()) for each in re.split(r"(?<=[.!?])\s+|\n\s*\n", text))
    return sorted(
        {each for each in split if 5 <= each.count(" ") < 40 and not OTHER_THAN_PROSE.search(each)}
    )


def read(files):
    return "\n\n".join(file.read_text("utf-8") for file in sorted(files))


class Texts:
    """Draws texts; the same seed gives the same ones."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def words(self, count):
        """Return so many words, in sentences of which the last may be cut."""
        words = []
        while len(words) < count:
            words += self.dice.choice(sentences()).split()
        return " ".join(words[:count])

    def characters(self, count):
        return self.words(count // 4)[:count]

    def passages(self, number, low, high):
        return [self.words(self.dice.randint(low, high)) for _ in range(number)]

    def question(self, passages):
        """Ask for what stands in one of some passages."""
        words = self.dice.choice(passages).split()
        begin = self.dice.randrange(max(1, len(words) - 12))
        return f"What is said of {' '.join(words[begin : begin + 12])}?"

    def request(self, number, words, answered, corpus=None):
        """Return a request: with new passages, or with some of a corpus.

        Half of the answer's words stand in a passage, as with most answers of such apps.
        """
        passages = (
            self.dice.sample(corpus, number) if corpus else self.passages(number, words, words)
        )
        quoted = self.dice.choice(passages).split()[: answered // 2]
        answer = f"{' '.join(quoted)} {self.words(answered - len(quoted))}"
        return Request(self.question(passages), passages, answer)
