"""Scores records with Ragas: Datadog's three metrics, and Ragas' own by name or as objects.

This module imports Ragas, and gives it our judge model and embeddings in the form that it wants.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import ragas.metrics
from ragas.dataset_schema import SingleTurnSample
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics import collections

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.model.json_object import NoObjectError, only_object
from llmeval_sdk.model.protocols import LLM, further_request
from llmeval_sdk.process.stopwatch import Stopwatch
from llmeval_sdk.process.threads import HelperThreads, run


MAX_TOKENS = 4096
"""Ragas' own default of 1,024 cuts an answer of six statements."""
FURTHER = 6
"""Requests a judgement may make beyond its calls: the other ways to ask a server for JSON, which
are tried once in a while, and what is tried again because the server is busy."""
_SHOWN = 4_000
"""Characters of a reply that are kept for its span."""


@dataclass(slots=True)
class RagasCall:
    """One call of a model, as it is told to the parent."""

    name: str
    start_ns: int
    end_ns: int = 0
    model: str = ""
    usage: Usage | None = None
    response: str | None = None
    error: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can carry it."""
        return asdict(self)


class JudgeModel(InstructorBaseRagasLLM):  # type: ignore[misc,unused-ignore]
    """Answers Ragas' prompts with our client: one strict reader, no retries of its own."""

    is_async = True

    def __init__(self, llm: LLM, *, most_calls: int) -> None:
        self.calls: list[RagasCall] = []
        self.failure: JudgeError | None = None
        """The latest failed call: Ragas turns some failures into NaN."""
        self._llm = llm
        self._clock = Stopwatch()
        self._most_calls = most_calls
        self.requests = 0
        """How many requests went out: more than calls where a server had to be asked in other ways
        or gave what could not be read."""

    def generate(self, prompt: str, response_model: object) -> Any:
        """Refuse: everything here is asynchronous."""
        raise TypeError("use agenerate")

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        """Ask for one object of a pydantic model; raises `JudgeError`."""
        with self.call(response_model.__name__) as call:
            if self.failure is not None and self.failure.type != "malformed":
                raise self.failure  # Ragas would ask up to ten times more
            await self._request()
            further_request.set(self._request)
            completion = await self._llm.complete(
                [Message("user", prompt)],
                schema=strict(response_model.model_json_schema()),
                max_tokens=MAX_TOKENS,
            )
            call.model, call.usage = completion.model, completion.usage
            call.response = completion.text[:_SHOWN]
            try:
                return response_model.model_validate(only_object(completion.text))
            except (NoObjectError, ValueError) as error:
                raise JudgeError("malformed", f"{response_model.__name__}: {error}") from None

    async def _request(self, trouble: JudgeError | None = None) -> None:
        """Count a request; raises `JudgeError` beyond what was reserved."""
        if self.requests >= self._most_calls + FURTHER:
            raise JudgeError("over_budget", f"more than the {self._most_calls} calls reserved")
        self.requests += 1

    @contextmanager
    def call(self, name: str) -> Iterator[RagasCall]:
        """Note one call while it runs."""
        call = RagasCall(name, self._clock.now_ns())
        self.calls.append(call)
        try:
            yield call
        except JudgeError as error:
            if self.failure is None or error.type != "over_budget":
                self.failure = error  # what used the calls up is the cause
            call.error = error.type
            call.usage = call.usage or error.usage
            raise
        except Exception as error:
            call.error = type(error).__name__
            raise
        finally:
            call.end_ns = self._clock.now_ns()


class JudgeEmbeddings(BaseRagasEmbedding):  # type: ignore[misc,unused-ignore]
    """Embeds with ours, for both families of metrics."""

    def __init__(self, make: Callable[[], Any], model: JudgeModel) -> None:
        super().__init__()
        self._make = make
        self._model = model

    async def aembed_texts(self, texts: list[str], **_: object) -> list[list[float]]:
        """Embed all texts in one call."""
        with self._model.call("embeddings") as call:
            embeddings = self._make()
            embedded = await embeddings.embed(texts)
            call.model, call.usage = embeddings.model, embedded.usage or Usage()
            return [list(vector) for vector in embedded.vectors]

    async def aembed_text(self, text: str, **_: object) -> list[float]:
        """Embed one text."""
        return (await self.aembed_texts([text]))[0]

    def embed_texts(self, texts: list[str], **_: object) -> list[list[float]]:
        """Embed and wait: what legacy metrics do."""
        return run(lambda: self.aembed_texts(texts))

    def embed_text(self, text: str, **_: object) -> list[float]:
        """Embed one text and wait."""
        return self.embed_texts([text])[0]

    embed_query = embed_text
    embed_documents = embed_texts


def strict(schema: object) -> Any:
    """Make a pydantic schema what strict modes ask for: no other keys, every key required."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(each) for key, each in schema.items() if key != "default"}
    if found.get("type") == "object" and "properties" in found:
        found["additionalProperties"] = False
        found["required"] = list(found["properties"])
    return found


async def faithfulness(
    columns: Mapping[str, Any], model: JudgeModel, embeddings: JudgeEmbeddings
) -> dict[str, Any]:
    """Score faithful statements / statements; those that are not are kept in the metadata."""
    metric = _singleton("faithfulness")
    prompt = metric.statement_generator_prompt
    made = await _ask(
        metric, prompt, model, question=columns["user_input"], answer=columns["response"]
    )
    statements = list(made.statements)
    if not statements:
        raise JudgeError("malformed", "the judge found no statement in the response")
    judged = await _ask(
        metric,
        metric.nli_statements_prompt,
        model,
        context="\n".join(columns["retrieved_contexts"]),
        statements=statements,
    )
    verdicts = [_verdict(each.verdict) for each in judged.statements]
    if not verdicts:
        raise JudgeError("malformed", "the judge gave no verdict")
    against = [each for each in judged.statements if not each.verdict]
    return {
        "value": sum(verdicts) / len(verdicts),
        "explanation": "; ".join(f"{each.statement} ({each.reason})" for each in against) or None,
        "metadata": {
            "statements": len(statements),
            "disagreements": [
                {"answer_quote": each.statement, "reason": each.reason} for each in against
            ],
        },
    }


async def answer_relevancy(
    columns: Mapping[str, Any], model: JudgeModel, embeddings: JudgeEmbeddings
) -> dict[str, Any]:
    """Score the mean cosine of the question and questions made of the answer, 0 if it evades."""
    metric = _singleton("answer_relevancy")
    prompt, count = metric.question_generation, metric.strictness
    if metric.llm is None:
        made = [
            await _ask(metric, prompt, model, response=columns["response"]) for _ in range(count)
        ]
    else:
        with model.call(type(prompt).__name__):
            data = prompt.input_model(response=columns["response"])
            made = await prompt.generate_multiple(llm=metric.llm, data=data, n=count)
    evades = any(_verdict(each.noncommittal) for each in made)
    asked = [each.question for each in made]
    if not any(asked):
        raise JudgeError("malformed", "the judge made no question of the response")
    own = metric.embeddings or embeddings
    vectors = await _embedded(own, [columns["user_input"], *asked])
    alike = [_cosine(vectors[0], vector) for vector in vectors[1:]]
    return {
        "value": 0.0 if evades else sum(alike) / len(alike),
        "metadata": {"noncommittal": evades, "questions": asked, "strictness": count},
    }


async def context_precision(
    columns: Mapping[str, Any], model: JudgeModel, embeddings: JudgeEmbeddings
) -> dict[str, Any]:
    """Score useful contexts / contexts."""
    metric = _singleton("context_precision")
    judged = [
        await _ask(
            metric,
            metric.context_precision_prompt,
            model,
            question=columns["user_input"],
            context=context,
            answer=columns["response"],
        )
        for context in columns["retrieved_contexts"]
    ]
    verdicts = [_verdict(each.verdict) for each in judged]
    return {
        "value": sum(verdicts) / len(verdicts),
        "metadata": {"verdicts": verdicts, "reasons": [each.reason for each in judged]},
    }


_embedding = HelperThreads("ragas embeddings")

SCORES = {
    "ragas_faithfulness": faithfulness,
    "ragas_answer_relevancy": answer_relevancy,
    "ragas_context_precision": context_precision,
}


def _singleton(name: str) -> Any:
    """Return Ragas' global metric as the app has left it, without its warning on the way."""
    return vars(ragas.metrics).get(name) or ragas.metrics._DEPRECATED_METRICS[name]


def _alias() -> None:
    """Let the guide's name of a prompt work, which it lost after Ragas 0.1."""
    kind = type(_singleton("faithfulness"))
    if not hasattr(kind, "statement_prompt"):
        kind.statement_prompt = property(lambda metric: metric.statement_generator_prompt)


_alias()


async def _ask(metric: Any, prompt: Any, model: JudgeModel, **fields: Any) -> Any:
    """Have a prompt answered, by the LLM the app gave to the metric or by ours."""
    data = prompt.input_model(**fields)
    if metric.llm is None:
        return await prompt.generate(llm=model, data=data)
    with model.call(type(prompt).__name__):
        return await prompt.generate(llm=metric.llm, data=data)


def _verdict(value: Any) -> int:
    if value not in (0, 1):
        raise JudgeError("malformed", f"a verdict is 0 or 1, not {value!r}"[:200])
    return int(value)


async def _embedded(embeddings: Any, texts: list[str]) -> list[Sequence[float]]:
    """Embed with the current or the legacy interface; the latter blocks, so on another thread."""
    if hasattr(embeddings, "aembed_texts"):
        found: list[Sequence[float]] = await embeddings.aembed_texts(texts)
        return found
    embed = embeddings.embed_documents
    if inspect.iscoroutinefunction(embed):
        return list(await embed(texts))
    return list(await _embedding.call_async(embed, texts))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    if not length:
        raise JudgeError("malformed", "an embedding is all zero")
    return min(1.0, sum(x * y for x, y in zip(one, other, strict=True)) / length)  # rounding


async def score(
    metric: Any, columns: Mapping[str, Any], model: JudgeModel, embeddings: JudgeEmbeddings
) -> dict[str, Any]:
    """Score with a metric of either family; what it lacks (LLM, embeddings) is ours."""
    if isinstance(metric, str):
        metric = _made(metric, model, embeddings)
    if hasattr(metric, "single_turn_ascore"):
        metric = _completed(metric, model, embeddings)
        with _counted(metric, model):
            value = await metric.single_turn_ascore(SingleTurnSample(**columns))
        return {"value": float(value)}
    taken = inspect.signature(metric.ascore).parameters
    with _counted(metric, model):
        result = await metric.ascore(**{k: v for k, v in columns.items() if k in taken})
    value = result.value
    return {
        "value": float(value) if isinstance(value, (int, float)) else value,
        "explanation": result.reason,
    }


def _made(name: str, model: JudgeModel, embeddings: JudgeEmbeddings) -> Any:
    """Make a metric of the current family, or of the legacy one where only that has it."""
    for family in (vars(collections), ragas.metrics._DEPRECATED_METRICS):
        for kind in family.values():
            if isinstance(kind, type) and _snake(kind.__name__) == name:
                given = {"llm": model, "embeddings": embeddings}
                taken = inspect.signature(kind).parameters
                return kind(**{k: v for k, v in given.items() if k in taken})
    raise JudgeError("not_installed", f"this Ragas has no metric {name!r}")


def _snake(name: str) -> str:
    """Turn a class's name into the metric's: ``NonLLMContextRecall`` -> non_llm_context_recall."""
    for word in ("LLM", "SQL", "CHRF"):
        name = name.replace(word, word.capitalize())
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _completed(metric: object, model: JudgeModel, embeddings: JudgeEmbeddings) -> Any:
    """Give a copy of a legacy metric what it lacks; the app's object stays as it is."""
    lacking = {
        name: ours
        for name, ours in (("llm", model), ("embeddings", embeddings))
        if getattr(metric, name, ours) is None
    }
    if lacking:
        metric = copy.copy(metric)
        for name, ours in lacking.items():
            setattr(metric, name, ours)
    return metric


def _counted(metric: object, model: JudgeModel) -> Any:
    """Note a run with the app's own LLM as one call of unknown size; ours counts by itself."""
    from contextlib import nullcontext

    own = getattr(metric, "llm", None)
    return nullcontext() if own is None or own is model else model.call(type(metric).__name__)
