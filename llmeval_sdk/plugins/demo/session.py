"""One run of the demo, from the documents to the tables; every number is read from the store."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table, tracked
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, NotRun, SpanData, values
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.plugins.demo import app
from llmeval_sdk.statistics.detection import auroc, caught_at, caught_interval
from llmeval_sdk.store.dump import DumpScope, dump
from llmeval_sdk.store.latest import latest_of_span
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing.judge_server import MODEL, JudgeServer


JUDGE, RISK = "context_recall_llm", "extraction_risk"
SHARE = 0.2
TOGETHER = 10
"""Requests between two waits for the worker, so that no score gives way."""
SCORES = (
    RISK, "groundedness_risk", "retrieval_risk", "aggregated_confidence", "multi_source_agreement",
    "context_relevance", "context_precision", "context_recall_heuristic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """One request: its span, what evaluators said of it, and which judges did not run."""

    span: SpanData
    evaluations: Mapping[str, Evaluation]
    not_run: Sequence[NotRun] = ()

    @property
    def field(self) -> str:
        """Which field was asked for."""
        return self.span.tags.get("field", "")

    @property
    def outcome(self) -> str:
        """How the answer compares with the header: one of ``app.OUTCOMES``."""
        graded = self.evaluations.get("against_header")
        return str(graded.value) if graded is not None else "none"

    def number(self, name: str) -> float | None:
        """Return what one evaluator said, as a number; ``None`` where it said none."""
        evaluation = self.evaluations.get(name)
        return None if evaluation is None else values.number(evaluation.value)

    def explanation(self, name: str) -> str:
        """Return the reason of one evaluator, empty where there is none."""
        evaluation = self.evaluations.get(name)
        return (evaluation.explanation or "") if evaluation is not None else ""


def run(options: Namespace) -> int:
    """Run the demo with parsed options; returns the process's exit status."""
    read = list(islice(app.documents(), options.limit))
    answers = app.keys(read, options.fields)
    if not answers:
        raise ConfigurationError("no installed distribution has a README and these fields")
    with ExitStack() as stack:
        if options.json:
            stack.enter_context(redirect_stdout(sys.stderr))
        judge = _configure(options, answers, stack)
        _introduce(read, answers, judge)
        since = time.time_ns()
        overhead = _extract_all(answers)
        stats = llmeval.flush()
        store = runtime.settings().store
        results = _results(store, since)
        if not results:
            raise ConfigurationError(f"nothing arrived in {store}: stats() says {stats}")
        _show_accuracy(results)
        _show_scores(results)
        _show_finders(results)
        _show_judge(results, judge)
        show_errors(results)
        _show_delivery(results, stats, overhead)
        _show_next_steps(store, results)
    if options.json:
        say_json(summary(store, judge, results, stats))
    return 0


def _configure(options: Namespace, answers: Sequence[app.Key], stack: ExitStack) -> str:
    """Set the SDK up; returns what verdicts are called in the tables."""
    settings = config.from_environment(problems=[], store=options.store)
    if not settings.enabled:
        raise ConfigurationError("LLMEVAL_ENABLED is off, so there would be nothing to show")
    exporters = [name for name in options.exporters or settings.exporters if name != "local"]
    common: dict[str, Any] = {
        "evaluators": [app.grader(answers)],
        "exporters": ["local", *exporters],
        "store": options.store,
    }
    if settings.judge_model:
        llmeval.configure(**common)
        return settings.judge_model
    server = stack.enter_context(JudgeServer())
    # The stand-in is free: without a budget of the user's own there is nothing to save.
    free = llmeval.Budget(
        calls_per_minute=None, usd_per_day=None, concurrency=settings.judge_concurrency
    )
    named = map(config.source_of, ("calls_per_minute", "usd_per_day"))
    llmeval.configure(
        llm=MODEL,
        judge_base_url=server.base_url,
        judge_api_key=config.Secret(MODEL),
        budget=None if any(source != "default" for source in named) else free,
        prices={MODEL: (0, 0), **(settings.prices or {})},
        **common,
    )
    return MODEL


def _introduce(read: Sequence[app.Document], answers: Sequence[app.Key], judge: str) -> None:
    passages = sum(len(document.passages) for document in read)
    about = (
        "The judge is a stand-in: rules on shared words behind a local OpenAI-compatible server,"
        " not a model. Its verdicts show how judging works and say nothing about quality."
        " LLMEVAL_JUDGE_MODEL names a real one."
        if judge == MODEL
        else f"The judge is {judge}, within the budget that your environment sets."
    )
    say_wrapped(
        f"{len(read)} installed distributions, {passages} passages of README and licence files,"
        f" {len(answers)} records: one per distribution and field. The metadata headers are the"
        " ground truth and no part of the searched text. Rules extract the values, so that no"
        f" model is needed. The rules make mistakes, and the scores are there to find them. {about}"
    )


def _extract_all(answers: Sequence[app.Key]) -> float:
    """Answer everything; returns the median of what the SDK added to a call, in seconds.

    Each call is also made with the SDK switched off, before or after in turns, so that neither
    profits from warm caches.
    """
    extractor, added = app.FieldExtractor([key.document for key in answers]), []
    for number, key in enumerate(tracked(answers, total=len(answers), what="extracting")):
        seconds = {}
        for is_on in (True, False) if number % 2 else (False, True):
            with nullcontext() if is_on else llmeval.disabled():
                start = time.perf_counter()
                extractor.extract_field(key.field, key.document.package)
                seconds[is_on] = time.perf_counter() - start
        added.append(seconds[True] - seconds[False])
        if number % TOGETHER == 0:  # a service has pauses; this loop has none
            llmeval.flush()
    return median(added)


def _results(store: str | os.PathLike[str], since_ns: int) -> list[Result]:
    """Read the requests that began since a moment (nanoseconds since the epoch)."""
    with StoreReader(store) as reader:
        return [
            Result(
                stored.span,
                {e.evaluation.name: e.evaluation for e in latest_of_span(stored.evaluations)},
                stored.not_run,
            )
            for stored in dump(reader, DumpScope(since_ns, span_name="extract_field"))
        ]


def _show_accuracy(results: Sequence[Result]) -> None:
    """Compare answers with the metadata headers, by field."""
    rows = []
    for field, of_field in _by_field(results):
        counts = Counter(result.outcome for result in of_field)
        numbers = [len(of_field), *(counts[name] for name in app.OUTCOMES)]
        share = f"{counts['right'] / len(of_field):.0%}"
        rows.append([field, *map(str, numbers), share])
    titles = ["field", "records", *app.OUTCOMES, "accuracy"]
    heading("Extraction against ground truth (the metadata headers)")
    table(titles, rows, numbers=" ".join(titles[1:]))


def _show_scores(results: Sequence[Result]) -> None:
    """Show the mean of each score, by field and by outcome."""
    by_outcome = [(name, [r for r in results if r.outcome == name]) for name in app.OUTCOMES]
    for what, groups in (("field", _by_field(results)), ("outcome", by_outcome)):
        heading(f"Scores, mean by {what}")
        names = (*SCORES, "semantic_validation", JUDGE)
        rows = [
            [name, *(_average(r.number(name) for r in of) for _, of in groups)] for name in names
        ]
        table(["score", *dict(groups)], rows, numbers=" ".join(dict(groups)))


def _show_finders(results: Sequence[Result]) -> None:
    """Compare every score by the wrong answers that it would send to a judge."""
    answered = _answered(results)
    bad = [result.outcome != "right" for result in answered]
    rows = []
    for name in SCORES:
        risks = [_risk(result, name) for result in answered]
        area, caught = auroc(risks, bad), caught_at(SHARE, risks, bad)
        interval = None if caught is None else caught_interval(caught, bad)
        within = f" ({interval[0]:.0%}–{interval[1]:.0%})" if interval else ""
        of_area = f"{area.value:.2f} ({area.low:.2f}–{area.high:.2f})" if area else "-"
        rows.append([name, of_area, "-" if caught is None else f"{caught:.0%}{within}"])
    rows.sort(key=lambda row: row[1], reverse=True)
    heading("Which score finds a wrong answer?")
    table(["judged first", "AUROC", f"caught in {SHARE:.0%}"], rows)
    say_wrapped(
        f"Over the answered records: how many of the {sum(bad)} wrong ones are"
        f" among the riskiest {SHARE:.0%}; in brackets the 95 % interval. AUROC: the chance that a"
        " bad answer looks riskier than a right one; 0.50 is a coin."
    )


def _show_judge(results: Sequence[Result], judge: str) -> None:
    """Show what the judge said, and for the records that it did not judge, why not."""
    verdicts = [result.evaluations[JUDGE] for result in results if JUDGE in result.evaluations]
    judged = [verdict.value for verdict in verdicts if verdict.error is None]
    reasons = Counter(n.reason for r in results for n in r.not_run if n.evaluator == JUDGE)
    reasons.update(f"error: {verdict.error.type}" for verdict in verdicts if verdict.error)
    cost = sum((v.usage.cost_usd or 0.0) for v in verdicts if v.usage is not None)
    rules = " (rules on shared words, no model)" if judge == MODEL else ""
    heading(f"Escalation: low recall or a hit limit asks {JUDGE}")
    say_wrapped(
        f"Verdicts of {judge}{rules}: {len(judged)}, mean {_average(judged)}, for ${cost:.4f}"
    )
    for reason, count in reasons.most_common():
        say_wrapped(f"{count} not judged: {reason}")


def show_errors(results: Sequence[Result]) -> None:
    """Show which wrong answers `extraction_risk` doubts, which it misses, and at what cost."""
    answered = _answered(results)
    bad = [result for result in answered if result.outcome != "right"]
    bad.sort(key=lambda result: -(result.number(RISK) or 0.0))
    found = [result for result in bad if _is_doubted(result)]
    missed = bad[len(found) :]
    looks = sum(map(_is_doubted, answered))
    heading(f"The errors: {len(found)} found, {len(missed)} missed")
    rows = [
        [f"{word} {_average([result.number(RISK)])}", result.field, str(result.span.response)[:22],
         result.explanation("against_header").removeprefix("header: ")[:22],
         result.explanation(RISK)]
        for word, some in (("found", found[:5]), ("missed", missed[-5:]))
        for result in some
    ]  # fmt: skip
    table(["chance", "field", "answer", "truth", "why"], rows)
    say_wrapped(
        f"Found: {len(found)} of {len(bad)} wrong answers have a chance of an error"
        f" above {values.DOUBTFUL_ABOVE:g}, where a look is worth it. That takes {looks} looks at"
        f" {len(answered)} answers, {looks - len(found)} of them at right ones."
    )


def _show_delivery(results: Sequence[Result], stats: Stats, overhead: float) -> None:
    """Show how long a request took, and whether the account of every exporter adds up."""
    took = median(result.span.end_ns - result.span.start_ns for result in results) / 1e6
    say_wrapped(
        f"\nA request took {took:.3f} ms in the median; what the SDK added to a request, by the"
        f" same call under llmeval.disabled(): {overhead * 1e3:.3f} ms."
    )
    heading(f"Delivery: {stats.spans} spans and {stats.evaluations} evaluations")
    titles = ["exporter", "created", "delivered", "dropped", "undelivered", "unknown", "adds up"]
    rows = []
    for name, account in stats.exporters.items():
        dropped = sum(account.dropped.values())
        numbers = account.created, account.delivered, dropped, account.undelivered, account.unknown
        rows.append([name, *map(str, numbers), "yes" if account.balanced else "NO"])
    table(titles, rows, numbers=" ".join(titles[1:-1]))


def _show_next_steps(store: str, results: Sequence[Result]) -> None:
    """Say where everything is, and which commands show more of it."""
    where = "" if store == Settings().store else f" --store {shlex.quote(store)}"
    doubted = max(results, key=lambda result: result.number(RISK) or 0.0)
    on_path = Path(shutil.which("llmeval") or "").parent == Path(sys.executable).parent
    python = shlex.quote(os.path.relpath(sys.executable))
    program = "llmeval" if on_path else f"{python} -m llmeval_sdk"
    heading(f"Everything is in {store}. Next:")
    for command in ("view", "report", f"explain {doubted.span.span_id}"):
        say(f"  {program} {command}{where}")
    say(f"  {program} doctor")


def _by_field(results: Iterable[Result]) -> list[tuple[str, list[Result]]]:
    """Group by field in order of first appearance, with all of them last."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[result.field].append(result)
    return [*groups.items(), ("all", [result for of in groups.values() for result in of])]


def _answered(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.outcome != "none"]


def _risk(result: Result, name: str) -> float:
    """Return a score so that high is risky; the middle where a record has none."""
    number = result.number(name)
    if number is None:
        return 0.5
    return number if values.high_is_bad(name) else 1 - number


def _is_doubted(result: Result) -> bool:
    return (result.number(RISK) or 0.0) > values.DOUBTFUL_ABOVE


def _average(numbers: Iterable[object]) -> str:
    known = [float(number) for number in numbers if isinstance(number, (int, float))]
    return f"{mean(known):.2f}" if known else "-"


def summary(store: str, judge: str, results: Sequence[Result], stats: Stats) -> dict[str, Any]:
    """Return the outcomes of each field, the mean of each score, and what was not run or lost."""
    names = sorted({name for result in results for name in result.evaluations})
    known = {name: [n for r in results if (n := r.number(name)) is not None] for name in names}
    return {
        "store": store,
        "judge": judge,
        "records": len(results),
        "outcomes": {
            field: Counter(result.outcome for result in of)
            for field, of in _by_field(results)[:-1]
        },
        "scores": {
            name: {"mean": mean(numbers), "count": len(numbers)}
            for name, numbers in known.items() if numbers
        },
        "not_run": Counter(refusal.reason for result in results for refusal in result.not_run),
        "stats": stats,
    }  # fmt: skip
