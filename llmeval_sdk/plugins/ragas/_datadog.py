"""The three scores as Datadog's ddtrace computed them, with the prompts of Ragas' singletons.

The singletons are read anew for each score, so whatever the app has changed about them applies:
their prompts, their LLM, their embeddings.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import ragas.metrics

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.plugins.ragas._adapter import JudgeEmbeddings, JudgeModel
from llmeval_sdk.process.helper_threads import HelperThreads


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
