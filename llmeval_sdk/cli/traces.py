"""``llmeval traces``: the latest or the worst requests, with the ids that other commands take."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_filter, add_json, add_store, open_selected
from llmeval_sdk.cli.output import columns, say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import values
from llmeval_sdk.store.fields import ScoredField, worst_fields
from llmeval_sdk.store.identities import UNREADABLE, forms, unreadable
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.requests import INCOMPLETE, is_incomplete
from llmeval_sdk.store.span_lists import (
    ListedOutcome,
    ListedSpan,
    Query,
    newest_spans,
    outcomes_by_span,
    queries_of_session,
    tags_of,
    unscored_sentence,
    worst_spans,
)
from llmeval_sdk.store.traffic import has_abstained, why_unanswered
from llmeval_sdk.text.terminal import moment, printable, score, seconds


_EPILOG = """\
examples:
  llmeval traces
  llmeval traces --worst groundedness --limit 5
  llmeval traces --user user-17 --session chat-4 --json
  llmeval explain --last
"""
_MAX_ROWS = 1_000


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "traces",
        help="list the latest or worst requests and their ids",
        description="List requests with their ids, newest first, and the bad scores of each. "
        "`llmeval explain ID` shows one in full.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--limit",
        type=_count,
        default=20,
        metavar="N",
        help="how many requests to list (default: 20)",
    )
    parser.add_argument(
        "--worst",
        metavar="EVALUATOR",
        help="list the requests that this evaluator scored worst, worst first",
    )
    parser.add_argument(
        "--failed", action="store_true", help="only requests that raised an exception"
    )
    parser.add_argument("--session", metavar="ID", help="only the requests of this session")
    parser.add_argument("--user", metavar="ID", help="only the requests of this user (user_id)")
    add_filter(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the list and return the exit code, which is 1 if the list is empty.

    Where ids are hashed and the key is missing, nothing found is no answer but an error.
    """
    with open_selected(args) as reader:
        query = Query(since=args.since, failed=args.failed, user=args.user and forms(args.user))
        queries = queries_of_session(query, args.session)
        if args.worst:
            requests = worst_spans(reader, args.worst, args.limit, queries)
        else:
            requests = newest_spans(reader, queries, args.limit)
        hidden = reader.read(lambda store: unreadable(store, args.session, args.user))
        evaluations = outcomes_by_span(reader, requests)
        ids = [each.span_id for each in requests]
        unanswered = reader.read(lambda store: why_unanswered(store, ids))
        has_fields = args.worst == values.EXTRACTION_RISK
        fields = reader.read(lambda store: worst_fields(store, ids)) if has_fields else {}
        tags = reader.read(lambda store: tags_of(store, ids)) if args.worst else {}
        why = "" if requests else _nothing_matches(reader, args)
        if hidden and not requests:
            raise ConfigurationError(f"no request was found by the id as it is, but {UNREADABLE}")
        if hidden:
            sys.stderr.write(f"llmeval traces: some requests may be missing: {UNREADABLE}\n")
        if args.json:
            rows = [
                {
                    **asdict(each),
                    "no_answer": unanswered.get(each.span_id),
                    "scores": _plain(evaluations[each.span_id]),
                    **_worst(each.span_id, fields, tags),
                }
                for each in requests
            ]
            say_json(rows)
        elif requests:
            _show(requests, evaluations, unanswered, args.worst)
            _explain(requests, fields, tags)
        else:
            say_wrapped(why)
        return 0 if requests else 1


def _nothing_matches(reader: StoreReader, args: argparse.Namespace) -> str:
    """Say which filters matched no request; otherwise the store would seem to be empty."""
    filters = (
        args.user and f"of user {printable(args.user, 80)}",
        args.session and f"of session {printable(args.session, 80)}",
        args.failed and "that failed",
        args.since and f"since {moment(args.since)}",
        args.until and f"until {moment(args.until)}",
        args.where and f"with {printable(', '.join(args.where), 200)}",
    )
    words = " ".join(("No request", *filter(None, filters)))
    if args.worst and words == "No request":
        return f"{printable(reader.location)}: {unscored_sentence(reader, args.worst)}"
    scored = f" was scored by {printable(args.worst, 80)}" if args.worst else ""
    where = f"{words}{scored} in {printable(reader.location)}"
    if reader.read(is_incomplete):
        return f"{where}, but spans of incomplete traces: {INCOMPLETE}."
    return f"{where}."


def _show(
    requests: list[ListedSpan],
    evaluations: dict[str, dict[str, ListedOutcome]],
    unanswered: Mapping[str, str],
    worst: str | None,
) -> None:
    titles = ("span id", "began", "took", "span", "request", worst or "what is bad")
    rows = [
        (
            each.span_id,
            moment(each.start_ns)[5:19],
            seconds((each.end_ns - each.start_ns) / 1e9),
            each.name,
            printable(_words(each.request), 40),
            _bad(each, evaluations[each.span_id], unanswered.get(each.span_id), worst) or "-",
        )
        for each in requests
    ]
    table(titles, rows, numbers="took")


def _explain(
    requests: list[ListedSpan],
    fields: Mapping[str, ScoredField],
    tags: Mapping[str, Mapping[str, str]],
) -> None:
    """Print a line for each request below the list: its worst field, why, and its tags.

    In a column of the list there would be no room for the reason.
    """
    rows = []
    for each in requests:
        field = fields.get(each.span_id)
        said = [f"{field.path} = {field.value!r}: {field.reason}".rstrip(": ")] if field else []
        said += [f"{key}={value}" for key, value in tags.get(each.span_id, {}).items()]
        if said:
            rows.append((each.span_id, printable("; ".join(said), 400)))
    if rows:
        say()
        columns(rows)


def _worst(
    span_id: str,
    fields: Mapping[str, ScoredField],
    tags: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return the worst field and the tags of a request, as ``--worst`` has them in JSON."""
    about: dict[str, Any] = {}
    if field := fields.get(span_id):
        about["worst_field"] = {
            "path": field.path, "value": field.value, "chance": field.chance,
            "reason": field.reason,
        }  # fmt: skip
    if span_id in tags:
        about["tags"] = tags[span_id]
    return about


_WHY = {"lost": "no answer", values.ABSTAINED: values.ABSTAINED}
"""The words for a request without an answer, by why it has none."""


def _bad(
    span: ListedSpan,
    evaluations: dict[str, ListedOutcome],
    unanswered: str | None,
    worst: str | None,
) -> str:
    """Return how a request failed, why it has no answer, and what evaluators say of it."""
    about = _about(evaluations, worst)
    if unanswered and about == values.ABSTAINED:  # a free score sees no difference
        about = ""
    return ", ".join(filter(None, (span.error_type, _WHY.get(unanswered or ""), about)))


def _about(evaluations: dict[str, ListedOutcome], worst: str | None) -> str:
    """Return one evaluator's value, else the two worst values of all."""
    if worst:
        return _shown(evaluations[worst]) if worst in evaluations else ""
    if has_abstained({name: said.value for name, said in evaluations.items()}):
        return values.ABSTAINED
    rated = [
        (good, name)
        for name, each in evaluations.items()
        if each.reason is None
        and not each.near_constant
        and (good := values.goodness(name, _value(each), each.label)) is not None
        and good < values.BAD_BELOW
    ]
    return ", ".join(f"{name} {_shown(evaluations[name])}" for _, name in sorted(rated)[:2])


def _shown(each: ListedOutcome) -> str:
    return each.error or (each.reason or "").replace("_", " ") or score(_value(each))


def _value(each: ListedOutcome) -> Any:
    return bool(each.value) if type(each.value) is int else each.value


def _words(stored: str | None) -> str:
    """Return the beginning of a request as a text; what is stored may be a beginning itself."""
    if stored is None:
        return "-"
    try:
        value = json.loads(stored)
    except ValueError:
        return stored.lstrip('"')
    return value if isinstance(value, str) else stored


def _plain(evaluations: dict[str, ListedOutcome]) -> dict[str, Any]:
    return {
        name: {
            key: value
            for key, value in (
                ("value", _value(each)),
                ("label", each.label),
                ("error", each.error),
                ("not_run", each.reason),
            )
            if value is not None
        }
        for name, each in evaluations.items()
    }


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= _MAX_ROWS:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 and {_MAX_ROWS:,}")
    return count
