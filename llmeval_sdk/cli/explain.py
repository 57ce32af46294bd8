"""``llmeval explain``: one span, what evaluators said of it, and which did not run and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store, open_store
from llmeval_sdk.cli.output import heading, say, say_wrapped
from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData, is_stand_in, values
from llmeval_sdk.statistics.reasons import FAILED, step_of
from llmeval_sdk.statistics.reasons import explain as explain_reason
from llmeval_sdk.store import encode
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.requests import INCOMPLETE, is_incomplete
from llmeval_sdk.store.span_lists import (
    Query,
    listed_spans,
    refs_of_trace,
    unscored_sentence,
    worst_spans,
)
from llmeval_sdk.store.traces import SpanRef, spans_like
from llmeval_sdk.store.traffic import why_unanswered
from llmeval_sdk.text.terminal import moment, printable, score, seconds


_EPILOG = """\
example:
  llmeval explain 00f067aa             a span or a trace, by the beginning of its id
  llmeval explain --last               the latest request
  llmeval explain --worst groundedness the request with the worst groundedness

`llmeval traces` lists the ids.
"""

_LISTED = 20


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "explain",
        help="show one span: its scores, what failed, what did not run and why",
        description="Show one span with all its scores and feedback, and for each judge that did "
        "not run the reason and what to do about it.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "span_id", metavar="ID", nargs="?", help="the id of a span or trace, or its beginning"
    )
    which.add_argument("--last", action="store_true", help="the latest request")
    which.add_argument(
        "--worst", metavar="EVALUATOR", help="the request that this evaluator scored worst"
    )
    add_store(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what is known of the span; 1 when there is none, or several."""
    with open_store(args.store) as reader:
        if args.json:
            return _print_json(reader, args)
        if args.span_id is None:
            return _pick(reader, args.worst)
        prefix = args.span_id.strip().lower()
        found = reader.read(lambda c: spans_like(c, prefix))
        exact = [ref for ref in found if ref.span_id == prefix]
        if not found and (spans := refs_of_trace(reader, prefix)):
            return _first_of(reader, spans)
        if len(exact or found) != 1:
            _not_one(printable(prefix), found)
            return 1
        _explain(reader, (exact or found)[0])
    return 0


def _pick(reader: StoreReader, worst: str | None) -> int:
    found = worst_spans(reader, worst, 1) if worst else listed_spans(reader, Query(), 1)
    if not found:
        why = "no request was traced"
        if worst:
            why = unscored_sentence(reader, worst)
        elif reader.read(is_incomplete):
            why = f"no request, but spans of incomplete traces: {INCOMPLETE}"
        say_wrapped(f"{printable(reader.location)}: {why}")
        return 1
    span = found[0]
    _explain(reader, SpanRef(span.trace_id, span.span_id, span.name, span.start_ns))
    return 0


def _print_json(reader: StoreReader, args: argparse.Namespace) -> int:
    """Print one object: what is known of the span, or the spans that may have been meant."""
    others: list[SpanRef] = []
    if args.span_id is None:
        spans = worst_spans(reader, args.worst, 1) if args.worst else None
        listed = listed_spans(reader, Query(), 1) if spans is None else spans
        refs = [SpanRef(s.trace_id, s.span_id, s.name, s.start_ns) for s in listed]
    else:
        prefix = args.span_id.strip().lower()
        found = reader.read(lambda c: spans_like(c, prefix))
        refs = [ref for ref in found if ref.span_id == prefix] or list(found)
        if not refs and (of_trace := refs_of_trace(reader, prefix)):
            refs, others = of_trace[:1], of_trace[1:]
    known = len(refs) == 1
    result = _known_of(reader, refs[0]) if known else dict.fromkeys(_KEYS)
    also = [{"span_id": ref.span_id, "name": ref.name} for ref in (others if known else refs)]
    say(encode.dumps({**result, "other_spans": also}) or "")
    return 0 if known else 1


_KEYS = ("span_id", "trace_id", "span", "evaluations", "not_run", "feedback", "no_answer")


def _known_of(reader: StoreReader, ref: SpanRef) -> dict[str, object]:
    refusals = [
        {
            **{name: getattr(event, name) for name in ("evaluator", "reason", "detail")},
            "meaning": (row := explain_reason(event.reason)).meaning,
            "advice": row.advice,
            "timestamp_ns": event.timestamp_ns,
        }
        for event in reader.not_run_of(ref.span_id)
    ]
    outcomes = (reader.evaluations_of(ref.span_id), reader.feedback_of(ref.span_id))
    said, people = ([_fields_of(event) for event in events] for events in outcomes)
    span, why = reader.span(ref.span_id), _unanswered(reader, ref)
    values = (ref.span_id, ref.trace_id, span, said, refusals, people, why)
    return dict(zip(_KEYS, values, strict=True))


def _unanswered(reader: StoreReader, ref: SpanRef) -> str | None:
    """Return ``lost`` or ``abstained`` for a request without an answer."""
    return reader.read(lambda store: why_unanswered(store, [ref.span_id])).get(ref.span_id)


def _fields_of(event: EvaluationEvent) -> dict[str, object]:
    outcome = event.evaluation
    values = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    return {**values, "timestamp_ns": event.timestamp_ns}


def _first_of(reader: StoreReader, spans: list[SpanRef]) -> int:
    """Explain the first span of a trace, and name the others."""
    _explain(reader, spans[0])
    others = [[f"{ref.span_id}  {ref.name}"] for ref in spans[1:_LISTED]]
    _section("Other spans of this trace", others)
    return 0


def _not_one(prefix: str, found: tuple[SpanRef, ...]) -> None:
    if not found:
        say(f"No span or trace whose id begins with {prefix!r} in this store.")
        say("`llmeval traces` lists them.")
        return
    say(f"Several spans begin with {prefix!r}:")
    for ref in found:
        at = moment(ref.start_ns) if ref.start_ns else ""
        say(f"  {printable(ref.span_id)}  {printable(ref.name or '-')}  {at}".rstrip())


def _explain(reader: StoreReader, ref: SpanRef) -> None:
    span = reader.span(ref.span_id)
    if span is None:
        say(f"{printable(ref.name or '-')}, span {printable(ref.span_id)}")
        say("  the span itself is not in the store; it was dropped, or its trace was pruned")
    else:
        _span(span, _unanswered(reader, ref))
        if reader.read(lambda store: is_incomplete(store, span.trace_id)):
            say_wrapped(f"  incomplete trace: {INCOMPLETE}")
    events = reader.evaluations_of(ref.span_id)
    not_run = reader.not_run_of(ref.span_id)
    failed = [event for event in events if event.evaluation.error]
    names = {event.evaluation.name for event in failed}
    _section("Ran", [_ran(event) for event in events if not event.evaluation.error])
    _section("Failed", [_failed(event, not_run) for event in failed])
    rest = [each for each in not_run if each.evaluator not in names or each.reason not in FAILED]
    _section("Did not run", [_refused(event) for event in rest])
    _section("People said", [_ran(event) for event in reader.feedback_of(ref.span_id)])
    if not events and not not_run:
        say("\nNothing was evaluated on this span: evaluators run on workflow and agent spans, and")
        say("on spans that were given evaluators=[...].")


def _span(span: SpanData, unanswered: str | None) -> None:
    say(f"{printable(span.name)} ({span.kind}), span {printable(span.span_id)}")
    rows = {
        "trace": span.trace_id,
        "began": f"{moment(span.start_ns)}, took {seconds((span.end_ns - span.start_ns) / 1e9)}",
        "failed": f"{span.error.type}: {span.error.message}" if span.error else None,
        "model": span.model_name,
        "tokens": f"{span.usage.total_tokens:,}" if span.usage else None,
        "request": _short(span.request),
        "response": _short(span.response),
        "answer": None if unanswered is None else _WHY_NONE[unanswered],
        "chunks": None if span.retrieved_context is None else f"{len(span.retrieved_context)}",
    }
    for name, value in rows.items():
        if value is not None:
            say_wrapped(printable(value), " " * 11, label=f"  {name}")


_WHY_NONE = {
    "lost": "none: it got lost, for the request did not fail and the app did not abstain",
    "abstained": "none: the app abstained",
}


def _short(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _section(title: str, entries: list[list[str]]) -> None:
    if entries:
        heading(title)
        for first, *more in entries:
            say_wrapped(printable(first), "  ")
            for line in more:
                say_wrapped(printable(line, 1_000), "      ")


def _ran(event: EvaluationEvent) -> list[str]:
    evaluation = event.evaluation
    field = evaluation.metadata.get(values.FIELD) if evaluation.evaluator_kind == "human" else None
    name = f"{evaluation.name} of {field}" if isinstance(field, str) else evaluation.name
    if evaluation.label == values.NOT_CHECKED:
        value = f"{name}  not checked"
    else:
        value = f"{name}  {score(evaluation.value)}"
        if evaluation.label:
            value += f" {evaluation.label}"
        if evaluation.value is None:
            value += " (not applicable)"
    lines = [f"{value}  [{_by(event)}]"]
    if evaluation.explanation:
        lines.append(evaluation.explanation)
    return lines + _doubtful(evaluation.metadata)


_MAX_FIELDS, _DOUBT = 10, 0.1
"""How many fields of an answer are listed, and the least chance of an error of such a field."""


def _doubtful(metadata: Mapping[str, object]) -> list[str]:
    """List the doubtful fields of a structured answer, worst first, and count the others."""
    scored = metadata.get("fields")
    if not isinstance(scored, list) or len(scored) < 2:
        return []
    entries = [entry for entry in scored if isinstance(entry, Mapping)]
    doubted = [entry for entry in entries if _chance(entry) >= _DOUBT]
    lines = [
        f"{entry.get('path')} = {entry.get('value')!r}: {_chance(entry):.2f}"
        + (f", {entry['reason']}" if entry.get("reason") else "")
        for entry in doubted[:_MAX_FIELDS]
    ]
    expected = metadata.get("expected_wrong")
    if isinstance(expected, float):
        unchecked = sum(entry.get("chance") is None for entry in entries)
        lines.append(
            f"{len(entries)} fields, {len(doubted)} doubtful, {unchecked} not checked;"
            f" expected wrong: {expected:.1f}"
        )
    return lines


def _chance(entry: Mapping[str, object]) -> float:
    chance = entry.get("chance")
    return chance if isinstance(chance, float) else 0.0


def _by(event: EvaluationEvent) -> str:
    evaluation = event.evaluation
    parts = [f"{evaluation.evaluator_kind} v{evaluation.evaluator_version}"]
    if is_stand_in(evaluation):
        parts.append("by the rule-based stand-in, not a model")
    if evaluation.duration is not None:
        parts.append(seconds(evaluation.duration))
    if evaluation.usage is not None:
        parts.append(f"{evaluation.usage.total_tokens:,} tokens")
        if evaluation.usage.cost_usd is not None:
            parts.append(f"${evaluation.usage.cost_usd:.4f}")
    if evaluation.probability is not None:
        parts.append(f"good with probability {evaluation.probability:.3g}")
    if evaluation.inclusion_probability != 1.0:
        chance = evaluation.inclusion_probability
        parts.append(f"chance to run {f'{chance:.3g}' if 0 < chance <= 1 else 'unknown'}")
    return ", ".join(parts)


def _failed(event: EvaluationEvent, not_run: tuple[NotRun, ...]) -> list[str]:
    evaluation = event.evaluation
    assert evaluation.error is not None
    said = f"{evaluation.error.type}: {evaluation.error.message}".removesuffix(": ")
    lines = [f"{evaluation.name}  {said}  [{_by(event)}]"]
    why = {each.reason for each in not_run if each.evaluator == evaluation.name} & FAILED
    return lines + [explain_reason(reason).advice for reason in sorted(why)]


def _refused(event: NotRun) -> list[str]:
    reason = explain_reason(event.reason)
    said = f"{event.reason} ({event.detail})" if event.detail else event.reason
    if step := step_of(event.reason):
        said += f"  [not {step}]"
    return [f"{event.evaluator}  {said}", reason.meaning, reason.advice]
