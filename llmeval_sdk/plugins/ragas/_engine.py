"""Runs metrics with the real Ragas, in the child or on a thread. Only here is Ragas imported."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Completion, Message
from llmeval_sdk.model.protocols import LLM


os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")  # noqa: TID251 - it is Ragas that reads it

Handle = Callable[[Mapping[str, Any], float], Awaitable[Mapping[str, Any]]]


def open_engine(options: Mapping[str, object]) -> tuple[Handle, Mapping[str, Any]]:
    """Import Ragas and run the app's set-up, for the child; raises `JudgeError` if it cannot."""
    opened = engine(options.get("setup"))
    models: dict[str, LLM] = {}

    async def handle(job: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        model = job.get("model")
        key = repr(model)
        if key not in models:
            asked = model and {**model, "timeout": seconds}
            models[key] = registry.judge_model(asked) if asked else _Nobody()
        return await opened.run(job, models[key], seconds)

    return handle, {"ragas": opened.version}


@cache
def engine(setup: str | None) -> RagasEngine:
    """Import Ragas and call ``module:function`` once, where one is named."""
    try:
        ragas = RagasEngine()
    except Exception as error:  # a broken Ragas raises what it likes on import
        said = f"{type(error).__name__}: {error}"
        raise JudgeError("not_installed", f"Ragas cannot be imported: {said}") from None
    if setup:
        module, _, function = setup.partition(":")
        try:
            getattr(import_module(module), function)()
        except Exception as error:
            raise JudgeError(
                "error", f"LLMEVAL_RAGAS_SETUP={setup}: {type(error).__name__}: {error}"
            ) from None
    return ragas


class _Nobody(LLM):
    """Stands where the child has no way to the judge model."""

    model = ""

    async def complete(
        self,
        messages: Sequence[Message],
        /,
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int = 4096,
    ) -> Completion:
        """Refuse, with the reason that is counted."""
        raise JudgeError(
            "no_judge_model",
            "the judge model is an object of the app's, or none: LLMEVAL_JUDGE_WORKER=thread runs "
            "Ragas beside it, LLMEVAL_JUDGE_MODEL names one",
        )


class RagasEngine:
    """An imported Ragas."""

    def __init__(self) -> None:
        self._scoring = import_module("llmeval_sdk.plugins.ragas._scoring")
        self.version = str(import_module("ragas").__version__)
        self._embeddings: dict[Any, Any] = {}

    async def run(self, job: Mapping[str, object], llm: LLM, seconds: float) -> dict[str, Any]:
        """Score one record within ``seconds``; never raises what is an `Exception`."""
        scoring = self._scoring
        model = scoring.JudgeModel(llm, most_calls=job["calls"])
        embeddings = scoring.JudgeEmbeddings(lambda: self._embeddings_of(job, llm), model)
        answer: dict[str, Any] = {"ragas": self.version}
        try:
            scored = await asyncio.wait_for(self._score(job, model, embeddings), seconds)
            answer.update(scored)
            answer["error"] = _unusable(answer["value"], model)
        except asyncio.TimeoutError:
            answer["error"] = {"type": "timeout", "message": f"no score after {seconds:g} s"}
        except MemoryError:
            raise
        except Exception as error:
            answer["error"] = _described(error, model)
        answer["requests"] = model.requests
        answer["calls"] = [call.plain() for call in model.calls]
        if answer["error"] is not None:
            answer["value"] = None
        return answer

    async def _score(
        self, job: Mapping[str, object], model: object, embeddings: object
    ) -> dict[str, Any]:
        metric, columns = job["metric"], job["columns"]
        own = self._scoring.SCORES.get(metric) if isinstance(metric, str) else None
        if own is not None:
            scored: dict[str, Any] = await own(columns, model, embeddings)
            return scored
        native: dict[str, Any] = await self._scoring.score(metric, columns, model, embeddings)
        return native

    def _embeddings_of(self, job: Mapping[str, object], llm: LLM) -> Any:
        """Make the embeddings once; from the judge model's server, unless another is named."""
        key = (job.get("embeddings"), repr(job.get("model")), id(llm))
        if key not in self._embeddings:
            self._embeddings[key] = registry.embeddings(job.get("embeddings"), llm)
        return self._embeddings[key]


def _unusable(value: Any, model: Any) -> dict[str, str] | None:
    """Say why a score is none: Ragas turns many failures into NaN."""
    number = None
    with suppress(TypeError, ValueError):
        number = float(value)
    if number is not None and math.isfinite(number):
        return None
    if model.failure is not None:
        return _described(model.failure, model)
    return {"type": "malformed", "message": f"Ragas gave {value!r} instead of a score"}


def _described(error: BaseException, model: Any) -> dict[str, str]:
    cause = error if isinstance(error, JudgeError) else model.failure
    if isinstance(cause, JudgeError):
        return {"type": cause.type, "message": str(cause)}
    if type(error).__name__ in ("ValidationError", "RagasOutputParserException"):
        return {"type": "malformed", "message": str(error)[:300]}
    return {"type": type(error).__name__, "message": str(error)[:300]}
