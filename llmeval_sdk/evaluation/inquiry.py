"""What is asked of a decision model about one record: the sections and questions of all judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any, NamedTuple

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._account import CHARACTERS_PER_TOKEN
from llmeval_sdk.evaluation._turnstile import Turnstile
from llmeval_sdk.evaluation.verdicts import VerdictKey
from llmeval_sdk.judges.cut import fair_limit, shortened
from llmeval_sdk.judges.prompt import SECTION_CHARACTERS
from llmeval_sdk.judges.typed import TypedForm
from llmeval_sdk.llms.decisions.data import neutral_texts
from llmeval_sdk.model import (
    Answer,
    Decision,
    Evaluation,
    Failure,
    ModelCall,
    Question,
    Record,
    Request,
    Usage,
)
from llmeval_sdk.protocols import DecisionModel, Judge, answer_by, further_place


TOKENS_PER_PART = 16
"""What a section or a question may add to a request beside its words."""


@dataclass(slots=True)
class Inquiry:
    """Joins the typed forms of several judges, so that each text is sent once."""

    questions: list[Question] = field(default_factory=list)
    cached: int = 0
    """Judges that ask nothing because the same was answered before."""
    _texts: dict[str, str] = field(default_factory=dict)

    def add(self, judge: str, form: TypedForm) -> None:
        """Take in a judge's sections and questions.

        A section whose title another judge uses for another text gets a title of its own, which
        the judge's questions then name.
        """
        renamed: dict[str, str] = {}
        for section in form.sections:
            title = section.name
            while self._texts.setdefault(title, section.text) != section.text:
                title = f"{title} ({judge})"
            if title != section.name:
                renamed[section.name] = title
        self.questions += (
            [_repointed(question, renamed) for question in form.questions]
            if renamed
            else form.questions
        )

    @property
    def limit(self) -> int:
        """How many characters of a section are sent: the middle of a longer one is left out."""
        lengths = [len(text) for text in self._texts.values()]
        return min(SECTION_CHARACTERS, fair_limit(lengths))

    def data(self) -> dict[str, str]:
        """Return the sections by title; nothing in them can act on a model without being read."""
        limit = self.limit
        return neutral_texts({title: shortened(text, limit) for title, text in self._texts.items()})

    def most(self, requests: int = 1) -> Usage:
        """Return the most tokens that so many requests may use, each with all sections."""
        shown = sum(len(title) + len(text) for title, text in self._texts.items())
        asked = sum(
            len(question.name)
            + len(question.instructions)
            + sum(len(option.value) + len(option.description) for option in question.options)
            for question in self.questions
        )
        parts = len(self._texts) * requests + len(self.questions)
        words = shown * requests + asked
        tokens = words // CHARACTERS_PER_TOKEN + TOKENS_PER_PART * parts
        return Usage(tokens, 0, tokens)

    @staticmethod
    def cut(form: TypedForm, limit: int) -> list[str]:
        """Return the titles of a form's sections that are longer than a limit."""
        return [section.name for section in form.sections if len(section.text) > limit]


@dataclass(frozen=True, slots=True)
class Asking:
    """A judge whose questions have to be asked."""

    judge: Judge
    form: TypedForm
    key: VerdictKey
    distrusted: bool = False
    """Whether there are earlier answers that were not signed with our key."""


class Prepared(NamedTuple):
    """What is asked about one record, for which judges."""

    record: Record
    judges: Sequence[Judge]
    inquiry: Inquiry
    asking: Sequence[Asking]
    evaluations: Mapping[str, Evaluation]
    """The outcomes that are known without asking, by judge."""


class ModelReply(NamedTuple):
    """What the model said to an inquiry."""

    decision: Decision | Failure
    calls: Sequence[ModelCall]
    seconds: float


async def answered(
    model: DecisionModel, inquiry: Inquiry, turnstile: Turnstile, until: float
) -> Decision:
    """Ask a model, which has to answer by ``until``, a time of the running loop.

    The answer is checked, because a model of the app's own may return anything.
    """
    place, deadline = further_place.set(turnstile.further_place), answer_by.set(until)
    try:
        decision: Any = await model.decide(inquiry.data(), inquiry.questions)
    finally:
        further_place.reset(place)
        answer_by.reset(deadline)
    if isinstance(decision, Decision):
        return decision
    raise JudgeError("malformed", f"the model returned no Decision but a {type(decision).__name__}")


def _repointed(question: Question, renamed: Mapping[str, str]) -> Question:
    notes = [
        f'In the data, the section "{title}" of this question is called "{new}".'
        for title, new in renamed.items()
        if f'"{title}"' in question.instructions
    ]
    return replace(question, instructions="\n".join((question.instructions, *notes)))


def digest_of(model: str, form: TypedForm) -> bytes:
    """Identify what is asked of a model by its name, the questions and the sections."""
    parts = [model]
    for question in form.questions:
        parts += (question.name, question.type, question.instructions, str(len(question.options)))
        for option in question.options:
            parts += (option.value, option.description)
    for section in form.sections:
        parts += (section.name, section.text)
    ends = repr([len(form.questions), *map(len, parts)])  # else one part could pass for two
    asked = "".join((ends, *parts)).encode("utf-8", "surrogatepass")
    return blake2b(asked, digest_size=16).digest()


def left_out(request: Request | None) -> dict[str, int]:
    """Count the parts of a chat that are no text, such as ``image_url``: they are not sent."""
    messages = request.get("messages") if isinstance(request, Mapping) else None
    counts: dict[str, int] = {}
    for message in messages if isinstance(messages, (list, tuple)) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, (list, tuple)) else ():
            if isinstance(part, Mapping) and not isinstance(part.get("text"), str):
                kind = str(part.get("type", "part"))[:40]
                counts[kind] = counts.get(kind, 0) + 1
    return counts


def checked(questions: Iterable[Question], answers: Any) -> dict[str, Answer]:
    """Return an answer to each question; what is no usable answer is an error of its question."""
    found = answers if isinstance(answers, Mapping) else {}
    return {question.name: _checked(question, found.get(question.name)) for question in questions}


def _checked(question: Question, answer: Any) -> Answer:
    if not isinstance(answer, Answer) or not isinstance(answer.probabilities, Mapping):
        return _malformed("there is no answer to this question")
    if answer.error is not None:
        return answer
    names = [option.value for option in question.options] or ["yes", "no"]
    chances = answer.probabilities
    if chances.keys() != set(names):
        return _malformed(f"the answer is about {sorted(map(str, chances))[:9]}, not {names[:9]}")
    if not all(map(_is_probability, chances.values())):
        return _malformed("a probability is no number from 0 to 1")
    total = sum(chances.values())
    if abs(total - 1) > min(MOST_ROUNDING, ROUNDING * (len(names) + 1)):
        return _malformed(f"the probabilities add up to {total:.4g}, not to 1")
    return Answer({name: min(chances[name] / total, 1.0) for name in names})


ROUNDING, MOST_ROUNDING = 0.005, 0.05
"""How far the sum may be from 1, for each option and altogether: some servers give two decimals."""


def _is_probability(chance: Any) -> bool:
    return type(chance) in (float, int) and isfinite(chance) and 0 <= chance <= 1


def _malformed(message: str) -> Answer:
    return Answer(error=Failure("malformed", message))


def shares(usage: Usage | None, questions: Sequence[int]) -> list[Usage | None]:
    """Divide the usage of a request among judges by how many questions each asked, exactly."""
    if usage is None:
        return [None] * len(questions)
    ends = list(accumulate(questions))
    return [
        Usage(
            _part(usage.input_tokens, begin, end, ends[-1]),
            _part(usage.output_tokens, begin, end, ends[-1]),
            _part(usage.total_tokens, begin, end, ends[-1]),
            None if usage.cost_usd is None else usage.cost_usd * (end - begin) / ends[-1],
        )
        for begin, end in pairwise((0, *ends))
    ]


def _part(tokens: int, begin: int, end: int, whole: int) -> int:
    return tokens * end // whole - tokens * begin // whole
