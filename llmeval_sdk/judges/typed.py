"""How a decision model is asked in the place of a judge model: typed questions about sections.

A judge's rubric becomes one question, or one for each chunk or fact. What is judged stands in the
sections alone. A question names the sections that it is about, because the data of a request holds
those of all judges that are asked together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges import answers as readings
from llmeval_sdk.judges._base import BaseJudge
from llmeval_sdk.judges._cases import cases_of, height, yes_and_no
from llmeval_sdk.judges._chunk_questions import NO_TEXT, ChunkQuestion, of_chunk
from llmeval_sdk.judges._template import Template
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.model import Answer, Chunk, Evaluation, Option, Question, Record


MOST_OPTIONS, MOST_LEVELS = 255, 10
"""What the largest wire takes; a wire that takes fewer says so itself."""

Sections = Sequence[Section]
Reader = Callable[[Question, Answer, float, float], Evaluation]
"""Makes a judge's Evaluation of one answer, by a threshold and the odds of a calibration."""


class FormReader(Protocol):
    """Makes a judge's Evaluation of the answers to its questions."""

    def __call__(
        self, answers: Mapping[str, Answer], threshold: float, odds: float = 1.0, /
    ) -> Evaluation:
        """Read the answers.

        Args:
            answers: By the name of the question.
            threshold: The probability from which on an outcome counts as good.
            odds: By what the odds of a good outcome are multiplied, in each answer.
        """


@dataclass(frozen=True, slots=True)
class TypedForm:
    """What a judge asks of a decision model about one record.

    Args:
        sections: What the questions are about. Titles are the judge's own words.
        questions: Named by the judge: ``groundedness``, ``chunk_relevance.3``. None where the
            record holds nothing to ask about.
        read: Makes the judge's Evaluation of the answers.
    """

    sections: tuple[Section, ...]
    questions: tuple[Question, ...]
    read: FormReader


Typed = Callable[[Record], TypedForm]


def typed_form_of(judge: Any) -> Typed | None:
    """Return what makes a judge's typed form of a record; ``None`` where it cannot have one.

    Raises:
        ConfigurationError: It has more options or levels than any decision model takes.
    """
    if not isinstance(judge, BaseJudge) or judge.model is not None:
        return None
    return judge.typed(Forms(judge.name))


def unrated_categories(judge: Any) -> list[str]:
    """Return the categories of a judge that leave its decisions without a probability."""
    output = getattr(judge, "output", None)
    return readings.unrated(output) if isinstance(output, tuple) else []


class Forms:
    """Makes the typed forms of one judge; `BaseJudge.typed` gets it.

    Args:
        judge: The name of the judge, by which its questions are named.
    """

    def __init__(self, judge: str) -> None:
        self._judge = judge

    def yes_no(self, rubric: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask one question of which yes is the good answer.

        The lines of the rubric that begin with ``yes`` and ``no`` describe the two answers.
        """
        instructions, options = yes_and_no(rubric)

        def form(record: Record) -> TypedForm:
            shown = sections(record)
            return self._single(self._question("yes_no", instructions, shown, options), shown)

        return form

    def problem(
        self, rubric: str, problems: Mapping[str, str], sections: Callable[[Record], Sections]
    ) -> Typed:
        """Ask which problem there is; yes is the good answer, that there is ``none`` of them.

        The line of the rubric that begins with ``yes`` describes it.
        """
        instructions, cases = cases_of(rubric)
        options = self._options({"none": cases["yes"], **problems}.items())

        def form(record: Record) -> TypedForm:
            shown = sections(record)
            question = self._question("choice", instructions, shown, options)
            return self._single(question, shown, readings.no_problem)

        return form

    def levels(self, rubric: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask for the level of a score.

        The lines of the rubric that begin with a number, or with a band such as ``0.4 - 0.6``,
        describe the levels. The value is the mean of the levels by their probabilities.
        """
        instructions, cases = cases_of(rubric)
        heights = {band: height(band) for band in sorted(cases, key=height)}
        levels = self._levels([(band, cases[band]) for band in heights])
        read = readings.level_reader(heights)

        def form(record: Record) -> TypedForm:
            shown = sections(record)
            return self._single(self._question("score", instructions, shown, levels), shown, read)

        return form

    def chunks(self, rubric: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask about each chunk whether yes; the rubric calls it ``section "chunk"``."""
        instructions, options = yes_and_no(rubric)

        def form(record: Record) -> TypedForm:
            common = sections(record)

            def ask(rank: int, chunk: Chunk) -> ChunkQuestion | None:
                text = chunk.content or ""
                if not text.strip():
                    return None
                title = f"chunk {rank}"
                wording = instructions.replace('section "chunk"', f'section "{title}"')
                shown = [*common, Section(title, text)]
                name = f"{self._judge}.{rank}"
                return ChunkQuestion(
                    self._question("yes_no", wording, shown, options, name), shown, text
                )

            return self._per_chunk(record, ask, readings.yes_no)

        return form

    def facts(self, instructions: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask about each expected fact whether yes; yes as a whole takes a yes for all of them."""

        def form(record: Record) -> TypedForm:
            shown, facts = sections(record), record.expected_facts or ()
            questions = [
                self._question(
                    "yes_no",
                    f"{instructions.strip()}\n\nThis question is about expected fact {number} "
                    "alone: yes where the response states it, no where it does not.",
                    shown,
                    name=f"{self._judge}.{number}",
                )
                for number in range(1, len(facts) + 1)
            ]
            return TypedForm(
                tuple(shown),
                tuple(questions),
                lambda answers, threshold, odds=1.0: readings.all_of(
                    questions, answers, threshold, odds
                ),
            )

        return form

    def template(
        self, template: Template, *, per: str, output: Any, levels: Sequence[str]
    ) -> Typed | None:
        """Ask what a prompt with ``{fields}`` asks; ``None`` for a score without levels."""
        kind, options, read = self._answered_by(output, levels)
        if kind is None:
            return None

        def form(record: Record) -> TypedForm:
            if per == "answer":
                shown = template.sections(record)
                return self._single(
                    self._question(kind, template.rubric, shown, options), shown, read
                )

            def ask(rank: int, chunk: Chunk) -> ChunkQuestion:
                wording, shown, own = of_chunk(template, record, chunk, rank)
                name = f"{self._judge}.{rank}"
                return ChunkQuestion(
                    self._question(kind, wording, shown, options, name), shown, own
                )

            return self._per_chunk(record, ask, read)

        return form

    def _answered_by(self, output: Any, levels: Sequence[str]) -> tuple[Any, Any, Reader]:
        if output == "yes_no":
            return "yes_no", (), readings.yes_no
        if output == "score":
            heights = {label: place / (len(levels) - 1) for place, label in enumerate(levels)}
            described = self._levels([(label, "") for label in levels])
            return "score" if levels else None, described, readings.level_reader(heights)
        return "choice", self._options((word, "") for word in output), readings.category

    def _question(
        self,
        kind: Any,
        instructions: str,
        shown: Sections,
        options: tuple[Option, ...] = (),
        name: str | None = None,
    ) -> Question:
        titles = ", ".join(f'"{section.name}"' for section in shown)
        about = f"{instructions.strip()}\n\nThis is about these sections of the data: {titles}."
        return Question(name or self._judge, kind, about, options)

    def _single(self, question: Question, shown: Sections, read: Reader | None = None) -> TypedForm:
        make = read or readings.yes_no
        return TypedForm(
            tuple(shown),
            (question,),
            lambda answers, threshold, odds=1.0: make(
                question, answers[question.name], threshold, odds
            ),
        )

    def _per_chunk(
        self, record: Record, ask: Callable[[int, Chunk], ChunkQuestion | None], read: Reader
    ) -> TypedForm:
        """Ask about each chunk once; chunks of which the same is shown share their answer."""
        asked = [ask(rank, chunk) for rank, chunk in enumerate(record.retrieved_context or (), 1)]
        distinct: dict[Hashable, ChunkQuestion] = {}
        for one in asked:
            if one is not None:
                distinct.setdefault(one.same, one)
        questions = [None if one is None else distinct[one.same].question for one in asked]

        def evaluation(
            answers: Mapping[str, Answer], threshold: float, odds: float = 1.0
        ) -> Evaluation:
            return readings.chunks(
                [
                    Evaluation(self._judge, error=NO_TEXT)
                    if question is None
                    else read(question, answers[question.name], threshold, odds)
                    for question in questions
                ]
            )

        sections = [section for one in distinct.values() for section in one.shown]
        return TypedForm(
            tuple(dict.fromkeys(sections)),
            tuple(one.question for one in distinct.values()),
            evaluation,
        )

    def _options(self, options: Iterable[tuple[str, str]]) -> tuple[Option, ...]:
        made = tuple(Option(value, description) for value, description in options)
        if len(made) > MOST_OPTIONS:
            raise ConfigurationError(
                f"the judge {self._judge!r} has {len(made)} categories, and no decision model takes"
                f" more than {MOST_OPTIONS}: join some, or leave it to a judge model"
            )
        return made

    def _levels(self, levels: Sequence[tuple[str, str]]) -> tuple[Option, ...]:
        if len(levels) > MOST_LEVELS:
            raise ConfigurationError(
                f"the judge {self._judge!r} has {len(levels)} levels, and no decision model takes "
                f"more than {MOST_LEVELS}: join some, or leave it to a judge model"
            )
        return tuple(Option(label, description) for label, description in levels)
