"""``evaluate()``: the evaluators that run online, over rows, in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any, Literal

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.model.protocols import LLM, DecisionModel, Exporter, Heuristic, Judge
from llmeval_sdk.offline.data.record import mapped
from llmeval_sdk.offline.data.source import is_ray_dataset, open_data, stem_of
from llmeval_sdk.offline.report.aggregate import ASKED, directions, run_of
from llmeval_sdk.offline.report.gate import check_paths
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.run.rows import BadRows, CheckedRows, FinishedRows, bar, good_rows
from llmeval_sdk.offline.run.work import Work, slug


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `evaluate`; ``report`` has the rows that were done."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"interrupted after {len(report.rows):,} rows")
        self.report = report


def evaluate(
    data: object,
    *,
    model: Callable[[Any], Any] | str | None = None,
    evaluators: Sequence[Heuristic | Judge | str | object] | None = None,
    llm: LLM | str | Callable[..., Any] | None = None,
    concurrency: int = 8,
    progress: bool = True,
    budget: Budget | None = None,
    experiment: str | None = None,
    exporters: Sequence[Exporter | str] = (),
    save: str | os.PathLike[str] | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    cache: bool = True,
    prices: Mapping[str, tuple[float, ...]] | None = None,
    decisions: DecisionModel | str | Callable[..., Any] | None = None,
    thresholds: Mapping[str, float] | None = None,
    engine: Literal["local", "ray"] | None = None,
    workers: int | None = None,
    map_columns: Mapping[str, str] | None = None,
) -> Report:
    """Evaluate rows with the same evaluators that run online.

    If rows cost something, because a judge or ``model`` is called, all rows are read and checked
    before the first call.

    Args:
        data: a list of mappings of the input schema (``request``, ``response``,
            ``retrieved_context``, ``expected_response``, ``trace``, ``extractions`` …) or Records;
            a pandas or polars DataFrame; a Hugging Face Dataset; or the path of a ``.jsonl``,
            ``.csv`` or ``.parquet`` file, which is read row by row; or a `GoldenSet`.
        model: the app, sync or async, or its address such as ``"my_app:answer"``. It is called
            under tracing with the request of each row, unchanged; but where its parameter is called
            ``messages``, ``model_input`` or ``chat_request``, or is annotated as a mapping, a text
            comes as a chat request, ``{"messages": [{"role": "user", "content": …}]}``, and
            ``messages`` is that list. Its answer, the chunks that it
            retrieves and the tokens that it uses become part of the row. If it raises, the row is
            reported with that ``error``.
        evaluators: names or objects. Without them, every evaluator runs on the rows that have its
            inputs; judges are among them only if a judge model is configured.
        llm: the judge model: a name, an LLM or a callable. Default: ``LLMEVAL_JUDGE_MODEL``.
        concurrency: how many judgements, or calls of ``model``, run at a time.
        progress: show a progress bar on a terminal.
        budget: the most that the judges of this run may use. Default: no limit. A limit in USD
            requires that the price of each judge model is known.
        experiment: the name of this run in every backend.
        exporters: names or objects that also receive spans and scores. Default: none.
        save: a file to which each row is written as soon as it is done; see `Report.load`.
        resume: evaluate only the rows that ``save`` lacks or that failed. Rows that the key of
            this machine did not sign are evaluated again.
        skip_bad: leave out rows that cannot be read, and count them.
        cache: reuse verdicts of earlier runs if judge, model and inputs are the same.
        prices: prices in USD per million input and output tokens, by model. They take precedence
            over ``LLMEVAL_PRICES``, which takes precedence over the built-in list.
        decisions: the decision model: a name such as ``"openai/gpt-6-luna"``, an object with
            ``decide``, or a callable. It is asked, once for each row, in place of all judges whose
            questions have answers to choose from; the other judges ask ``llm``. Default: where no
            ``llm`` is given, ``LLMEVAL_DECISION_MODEL``.
        thresholds: the probability, by the name of the judge, from which on the outcome of a
            decision is good. Default: those of the decision model, else 0.5.
        engine: ``"local"`` evaluates in this process; ``"ray"`` on Ray Data, in many processes and
            on many machines, with the same report. Then ``data`` is a ``ray.data.Dataset`` or the
            path of Parquet files, which may be a folder or a pattern such as ``data/*.parquet``;
            ``save`` is a folder; and ``model`` and ``exporters`` cannot be used. Default:
            ``"ray"`` for a Dataset, else ``"local"``.
        workers: with Ray, how many processes evaluate; ``concurrency`` is divided among them.
            Default: as many as Ray has processors, less one that reads.
        map_columns: the columns of the input schema, by their names in the data, such as
            ``{"question": "request", "answer": "response"}``; for the local engine.

    Raises:
        DataError: a row cannot be read; the message names the file, the line and the column.
        ConfigurationError: an evaluator is unknown, a judge has no model, ``model`` cannot be
            called, or the data is of an unknown kind; the message says what to do.
        Interrupted: Ctrl-C was pressed; the exception has the report of the rows that were done.

    Examples:
        >>> rows = [{"request": "What is the roof made of?", "response": "Slate."}]
        >>> report = llmeval.evaluate(rows, progress=False)
        >>> len(report.rows)
        1
    """
    runs_on_ray = _runs_on_ray(data, engine, workers)
    if map_columns and runs_on_ray:
        raise ConfigurationError(
            "map_columns= (--map) is for the local engine: rename the columns of the Dataset or of "
            "the files that Ray reads"
        )
    opened = None if runs_on_ray else mapped(open_data(data), map_columns)
    work = Work(
        model=model,
        evaluators=None if evaluators is None else tuple(_listed(evaluators)),
        llm=llm,
        concurrency=concurrency,
        budget=budget,
        exporters=tuple(exporters),
        experiment=slug(experiment or f"offline-{stem_of(data)}"),
        cache=cache,
        prices=prices,
        decisions=decisions,
        thresholds=thresholds,
    )
    answered = work.function is None
    judge = llm if isinstance(llm, str) else work.settings.judge_model
    header = {
        "experiment": work.experiment,
        "evaluators": list(work.chosen.names),
        "outputs": work.chosen.outputs,
        "judge": judge if work.chosen.judges else None,
        "data": stem_of(data),
        "created_ns": time.time_ns(),
        **work.decided_by,
        **directions(work.chosen.names),
    }
    if opened is None:
        ray_run = registry.load(registry.table("engines")["ray"])(
            data,
            work,
            header,
            save=save,
            resume=resume,
            skip_bad=skip_bad,
            progress=progress,
            workers=workers,
        )
        try:
            ray_run.run()
        except KeyboardInterrupt:
            raise Interrupted(ray_run.report()) from None
        finished: Report = ray_run.report()
        return finished
    bad = BadRows(skip=skip_bad)
    with ExitStack() as stack:
        count = opened.count
        items = good_rows(
            opened,
            work.chosen,
            bad,
            answered=answered,
            digests=bool(save),
            settings=work.settings,
        )
        if work.is_paid:
            checked = stack.enter_context(CheckedRows())
            with bar("checking rows", count, shown=progress) as tick:
                checked.fill(items, tick)
            count, items = checked.count, iter(checked)
        # The first row is read before the file of an earlier report is replaced: data with unknown
        # columns, for example, stop here.
        items = chain(list(islice(items, 1)), items)
        out = FinishedRows(save, header, resume=resume)
        out.aggregate.answers[ASKED] += work.function is not None
        tick = stack.enter_context(bar(work.experiment, count, shown=progress))

        def emit(row: Row) -> None:
            out.add(row)
            tick(1)

        def report(**more: Any) -> Report:
            out.aggregate.put_in_order(work.chosen.names)
            return Report(
                out.rows,
                out.aggregate,
                work.experiment,
                work.chosen.names,
                bad.count,
                tuple(bad.problems),
                outputs=work.chosen.outputs,
                run=run_of(header),
                **more,
            )

        try:
            delivery = work.run(out.undone(items, tick), emit)
        except KeyboardInterrupt:
            out.rows.flush()
            raise Interrupted(report()) from None
        out.aggregate.put_in_order(work.chosen.names)
        out.finish({"skipped": bad.count, "problems": bad.problems})
        return report(delivery=delivery)


def _runs_on_ray(data: object, engine: str | None, workers: int | None) -> bool:
    """Return whether Ray evaluates the data.

    Raises:
        ConfigurationError: there is no such engine.
    """
    engine = engine or ("ray" if is_ray_dataset(data) else "local")
    if engine not in ("local", *registry.table("engines")):
        raise ConfigurationError(f"there is no engine {engine!r}: pass 'local' or 'ray'")
    if engine == "local" and workers is not None:
        raise ConfigurationError(
            "workers= (--workers) is for engine='ray'; the local engine takes concurrency="
        )
    return engine == "ray"


def check_bounds(
    paths: Iterable[str],
    *,
    evaluators: Sequence[object] | None = None,
    llm: object = None,
    decisions: object = None,
) -> None:
    """Check that these evaluators produce these metrics, before any row is paid for.

    Raises:
        ConfigurationError: a metric does not exist (the message names the nearest one), or an
            evaluator cannot be used.
    """
    listed = None if evaluators is None else tuple(_listed(evaluators))
    check_paths(paths, Work(evaluators=listed, llm=llm, decisions=decisions).chosen.outputs)


def _listed(evaluators: Any) -> Sequence[Any]:
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    return evaluators  # type: ignore[no-any-return]
