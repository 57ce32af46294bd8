"""Judges of the app's own: a prompt (`LLMJudge`) or a function (`judge`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask, rate_chunks
from llmeval_sdk.judges.function import FunctionJudge, judge, unit_of
from llmeval_sdk.judges.prompt import (
    SCORE,
    YES_NO,
    Example,
    Template,
    VerdictForm,
    category,
    in_range,
    render,
    score_of,
)
from llmeval_sdk.model import Chunk, Evaluation, Record, values
from llmeval_sdk.model.protocols import LLM


__all__ = ["Example", "FunctionJudge", "LLMJudge", "judge"]


class LLMJudge(BaseJudge):
    """A judge made of a prompt.

    The prompt is the rubric. ``{response}`` and the like name parts of the Record; each is shown to
    the model in a section of its own, apart from the rubric, so that no text in it can pass for
    instructions. ``{{`` and ``}}`` are plain braces.

    Args:
        name: Of its evaluations: ASCII letters, digits and underscores.
        prompt: The question, with ``{request}``, ``{response}``, ``{retrieved_context}``,
            ``{expected_response}``, ``{attributes.tone}`` …, per chunk also ``{chunk.content}``.
        per: ``chunk`` asks once for each retrieved chunk; the value is then the precision.
        output: ``yes_no``, ``score`` (0..1) or a list of categories.
        levels: Of a score: what its levels are called, from 0 to 1 at equal distances, such as
            ``["rude", "neutral", "kind"]``. Decision models can be asked for a score that has them.
        version: Recorded with each evaluation; raise it when the prompt changes.
        examples: Worked examples: what was given, and the reply as the output's JSON object.
        needs: Record fields that must be present; by default those that the prompt names.
        better: Which values are better, ``lower`` or ``higher``; by default higher ones, unless the
            name ends in ``_risk``. With ``lower``, a yes is bad.
        model: A model of its own; by default the configured one.
        assessment_type: Another way to say ``per``: ``ANSWER`` is per answer, ``RETRIEVAL`` per
            chunk.

    Raises:
        ConfigurationError: An unknown field or ``per``, a broken template, or levels that are none;
            the message names what there is.

    Examples:
        >>> polite = llmeval.LLMJudge("polite", "Is the answer polite? {response}")
        >>> llmeval.configure(evaluators=[polite])
    """

    def __init__(
        self,
        name: str,
        prompt: str,
        *,
        per: Literal["answer", "chunk"] = "answer",
        output: Literal["yes_no", "score"] | Sequence[str] = "yes_no",
        levels: Sequence[str] = (),
        version: str = "1",
        examples: Sequence[Example] = (),
        needs: tuple[str, ...] | None = None,
        better: Literal["lower", "higher"] | None = None,
        model: str | LLM | None = None,
        assessment_type: Literal["ANSWER", "RETRIEVAL"] | None = None,
    ) -> None:
        registry.check_name(name)
        self.name = name
        self.per = unit_of(f"the judge {name!r}", per, assessment_type)
        self.version = version
        self.model = model
        self.better = better
        values.declare(name, better)
        self._template = Template(
            prompt, per_chunk=self.per == "chunk", where=f"the judge {name!r}"
        )
        self.needs = self._template.needs if needs is None else needs
        self._levels = tuple(levels)
        self._form = _form(name, output, self._levels)
        self.output = output if isinstance(output, str) else tuple(output)
        self._examples = tuple(examples)

    def __repr__(self) -> str:
        return f"<LLMJudge {self.name!r} per {self.per}>"

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return self._template.rubric

    def typed(self, forms: Forms) -> Typed | None:
        """Ask the prompt, where it has a question with answers to choose from."""
        return forms.template(self._template, per=self.per, output=self.output, levels=self._levels)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once, or once per chunk."""
        if self.per == "answer":
            return await self._ask(record, None, llm)

        async def rate(chunk: Chunk) -> Evaluation:
            return await self._ask(record, chunk, llm)

        return await rate_chunks(self.name, record.retrieved_context or (), rate)

    async def _ask(self, record: Record, chunk: Chunk | None, llm: LLM) -> Evaluation:
        prompt = render(
            f"{self.name}/{self.version}",
            self._template.rubric,
            self._form,
            self._template.sections(record, chunk),
            self._examples,
        )
        verdict: dict[str, Any] = await ask(llm, prompt, self._form, max_tokens=1024)
        value = verdict["rating"] if "rating" in verdict else in_range(verdict["score"])
        return Evaluation(
            self.name,
            value,
            explanation=verdict["rationale"],
            metadata=prompt.notes,
        )


def _form(
    name: str, output: Literal["yes_no", "score"] | Sequence[str], levels: Sequence[str]
) -> VerdictForm:
    if levels and not (output == "score" and _are_words(levels) and _differ(levels)):
        raise ConfigurationError(
            f"the judge {name!r}: levels are at least two different words, for output='score'"
        )
    if output == "yes_no":
        return YES_NO
    if output == "score":
        return score_of(levels) if levels else SCORE
    if not _are_words(output):
        raise ConfigurationError(
            f"the judge {name!r}: output is 'yes_no', 'score' or a list of categories"
        )
    if not _differ(output):
        raise ConfigurationError(f"the judge {name!r} needs at least two different categories")
    return category(*output)


def _are_words(words: Sequence[str]) -> bool:
    return not isinstance(words, str) and all(isinstance(word, str) and word for word in words)


def _differ(words: Sequence[str]) -> bool:
    return len({word.casefold() for word in words}) >= max(len(words), 2)
