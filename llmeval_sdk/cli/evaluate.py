"""``llmeval evaluate``: the evaluators that run online, over a file; a gate for CI."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.cli._evaluate_options import EPILOG, add_options
from llmeval_sdk.cli._options import Help, open_store
from llmeval_sdk.cli._output import say
from llmeval_sdk.errors import ConfigurationError, DataError, LlmevalError
from llmeval_sdk.store.files import make_folder, path_of


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline import Report

BROKEN = 3


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "evaluate",
        help="run evaluators over a file or the store, as a gate for CI",
        description="Run evaluators over the rows of a file or the store, and report the results.",
        epilog=EPILOG,
        formatter_class=Help,
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate, print and write what was found, and decide the gate."""
    try:
        return _run(args)
    except (LlmevalError, BrokenPipeError):
        raise
    except OSError as error:  # a full disk, a file that went away
        raise ConfigurationError(str(error)) from None
    except Exception:  # Python's own exit status for it would be that of a failed gate
        traceback.print_exc()
        sys.stderr.write("llmeval evaluate: this is an error of llmeval; no gate was decided\n")
        return BROKEN


def _run(args: argparse.Namespace) -> int:
    from llmeval_sdk.cli._evaluated import EvaluateRun, publish
    from llmeval_sdk.offline import Interrupted, Report

    _check(args)
    if args.estimate:
        return _estimate(args)
    baseline = Report.load(args.compare) if args.compare else None
    save = args.save or _default_save(args)
    try:
        report = _evaluate(args, save)
    except Interrupted as stop:
        publish(EvaluateRun(stop.report, args, save, None))
        if not args.json:
            say("Interrupted: these rows are done. Run the same command with --resume to go on.")
        return 130
    if not report.rows:
        where = "the store for this time and span name" if args.from_store else args.file
        raise DataError(f"there are no rows in {where}: nothing was evaluated")
    compared = None if baseline is None else report.compare(baseline)
    return publish(EvaluateRun(report, args, save, compared))


def _check(args: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is paid for."""
    from llmeval_sdk.cli._evaluated import check_targets
    from llmeval_sdk.offline import GoldenSet, check_bounds

    check_targets(args)
    if sum((args.file is not None, args.dataset is not None, args.from_store)) != 1:
        raise ConfigurationError(
            "name the FILE to evaluate, or pass --dataset or --from-store (one of the three)"
        )
    if args.dataset is not None:
        args.file = str(GoldenSet(args.dataset, folder=args.folder).path)
    elif args.folder is not None:
        raise ConfigurationError("--folder is where the sets of --dataset are: name one")
    if args.engine == "ray" and (args.from_store or args.estimate):
        other = "--from-store" if args.from_store else "--estimate"
        raise ConfigurationError(
            f"{other} reads on this machine alone: use it without --engine ray"
        )
    if args.concurrency < 1:
        raise ConfigurationError("--concurrency must be at least 1")
    problems: list[str] = []
    config.from_environment(problems=problems)
    for problem in problems:
        sys.stderr.write(f"llmeval evaluate: {problem}\n")
    if args.estimate:  # which needs no key and decides no gate
        return
    paths = [path for path, _ in (*args.fail_under, *args.fail_over)]
    check_bounds(
        paths,
        evaluators=_names(args.evaluators) or None,
        llm=args.model_judge,
        decisions=args.decision_model,
    )


def _estimate(args: argparse.Namespace) -> int:
    """Print what the run would ask and cost."""
    from llmeval_sdk.cli._estimated import show
    from llmeval_sdk.offline import estimate_cost

    if args.model:
        raise ConfigurationError(
            "--estimate cannot know what --model will answer: estimate rows that have answers"
        )
    with _rows(args) as data:
        estimate = estimate_cost(
            data,
            evaluators=_names(args.evaluators) or None,
            llm=args.model_judge,
            decisions=args.decision_model,
            skip_bad=args.skip_bad or args.from_store,
            cache=not args.no_cache,
            prices=dict(args.price) or None,
            map_columns=dict(args.map) or None,
        )
    return show(estimate, as_json=args.json)


@contextmanager
def _rows(args: argparse.Namespace) -> Iterator[Any]:
    """Open what is evaluated: the file, or the requests of the store."""
    if not args.from_store:
        yield args.file
        return
    from llmeval_sdk.offline.data.spans import stored

    with open_store(args.store) as reader:
        settings = config.from_environment(problems=[])
        yield stored(
            reader,
            since=args.since,
            span_name=args.span_name,
            retrieved=settings.retrieved_context,
            limits=settings.retrieval_limits,
        )


def _evaluate(args: argparse.Namespace, save: Path) -> Report:
    from llmeval_sdk.offline import evaluate
    from llmeval_sdk.policy.budget import Budget

    budget = None
    if args.max_usd is not None or args.calls_per_minute is not None:
        budget = Budget(
            calls_per_minute=args.calls_per_minute,
            usd_per_day=args.max_usd,
            concurrency=args.concurrency,
        )
    with _rows(args) as data:
        return evaluate(
            data,
            model=args.model,
            evaluators=_names(args.evaluators) or None,
            llm=args.model_judge,
            concurrency=args.concurrency,
            progress=not args.no_progress,
            budget=budget,
            experiment=_experiment(args),
            exporters=_names([args.exporters] if args.exporters else None),
            save=save,
            resume=args.resume,
            skip_bad=args.skip_bad or args.from_store,
            cache=not args.no_cache,
            prices=dict(args.price) or None,
            decisions=args.decision_model,
            thresholds=dict(args.threshold) or None,
            engine=args.engine,
            workers=args.workers,
            map_columns=dict(args.map) or None,
        )


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for each in given or () for name in each.split(",") if name.strip()]


def _experiment(args: argparse.Namespace) -> str:
    from llmeval_sdk.offline.data.source import stem_of

    if args.experiment or not args.file:
        return str(args.experiment or "offline-store")
    return f"offline-{stem_of(args.file)}"


def _default_save(args: argparse.Namespace) -> Path:
    from llmeval_sdk.offline.run.experiment import slug

    store = path_of(config.from_environment(problems=[]).store)
    try:
        make_folder(store.parent)
    except OSError as error:
        raise ConfigurationError(f"{store.parent} cannot be created: {error.strerror}") from None
    name = slug(_experiment(args))
    return store.with_name("reports") / (name if args.engine == "ray" else f"{name}.jsonl")
