"""What every judge shares: it never raises, counts its tokens and time, and asks in one way.

A judge model is asked in words, a decision model by typed questions.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.judges.prompt import (
    JudgePrompt,
    Rule,
    Section,
    Template,
    VerdictForm,
    read,
    sections_for,
    title_of,
)
from llmeval_sdk.model import (
    Answer,
    Chunk,
    Completion,
    Evaluation,
    Failure,
    Message,
    Option,
    Question,
    Record,
    Score,
    Unit,
    Usage,
    total_usage,
    values,
)
from llmeval_sdk.model.fields import lacking
from llmeval_sdk.model.protocols import LLM, refuse_in_loop


# Reads the cases of a rubric, which typed questions show as the options they describe.

_CASE = re.compile(
    r"^(?P<name>yes|no|\d\.\d(?: - \d\.\d)?) {2,}(?P<text>\S.*(?:\n {2,}\S.*)*)\n?", re.MULTILINE
)
_FOR_THE_RATIONALE = re.compile(r"; (?:name|say) [^;]*$")
"""What a rubric asks to be written about a case: a decision model writes nothing."""


def _cases_of(rubric: str) -> tuple[str, dict[str, str]]:
    """Split a rubric of ours into its instructions and its cases, which begin their own lines."""
    cases = {
        case["name"]: _FOR_THE_RATIONALE.sub("", " ".join(case["text"].split()))
        for case in _CASE.finditer(rubric)
    }
    paragraphs = (part.strip() for part in _CASE.sub("", rubric).split("\n\n"))
    return "\n\n".join(part for part in paragraphs if part), cases


def _yes_and_no(rubric: str) -> tuple[str, tuple[Option, ...]]:
    """Return a rubric's instructions, and the two answers with their cases, where it has any."""
    instructions, cases = _cases_of(rubric)
    return instructions, tuple(Option(word, cases[word]) for word in ("yes", "no") if word in cases)


def height(band: str) -> float:
    """Return the number that a level stands for: the middle of a band."""
    ends = [float(end) for end in band.split(" - ")]
    return round(sum(ends) / len(ends), 6)


# A typed question about one chunk: what it asks, and which sections are shown with it.

NO_TEXT = Failure("bad_input", "the chunk holds no text")


@dataclass(frozen=True, slots=True)
class ChunkQuestion:
    """A question about one chunk, and what is shown with it."""

    question: Question
    shown: Sequence[Section]
    same: Hashable
    """Equal for chunks of which the question shows the same."""


def _of_chunk(
    template: Template, record: Record, chunk: Chunk, rank: int
) -> tuple[str, list[Section], Hashable]:
    """Return a prompt and its sections with the chunk's number in all of their titles."""
    wording = template.rubric
    shown: list[Section] = []
    own: list[str] = []
    for name in template.names:
        sections = sections_for(name, record, chunk)
        if name.startswith("chunk."):
            former = title_of(name)
            title = f"chunk {rank}{former.removeprefix('chunk')}"
            wording = wording.replace(f"[section: {former}]", f"[section: {title}]")
            sections = [Section(title, section.text) for section in sections]
            own += [section.text for section in sections]
        shown += sections
    return wording, shown, tuple(own)


ERROR_CHARACTERS = 500


class BaseJudge:
    """A judge with a default for every part of the protocol `llmeval_sdk.model.protocols.Judge`.

    Set ``name`` and write `judge`, which may raise; `evaluate` does not. ``per``, ``needs`` and the
    others mean what they mean there.
    """

    kind: Literal["judge"] = "judge"
    name: str = ""
    version: str = "1"
    needs: tuple[str, ...] = ()
    per: Unit = "answer"
    blocking: bool = False
    """True where the judge is plain code that blocks, so that ``evaluate`` runs it aside."""
    needs_model: bool = True
    calls_here: bool = True
    span_kinds: tuple[str, ...] = ()
    span_tags: Mapping[str, str] = MappingProxyType({})
    output: str | Sequence[str] | None = None
    """``yes_no``, ``score`` or the categories it gives; ``None`` where only its values tell."""
    better: Literal["lower", "higher"] | None = None
    """Which of its values are better; ``None`` leaves that to its name."""
    model: str | LLM | None = None
    """The model this judge asks for; ``None`` leaves it to the configuration."""
    automatic: bool = False
    """Whether it runs offline without being asked for, where a judge model is configured and a row
    has its inputs. Online no judge does."""
    share_of: Literal["extractions", "answers"] | None = None
    """The records of which the setting ``judge_share`` has this judge look at a share."""
    predictor: str | None = None
    """The free score that says most about its verdicts: estimates for all traffic use it."""
    report_path: str | None = None
    """Where its ratings stand in a report; ``None`` follows from its name and output."""
    metric_path: str | None = None
    """What its aggregate is called; ``None`` follows from ``report_path``."""
    stand_in: Rule | None = None
    """How a stand-in answers its prompt, in demos and tests; see `judges.prompt`."""

    def lacks(self, record: Record, /) -> str | None:
        """Name an input that is missing although ``needs`` are met; ``None`` where nothing is."""
        return None

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return None

    def configured(self, settings: Any, /) -> BaseJudge:
        """Return this judge under the settings in force: itself, as it reads none."""
        return self

    def located(self, verdict: Evaluation, record: Record, /) -> Evaluation:
        """Add to a verdict which spans its parts are about; an earlier verdict named others."""
        return verdict

    def settled(self, record: Record, /) -> Evaluation | None:
        """Return the outcome that no model need be asked for, such as that of an empty answer.

        Raises:
            JudgeError: The record cannot be judged.
        """
        return None

    def typed(self, forms: Forms, /) -> Typed | None:
        """Return what a decision model is asked in place of a judge model.

        ``None`` where the judge cannot be asked as a typed question: it stays with judge models.

        Args:
            forms: Makes the typed forms of this judge, such as ``forms.yes_no(RUBRIC, sections)``.

        Raises:
            ConfigurationError: There are more options or levels than any decision model takes.
        """
        return None

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Judge a Record that has what is needed; raises `JudgeError` where there is no verdict."""
        raise NotImplementedError

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record: a value, an error, or neither where inputs are missing."""
        absent = lacking(self, record, blanks=True)
        if absent is not None:
            return self._complete(Evaluation(self.name, metadata={"missing_inputs": absent}))
        started = time.perf_counter()
        metered = Metered(llm)
        try:
            settled = self.settled(record)
            found = await self.judge(record, metered) if settled is None else settled
        except Exception as error:
            found = Evaluation(self.name, error=failure(error))
        return self._complete(found, time.perf_counter() - started, metered.usage)

    def _complete(
        self, found: Evaluation, seconds: float | None = None, usage: Usage | None = None
    ) -> Evaluation:
        return replace(
            found,
            name=self.name,
            evaluator_kind="judge",
            evaluator_version=self.version,
            duration=seconds,
            usage=usage or found.usage,
        )


class Metered(LLM):
    """Hands calls on and sums their usage, that of failed ones too."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.model = getattr(llm, "model", "")
        self.usage: Usage | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Answer with the LLM inside."""
        try:
            completion = await self._llm.complete(messages, schema=schema, max_tokens=max_tokens)
        except JudgeError as error:
            self._add(error.usage)
            raise
        self._add(completion.usage)
        return completion

    def ask(
        self, prompt: str, /, *, schema: Mapping[str, Any] | None = None, max_tokens: int = 4096
    ) -> str:
        """Answer one prompt with the LLM inside, in its own way where it has one."""
        refuse_in_loop()
        own = getattr(type(self._llm), "ask", LLM.ask)
        if own is LLM.ask:
            return super().ask(prompt, schema=schema, max_tokens=max_tokens)
        return self._llm.ask(prompt, schema=schema, max_tokens=max_tokens)

    def _add(self, usage: Usage | None) -> None:
        self.usage = total_usage(self.usage, usage)


def failure(error: Exception) -> Failure:
    """Describe an exception: a JudgeError by its type, any other by its class."""
    kind = error.type if isinstance(error, JudgeError) else type(error).__name__
    return Failure(kind, str(error)[:ERROR_CHARACTERS])


async def ask(
    llm: LLM, prompt: JudgePrompt, form: VerdictForm, *, max_tokens: int = 4096
) -> dict[str, Any]:
    """Ask once and read the form; raises `JudgeError`."""
    completion = await llm.complete(prompt.messages, schema=form.schema, max_tokens=max_tokens)
    return read(completion.text, form)


# Rates each retrieved chunk and sums the ratings up.

CONCURRENCY = 8
"""Chunks of one record that are judged at a time."""


T = TypeVar("T")


async def rate_chunks(
    name: str,
    chunks: Sequence[T],
    rate: Callable[[T], Awaitable[Evaluation]],
    *,
    same: Callable[[T], Hashable] = id,
    units: str = "chunks",
) -> Evaluation:
    """Rate all chunks at once and combine; chunks for which ``same`` is equal are rated once.

    Other ``units`` than chunks can be rated in the same way.
    """
    turns = asyncio.Semaphore(CONCURRENCY)

    async def one(chunk: T) -> Evaluation:
        async with turns:
            try:
                return await rate(chunk)
            except Exception as error:
                return Evaluation(name, error=failure(error))

    keys = [same(chunk) for chunk in chunks]
    distinct = dict(zip(keys, chunks, strict=True))
    rated = await asyncio.gather(*(one(chunk) for chunk in distinct.values()))
    by_key = dict(zip(distinct, rated, strict=True))
    return combine(name, [by_key[key] for key in keys], units)


def combine(name: str, rated: Sequence[Evaluation], units: str = "chunks") -> Evaluation:
    """Make one Evaluation of one per chunk, in rank order, or of one per other unit.

    The value is the precision, yes / rated, of yes/no ratings, the mean of scores, and ``None``
    for anything else or where no chunk could be rated. The metadata has one entry per chunk in
    ``ratings``, ``rationales`` and ``error_messages``, and the number that ``failed``.
    """
    errors = [one.error for one in rated if one.error is not None]
    ratings = [None if one.error is not None else one.value for one in rated]
    cut = list(dict.fromkeys(name for one in rated for name in one.metadata.get("cut", ())))
    value = _summary([rating for rating in ratings if rating is not None])
    error = None
    if errors and len(errors) == len(rated):
        message = f"none of {len(rated)} {units} could be rated: {errors[0].message}"
        error = Failure(errors[0].type, message)
    return Evaluation(
        name,
        value,
        error=error,
        metadata={
            "ratings": ratings,
            "rationales": [one.explanation for one in rated],
            "error_messages": [
                one.error and (one.error.message or one.error.type) for one in rated
            ],
            "failed": len(errors),
            **({"cut": cut} if cut else {}),
        },
    )


def _summary(ratings: Sequence[Score]) -> float | None:
    if ratings and all(rating in ("yes", "no") for rating in ratings):
        return sum(rating == "yes" for rating in ratings) / len(ratings)
    numbers = [rating for rating in ratings if type(rating) is float]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(ratings) else None


# What the answers of a decision model are as Evaluations: values, probabilities, confidence.
#
# Each reader takes the ``odds`` by which a calibration multiplies those of a good outcome, 1
# where there is none. Value, probability and confidence are then all of the calibrated answer.


def yes_no(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
    """Return ``yes`` where its probability reaches the threshold, else ``no``."""
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    chances = _tilted(answer.probabilities, ("yes",), odds)
    yes = chances["yes"]
    return Evaluation(
        question.name,
        "yes" if yes >= threshold else "no",
        probability=yes,
        metadata={"confidence": confidence(question, chances)},
    )


def category(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
    """Return the likeliest category.

    Its probability of being good is that of all good categories together, where it is known of
    each category whether it is good.
    """
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    goodness = {option.value: values.goodness("", option.value) for option in question.options}
    good = [word for word, how_good in goodness.items() if how_good and how_good > 0.5]
    return _categorised(question, answer, None if unrated(goodness) else good, odds)


def _categorised(
    question: Question, answer: Answer, good: Collection[str] | None, odds: float
) -> Evaluation:
    chances: Mapping[str, float] = {
        option.value: answer.probabilities[option.value] for option in question.options
    }
    if good is not None:
        chances = _tilted(chances, good, odds)
    return Evaluation(
        question.name,
        max(chances, key=chances.__getitem__),
        probability=None if good is None else min(sum(chances[word] for word in good), 1.0),
        metadata={"probabilities": chances, "confidence": confidence(question, chances)},
    )


def unrated(words: Iterable[str]) -> list[str]:
    """Return the categories of which it is not known whether they are good."""
    return [word for word in words if values.goodness("", word) is None]


def _no_problem(
    question: Question, answer: Answer, threshold: float, odds: float = 1.0
) -> Evaluation:
    """Return ``yes`` where that there is no problem reaches the threshold, else the likeliest."""
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    categorised = _categorised(question, answer, ("none",), odds)
    chances = categorised.metadata["probabilities"]
    is_good = chances["none"] >= threshold
    problem = max((word for word in chances if word != "none"), key=chances.__getitem__)
    return replace(
        categorised,
        value="yes" if is_good else "no",
        metadata={**categorised.metadata, **({} if is_good else {"problem": problem})},
    )


def _level_reader(
    heights: Mapping[str, float],
) -> Callable[[Question, Answer, float, float], Evaluation]:
    """Make the reader of a score, of what each of its levels stands for.

    The value is the mean of the levels, weighted by their probabilities. The probability of being
    good is that of the levels which reach the threshold.
    """

    def read(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
        if answer.error is not None:
            return Evaluation(question.name, error=answer.error)
        good = [level for level, height in heights.items() if height >= threshold]
        chances = _tilted({level: answer.probabilities[level] for level in heights}, good, odds)
        return Evaluation(
            question.name,
            min(sum(chance * heights[level] for level, chance in chances.items()), 1.0),
            probability=min(sum(chances[level] for level in good), 1.0),
            metadata={"probabilities": chances, "confidence": confidence(question, chances)},
        )

    return read


def all_of(
    questions: Sequence[Question],
    answers: Mapping[str, Answer],
    threshold: float,
    odds: float = 1.0,
) -> Evaluation:
    """Return ``yes`` where all facts are stated.

    The probability is that of the fact that is least likely to be stated: that all of them are
    cannot be likelier. One fact without an answer leaves the whole without one.
    """
    rated = [yes_no(question, answers[question.name], threshold, odds) for question in questions]
    failed = next((one for one in rated if one.error is not None), None)
    if failed is not None:
        return failed
    least = min(rated, key=_probability)
    return replace(
        least,
        metadata={
            **least.metadata,
            "expected_facts": len(rated),
            "unstated_facts": [n for n, one in enumerate(rated, 1) if one.value == "no"],
            "probabilities": [one.probability for one in rated],
        },
    )


def chunks(rated: Sequence[Evaluation]) -> Evaluation:
    """Return one Evaluation of one per chunk, in rank order, as `combine` does.

    The probability is the mean of the chunks' probabilities: the chance that a chunk taken at
    random is good, which is the precision to be expected.
    """
    combined = combine("", rated)
    known = [one.probability for one in rated if one.probability is not None]
    return replace(
        combined,
        probability=sum(known) / len(known) if known else None,
        metadata={
            **combined.metadata,
            "probabilities": [one.probability for one in rated],
            "confidences": [one.metadata.get("confidence") for one in rated],
        },
    )


LEAST_CHANCE = 1e-4
"""What counts as no chance where odds are multiplied: as in `llmeval_sdk.statistics.calibration`,
nobody is so certain that a calibration could not move it."""


def _tilted(
    chances: Mapping[str, float], good: Collection[str], odds: float
) -> Mapping[str, float]:
    """Multiply the odds of the good options together; among themselves, nothing changes."""
    if odds == 1.0:
        return chances
    weights = {
        word: max(chance, LEAST_CHANCE) * (odds if word in good else 1.0)
        for word, chance in chances.items()
    }
    total = sum(weights.values())
    return {word: weight / total for word, weight in weights.items()}


def confidence(question: Question, probabilities: Mapping[str, float]) -> float:
    """Return how concentrated an answer is, from 0 for evenly spread to 1 for certain.

    It is computed here, by one definition for all models, since theirs differ. It is not the
    probability of being right.

    - of yes and no: how far the two are apart;
    - of a choice: how far the likeliest option stands above an even spread;
    - of a score: how close the others are to the likeliest level, beside an even spread.
    """
    if question.type == "yes_no":
        return abs(2 * probabilities["yes"] - 1)
    chances = [probabilities[option.value] for option in question.options]
    count, top = len(chances), max(chances)
    if question.type == "choice":
        return max(0.0, (top - 1 / count) / (1 - 1 / count))
    mode, middle = chances.index(top), (count - 1) / 2
    spread = sum(chance * abs(place - mode) for place, chance in enumerate(chances))
    even = sum(abs(place - middle) for place in range(count)) / count
    return max(0.0, 1 - spread / even)


def _probability(evaluation: Evaluation) -> float:
    return evaluation.probability or 0.0


MOST_OPTIONS, MOST_LEVELS = 255, 10
"""What the largest wire takes; a wire that takes fewer says so itself."""

# How a decision model is asked in the place of a judge model: typed questions about sections.
#
# A judge's rubric becomes one question, or one for each chunk or fact. What is judged stands in
# the sections alone. A question names the sections that it is about, because the data of a
# request holds those of all judges that are asked together.

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


def typed_form_of(judge: object) -> Typed | None:
    """Return what makes a judge's typed form of a record; ``None`` where it cannot have one.

    Raises:
        ConfigurationError: It has more options or levels than any decision model takes.
    """
    if not isinstance(judge, BaseJudge) or judge.model is not None:
        return None
    return judge.typed(Forms(judge.name))


def unrated_categories(judge: object) -> list[str]:
    """Return the categories of a judge that leave its decisions without a probability."""
    output = getattr(judge, "output", None)
    return unrated(output) if isinstance(output, tuple) else []


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
        instructions, options = _yes_and_no(rubric)

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
        instructions, cases = _cases_of(rubric)
        options = self._options({"none": cases["yes"], **problems}.items())

        def form(record: Record) -> TypedForm:
            shown = sections(record)
            question = self._question("choice", instructions, shown, options)
            return self._single(question, shown, _no_problem)

        return form

    def levels(self, rubric: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask for the level of a score.

        The lines of the rubric that begin with a number, or with a band such as ``0.4 - 0.6``,
        describe the levels. The value is the mean of the levels by their probabilities.
        """
        instructions, cases = _cases_of(rubric)
        heights = {band: height(band) for band in sorted(cases, key=height)}
        levels = self._levels([(band, cases[band]) for band in heights])
        read = _level_reader(heights)

        def form(record: Record) -> TypedForm:
            shown = sections(record)
            return self._single(self._question("score", instructions, shown, levels), shown, read)

        return form

    def chunks(self, rubric: str, sections: Callable[[Record], Sections]) -> Typed:
        """Ask about each chunk whether yes; the rubric calls it ``section "chunk"``."""
        instructions, options = _yes_and_no(rubric)

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

            return self._per_chunk(record, ask, yes_no)

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
                lambda answers, threshold, odds=1.0: all_of(questions, answers, threshold, odds),
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
                wording, shown, own = _of_chunk(template, record, chunk, rank)
                name = f"{self._judge}.{rank}"
                return ChunkQuestion(
                    self._question(kind, wording, shown, options, name), shown, own
                )

            return self._per_chunk(record, ask, read)

        return form

    def _answered_by(self, output: Any, levels: Sequence[str]) -> tuple[Any, Any, Reader]:
        if output == "yes_no":
            return "yes_no", (), yes_no
        if output == "score":
            heights = {label: place / (len(levels) - 1) for place, label in enumerate(levels)}
            described = self._levels([(label, "") for label in levels])
            return "score" if levels else None, described, _level_reader(heights)
        return "choice", self._options((word, "") for word in output), category

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
        make = read or yes_no
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
            return chunks(
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
