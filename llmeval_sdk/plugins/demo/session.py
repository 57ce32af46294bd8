"""One run of the demo, from the documents to the tables."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from statistics import median
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.escalation import default_escalation
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.demo import documents, grading, show
from llmeval_sdk.plugins.demo.app import FieldExtractor
from llmeval_sdk.plugins.demo.search import Index
from llmeval_sdk.plugins.demo.show import read, summary
from llmeval_sdk.store import encode
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, groups
from llmeval_sdk.store.scores import tiers as tiers_of
from llmeval_sdk.testing.decision_server import DecisionServer
from llmeval_sdk.testing.judge_server import MODEL, JudgeServer


FLUSH_SECONDS = 60.0
WIDTH = 100
DECISION_MODEL = "systemone/stand-in"
_BUDGETS = ("calls_per_minute", "usd_per_day")


def run(options: Namespace) -> int:
    """Run the demo with parsed options; returns the process's exit status."""
    console = Console(highlight=False, stderr=options.json)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    phases: dict[str, float] = {}
    with _timed(phases, "read the documents"):
        read_documents = list(islice(documents.installed(), options.limit))
    with _timed(phases, "read the ground truth"):
        answers = grading.keys(read_documents, options.fields)
    if not answers:
        raise ConfigurationError("no installed distribution has a README and these fields")
    with _timed(phases, "index (BM25, LSA)"):
        index = Index(read_documents)
    with ExitStack() as stack:
        judge = _configure(options, answers, stack)
        _introduce(console, read_documents, index, answers, judge)
        since = time.time_ns()
        with _timed(phases, "run, with and without the SDK"):
            overhead = _extract_all(console, FieldExtractor(index), answers)
        with _timed(phases, "wait for judges and delivery"), console.status("judges ..."):
            stats = llmeval.flush(FLUSH_SECONDS)
    settings = runtime.settings()
    with _timed(phases, "read the store"):
        results = read(settings.store, since)
    if not results:
        raise ConfigurationError(f"nothing arrived in {settings.store}: stats() says {stats}")
    threshold = settings.recall_threshold
    show.accuracy(console, results)
    show.scores(console, results, judge)
    show.patterns(console, results)
    show.finders(console, results, threshold)
    show.rivalled(console, results)
    show.escalation(console, results, threshold)
    show.verdicts(console, results, judge, threshold)
    show.examples(console, results, judge, threshold)
    if options.cascade:
        decisions = settings.of(DecisionSettings)
        stand_ins = judge == MODEL or decisions.decision_model == DECISION_MODEL
        with StoreReader(settings.store) as reader:
            scope = EvaluationScope(since, None, show.CASCADE)
            tiers = reader.read(lambda store: tiers_of(store, scope, groups(store, scope)))
        show.tiers(console, results, next(iter(tiers), None), stand_ins=stand_ins)
    show.times(console, results, phases, overhead)
    show.delivery(console, stats)
    show.errors(console, results)
    show.next_steps(console, settings.store, results, threshold)
    if options.json:
        document = summary(settings.store, judge, results, phases, stats)
        sys.stdout.write(f"{encode.dumps(document)}\n")
    return 0


def _configure(options: Namespace, answers: Sequence[grading.Key], stack: ExitStack) -> str:
    """Set the SDK up; returns what verdicts are called in the tables."""
    settings = config.from_environment(problems=[], store=options.store)
    if not settings.enabled:
        raise ConfigurationError("LLMEVAL_ENABLED is off, so there would be nothing to show")
    exporters = [name for name in options.exporters or settings.exporters if name != "local"]
    common: dict[str, Any] = {
        "evaluators": [grading.grader(answers)],
        "exporters": ["local", *exporters],
        "store": options.store,
    }
    concurrency = options.judge_concurrency or settings.judge_concurrency
    decided = options.cascade and settings.of(DecisionSettings).decision_model is None
    server: JudgeServer | None = None
    if decided or not settings.judge_model:
        server = stack.enter_context(DecisionServer() if decided else JudgeServer())
    if options.cascade:
        cascade = llmeval.Cascade(show.CASCADE)
        common["escalations"] = [default_escalation(settings.recall_threshold), cascade]
    if decided and server is not None:
        common |= {"decision_model": DECISION_MODEL, "decision_base_url": server.base_url}
    if server is None or settings.judge_model:
        llmeval.configure(judge_concurrency=concurrency, **common)
        return settings.judge_model or ""
    # The stand-in is free: without a budget of the user's own there is nothing to save.
    free = llmeval.Budget(calls_per_minute=None, usd_per_day=None, concurrency=concurrency)
    llmeval.configure(
        llm=MODEL,
        judge_base_url=server.base_url,
        judge_api_key=config.Secret(MODEL),
        judge_concurrency=concurrency,
        budget=None if any(config.source_of(name) != "default" for name in _BUDGETS) else free,
        prices={MODEL: (0, 0), **(settings.prices or {})},
        **common,
    )
    return MODEL


def _introduce(
    console: Console,
    read_documents: Sequence[documents.Document],
    index: Index,
    answers: Sequence[grading.Key],
    judge: str,
) -> None:
    text = (
        f"{len(read_documents)} installed distributions, {len(index)} chunks of README and licence"
        f" files, {len(answers)} records: one per distribution and field. The metadata headers"
        " are the ground truth and no part of the searched text. Rules extract the values, so that"
        " no model is needed. The rules make mistakes, and the scores are there to find them."
    )
    if judge == MODEL:
        text += (
            "\n\n[yellow]The judge is a stand-in: rules on shared words behind a local"
            " OpenAI-compatible server, not a model. Its verdicts show how judging works and say"
            " nothing about quality. LLMEVAL_JUDGE_MODEL names a real one.[/yellow]"
        )
    else:
        text += f"\n\nThe judge is {judge}, within the budget that your environment sets."
    console.print(Panel(text, title="llmeval demo", title_align="left", expand=False))


def _extract_all(console: Console, app: FieldExtractor, answers: Sequence[grading.Key]) -> float:
    """Answer everything; returns the median of what the SDK added to a call, in seconds.

    Each call is also made with the SDK switched off, before or after in turns, so that neither
    profits from warm caches.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    added = []
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("extracting", total=len(answers))
        for number, key in enumerate(answers):
            if number % 2:
                on = _call(app, key)
            with llmeval.disabled():
                off = _call(app, key)
            if not number % 2:
                on = _call(app, key)
            added.append(on - off)
            progress.advance(bar)
    return median(added)


def _call(app: FieldExtractor, key: grading.Key) -> float:
    start = time.perf_counter()
    app.extract_field(key.field, key.package)
    return time.perf_counter() - start


@contextmanager
def _timed(phases: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    phases[name] = time.perf_counter() - start
