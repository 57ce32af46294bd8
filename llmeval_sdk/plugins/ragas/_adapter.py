"""Our judge model and embeddings, as Ragas wants to have them. Imports Ragas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import time_ns
from typing import Any

from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.model.json_object import NoObjectError, only_object
from llmeval_sdk.model.protocols import LLM, further_request
from llmeval_sdk.process.threads import run


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
        self._most_calls = most_calls
        self.requests = 0
        """How many requests went out: more than calls where a server had to be asked in other ways
        or gave what could not be read."""

    def generate(self, prompt: str, response_model: Any) -> Any:
        """Refuse: everything here is asynchronous."""
        raise TypeError("use agenerate")

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        """Ask for one object of a pydantic model; raises `JudgeError`."""
        with self.call(response_model.__name__) as call:
            if self.failure is not None and self.failure.type != "malformed":
                raise self.failure  # Ragas would ask up to ten times more
            self._request()
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

    def _request(self, trouble: JudgeError | None = None) -> None:
        """Count a request; raises `JudgeError` beyond what was reserved."""
        if self.requests >= self._most_calls + FURTHER:
            raise JudgeError("over_budget", f"more than the {self._most_calls} calls reserved")
        self.requests += 1

    @contextmanager
    def call(self, name: str) -> Iterator[RagasCall]:
        """Note one call while it runs."""
        call = RagasCall(name, time_ns())
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
            call.end_ns = time_ns()


class JudgeEmbeddings(BaseRagasEmbedding):  # type: ignore[misc,unused-ignore]
    """Embeds with ours, for both families of metrics."""

    def __init__(self, make: Callable[[], Any], model: JudgeModel) -> None:
        super().__init__()
        self._make = make
        self._model = model

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Embed all texts in one call."""
        with self._model.call("embeddings") as call:
            embeddings = self._make()
            embedded = await embeddings.embed(texts)
            call.model, call.usage = embeddings.model, embedded.usage or Usage()
            return [list(vector) for vector in embedded.vectors]

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """Embed one text."""
        return (await self.aembed_texts([text]))[0]

    def embed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Embed and wait: what legacy metrics do."""
        return run(lambda: self.aembed_texts(texts))

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """Embed one text and wait."""
        return self.embed_texts([text])[0]

    embed_query = embed_text
    embed_documents = embed_texts


def strict(schema: Any) -> Any:
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
