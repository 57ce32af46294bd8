"""Evaluators over rows, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk import config, registry
from llmeval_sdk._needs import missing
from llmeval_sdk._threads import run
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation import NoModel, outcome, run_heuristic, run_judge
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.offline._aggregate import aggregate
from llmeval_sdk.offline._report import Report, Row
from llmeval_sdk.offline._rows import record_from
from llmeval_sdk.protocols import LLM, Heuristic, Judge


def evaluate(
    data: Iterable[Mapping[str, Any] | Record],
    *,
    evaluators: Sequence[Heuristic | Judge | str | Any] | None = None,
    llm: LLM | str | Any = None,
    concurrency: int = 8,
) -> Report:
    """Evaluate rows with the evaluators that run online.

    Args:
        data: rows as mappings of the input schema (``request``, ``response``,
            ``retrieved_context``, ``extractions`` …), or Records.
        evaluators: names or objects. Default: every free one whose inputs a row has.
        llm: the judge model: a name, an LLM or a callable; else ``LLMEVAL_JUDGE_MODEL``.
        concurrency: judgements at a time.

    Raises:
        DataError: a row that cannot be read; the message names the row and the column.
        ConfigurationError: an unknown evaluator, or a judge without a model to ask.
    """
    records = [record_from(row, number=number) for number, row in enumerate(data, start=1)]
    for number, record in enumerate(records, start=1):
        if record.request is None and evaluators is None:
            raise DataError(f"row {number}: the column 'request' is missing")
    chosen = None if evaluators is None else [_resolve(each) for each in evaluators]
    judges = [each for each in chosen or () if each.kind == "judge"]
    rows = [_heuristics(record, chosen) for record in records]
    if judges:
        model = _model(llm, judges)
        timeout = config.from_environment(problems=[]).judge_timeout
        judged = run(lambda: _judge(records, judges, model, timeout, max(1, concurrency)))
        for found, verdicts in zip(rows, judged, strict=True):
            found.update(verdicts)
    done = tuple(Row(record, found) for record, found in zip(records, rows, strict=True))
    metrics, counts = aggregate(done)
    return Report(done, metrics, counts)


def _resolve(evaluator: Any) -> Heuristic | Judge:
    if isinstance(evaluator, str):
        return registry.evaluator(evaluator)
    if getattr(evaluator, "kind", None) in ("heuristic", "judge"):
        found: Heuristic | Judge = evaluator
        return found
    from llmeval_sdk.judges.adapt import as_evaluator

    return as_evaluator(evaluator)


def _heuristics(record: Record, chosen: list[Heuristic | Judge] | None) -> dict[str, Evaluation]:
    """Run the heuristics that were asked for, or all whose inputs are there."""
    asked = chosen
    if asked is None:
        asked = [registry.evaluator(name) for name in registry.HEURISTICS]
        asked = [each for each in asked if missing(record, each.needs) is None]
    found = {}
    for evaluator in asked:
        if evaluator.kind != "heuristic":
            continue
        absent = missing(record, evaluator.needs)
        if absent is not None:
            found[evaluator.name] = _not_applicable(evaluator, absent)
        else:
            found[evaluator.name] = run_heuristic(evaluator, record)
    return found


def _not_applicable(evaluator: Heuristic | Judge, absent: str) -> Evaluation:
    return replace(outcome(None, evaluator), explanation=f"not applicable: no {absent}")


async def _judge(
    records: list[Record], judges: list[Judge], model: LLM, timeout: float, concurrency: int
) -> list[dict[str, Evaluation]]:
    places = asyncio.Semaphore(concurrency)

    async def one(judge: Judge, record: Record) -> Evaluation:
        absent = missing(record, judge.needs)
        if absent is not None:
            return _not_applicable(judge, absent)
        async with places:
            return await run_judge(judge, record, model, timeout=timeout)

    async def row(record: Record) -> dict[str, Evaluation]:
        verdicts = await asyncio.gather(*(one(judge, record) for judge in judges))
        return {judge.name: verdict for judge, verdict in zip(judges, verdicts, strict=True)}

    return list(await asyncio.gather(*(row(record) for record in records)))


def _model(llm: Any, judges: list[Judge]) -> LLM:
    """Find the judge model; a name given here or in the environment allows spending."""
    settings = config.from_environment(problems=[])
    from llmeval_sdk.llms import resolve

    if llm is None and settings.judge_model is None and settings.judge_api_key is None:
        needing = [judge.name for judge in judges if getattr(judge, "needs_model", True)]
        if needing:
            raise ConfigurationError(
                f"{', '.join(needing)} needs a judge model: set LLMEVAL_JUDGE_MODEL (and "
                "OPENAI_API_KEY or OPENAI_BASE_URL), or pass llm="
            )
        return NoModel()
    return resolve(llm, settings=settings)
