"""``evaluate()``: the evaluators that run online, over rows, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.offline.report.gate import check_paths
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.run.experiment import slug
from llmeval_sdk.offline.run.rows import Bad, Checked, Collected, bar, good_rows
from llmeval_sdk.offline.run.work import Work
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.protocols import LLM, Exporter, Heuristic, Judge


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `evaluate`; ``report`` has the rows that were done."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"interrupted after {len(report.rows):,} rows")
        self.report = report


def evaluate(
    data: Any,
    *,
    model: Callable[[Any], Any] | str | None = None,
    evaluators: Sequence[Heuristic | Judge | str | Any] | None = None,
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
    prices: Mapping[str, tuple[float, float]] | None = None,
) -> Report:
    """Evaluate rows with the evaluators that run online.

    Where rows cost something, because a judge or ``model`` is asked, all of them are read and
    checked before the first is.

    Args:
        data: a list of mappings of the input schema (``request``, ``response``,
            ``retrieved_context``, ``expected_response``, ``trace``, ``extractions`` …) or Records;
            a pandas or polars DataFrame; a Hugging Face Dataset; or the path of a ``.jsonl``,
            ``.csv`` or ``.parquet`` file, which is read row by row.
        model: the app, or its address such as ``"my_app:answer"``: it is called with each row's
            request as it is, under tracing, and what it retrieves, answers and uses becomes the
            row's. Sync or async. A row on which it raises is reported with its ``error``.
        evaluators: names or objects. Default: every one whose inputs a row has; judges among them
            only where a judge model is configured.
        llm: the judge model: a name, an LLM or a callable; else ``LLMEVAL_JUDGE_MODEL``.
        concurrency: judgements, or calls of the model, at a time.
        progress: show a bar, where there is a terminal.
        budget: what the judges of this run may use; default: no limit. With a limit in USD the
            price of each judge model must be known.
        experiment: what the run is called in every backend.
        exporters: where spans and scores go beside the report: names or objects. Default: nowhere.
        save: a file to which each row is written as soon as it is done; see `Report.load`.
        resume: go on with the rows that ``save`` does not have, or that failed. Rows that this
            machine's key (in CI ``LLMEVAL_VERDICT_KEY``) did not sign are evaluated anew.
        skip_bad: leave out rows that cannot be read, and count them.
        cache: use verdicts of earlier runs where judge, model and inputs are the same.
        prices: own prices by model: USD per million input and output tokens. They win over those
            of ``LLMEVAL_PRICES``, and these over the list that comes along.

    Raises:
        DataError: a row that cannot be read; the message names file, line and column.
        ConfigurationError: an unknown evaluator, a judge without a model to ask, a ``model`` that
            cannot be called, data of no known kind.
        Interrupted: Ctrl-C; the exception has the report so far.

    Examples:
        >>> rows = [{"request": "What is the roof made of?", "response": "Slate."}]
        >>> report = llmeval.evaluate(rows, progress=False)
        >>> len(report.rows)
        1
    """
    opened = open_data(data)
    work = Work(
        model=model,
        evaluators=None if evaluators is None else tuple(_listed(evaluators)),
        llm=llm,
        concurrency=concurrency,
        budget=budget,
        exporters=tuple(exporters),
        experiment=slug(experiment or f"offline-{Path(opened.name).stem or 'rows'}"),
        cache=cache,
        prices=prices,
    )
    answered = work.function is None
    judge = llm if isinstance(llm, str) else work.settings.judge_model
    header = {
        "experiment": work.experiment,
        "evaluators": list(work.chosen.names),
        "outputs": work.chosen.outputs,
        "judge": judge if work.chosen.judges else None,
    }
    bad = Bad(skip=skip_bad)
    with ExitStack() as stack:
        count = opened.count
        items = good_rows(
            opened,
            work.chosen,
            bad,
            answered=answered,
            digests=bool(save),
            prices=work.settings.prices,
        )
        if work.is_paid:
            checked = stack.enter_context(Checked())
            with bar("checking rows", count, shown=progress) as tick:
                checked.fill(items, tick)
            count, items = checked.count, iter(checked)
        out = Collected(save, header, work.settings, resume=resume)
        tick = stack.enter_context(bar(work.experiment, count, shown=progress))

        def emit(row: Row) -> None:
            out.add(row)
            tick(1)

        def report(**more: Any) -> Report:
            return Report(
                out.rows,
                out.aggregate,
                work.experiment,
                work.chosen.names,
                bad.count,
                tuple(bad.told),
                outputs=work.chosen.outputs,
                **more,
            )

        try:
            delivery = work.run(out.undone(items, tick), emit)
        except KeyboardInterrupt:
            out.rows.flush()
            raise Interrupted(report()) from None
        out.finish({"skipped": bad.count, "problems": bad.told})
        return report(delivery=delivery)


def check_bounds(
    paths: Iterable[str], *, evaluators: Sequence[Any] | None = None, llm: Any = None
) -> None:
    """Check that these evaluators can have these metrics, before any row is paid for.

    Raises:
        ConfigurationError: there is no such metric; the message names the nearest. Or an evaluator
            cannot be used.
    """
    listed = None if evaluators is None else tuple(_listed(evaluators))
    check_paths(paths, Work(evaluators=listed, llm=llm).chosen.outputs)


def _listed(evaluators: Any) -> Sequence[Any]:
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    return evaluators  # type: ignore[no-any-return]
