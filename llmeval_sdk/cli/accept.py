"""``llmeval accept``: which values of a field need no look, and what is promised of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from sqlite3 import Connection
from time import time_ns
from typing import TYPE_CHECKING

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import (
    Help,
    add_json,
    add_store,
    add_where,
    checked,
    open_store,
    repeated,
    since,
)
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.statistics.acceptance import (
    MOST_LABELS,
    Promise,
    fewest_labels,
    has_moved,
    is_exceeded,
    sure_acceptance,
)
from llmeval_sdk.statistics.detection import (
    Figure,
    accuracy_at,
    auroc,
    caught_at,
    caught_interval,
)
from llmeval_sdk.statistics.labels import FEWEST
from llmeval_sdk.store.fields import (
    FieldTraffic,
    audited_labels,
    field_traffic,
    spans_without,
    unknown_field,
)
from llmeval_sdk.store.filters import ONE_OF, Filter, read_filter
from llmeval_sdk.store.frames import Frame
from llmeval_sdk.store.selection import TAG, frame_of
from llmeval_sdk.store.state import state_path
from llmeval_sdk.text.terminal import moment, plural, printable


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.acceptances import Key, SavedThreshold


_EPILOG = """\
example:
  llmeval label --for accept --field total --labels 300
  llmeval accept --field total --error 2% --save sure
  llmeval accept --field total --where tag:tenant=acme --save sure    # of a group

Only labels of values drawn at random count, and the promise is about one field and
traffic like that of its labels.

Exit codes: 0 there is a threshold with 95 % confidence, or nothing speaks against the
saved one; 1 there is none, or something does; 2 the command could not run.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "accept",
        help="say which values of a field need no look, and what that promises",
        description="Find below which chance of an error values need no look, by people's labels.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    add_where(parser)
    parser.add_argument("--field", required=True, metavar="FIELD", help="the field, such as total")
    parser.add_argument(
        "--error", type=checked(_share), default=0.02, metavar="SHARE",
        help="the share of wrong values that is acceptable: 2%% or 0.02 (default: 2%%)",
    )  # fmt: skip
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.add_argument(
        "--since", type=since, metavar="TIME",
        help="only values that were scored from this time on: 24h, 7d or an ISO date",
    )  # fmt: skip
    parser.add_argument(
        "--save", type=checked(_saving), metavar="sure|none",
        help="save the threshold for llmeval.accepts, and from then on watch it; none removes it",
    )  # fmt: skip
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the promise, and return the exit code."""
    from llmeval_sdk.evaluation import acceptances

    where = read_filter(args.where)
    key = _key_of(args, where)
    if args.save == "none":
        return _remove(args, where, key)
    with open_store(args.store, args.where) as reader:
        frame = frame_of(reader.selection, args.since)
        traffic = reader.read(lambda store: field_traffic(store, args.field, frame, args.span_name))
        if not traffic.scores:
            raise ConfigurationError(
                reader.read(lambda store: unknown_field(store, args.field, frame))
            )
        path = state_path(reader.location)
        saved = None if key is None else acceptances.read(path).get(key)
        state = None if saved is None else reader.read(partial(_state_of, saved, traffic.version))
        outside = 0
        if key is not None and key.group:
            outside = reader.read(
                lambda store: spans_without(
                    store, args.field, where, frame.since_ns, args.span_name
                )
            )
    sure = sure_acceptance(traffic.scores, traffic.labels, args.error)
    promised = sure.threshold is not None
    if args.save and promised:
        acceptances.save(path, _threshold(args, key, traffic, sure))
    if args.json:
        say_json({
            "field": args.field, "where": sorted(where.texts), "error": args.error,
            "values": len(traffic.scores), "spans_without_tags": outside,
            "labels": len(traffic.labels), "unlabelled": traffic.unlabelled,
            "span_names": traffic.span_names,
            "finds_errors": {
                name: figure._asdict() for name, figure in (_detection(traffic) or {}).items()
            },
            "sure": sure, "saved": state,
            "now_saved": args.save if args.save and promised else None,
        })  # fmt: skip
    else:
        _show(args, where, traffic, sure, outside=outside)
        if state is not None:
            _show_state(state)
        if args.save:
            say(
                f"\nSaved: llmeval.accepts goes by it from now on, in {path}."
                if promised
                else "\nNothing was saved, since nothing can be promised."
                + ("" if state is None else " The one that was saved before stays.")
            )
    is_good = promised if args.save or state is None else state.holds
    return 0 if is_good else 1


_OF_PERSONS = ("user_id", "session_id")
"""Tags that name a person, whose values must not stay in the file of state."""


def _key_of(args: argparse.Namespace, where: Filter) -> Key | None:
    """Return what a threshold is for; ``None`` for a group that none can be saved of.

    Raises `ConfigurationError` where a threshold of such a group is to be saved or removed.
    """
    from llmeval_sdk.evaluation.acceptances import MAX_TAGS, Key

    group = {
        part.name: part.values[0]
        for part in where.conditions
        if (part.field, part.operator, part.is_negated) == (TAG.rstrip(":"), ONE_OF, False)
        and len(set(part.values)) == 1
        and part.name not in _OF_PERSONS
    }
    if len(group) == len(where.texts) <= MAX_TAGS:
        return Key(args.span_name, args.field, tuple(sorted(group.items())))
    if args.save:
        raise ConfigurationError(
            "--save takes one or two tags with one value each, such as --where tag:tenant=acme, and"
            " neither user_id nor session_id: llmeval.accepts goes by no other part of the traffic"
        )
    return None


def _remove(args: argparse.Namespace, where: Filter, key: Key | None) -> int:
    """Remove the saved threshold; its field need not be in the store any more."""
    from llmeval_sdk.evaluation import acceptances

    assert key is not None
    with open_store(args.store) as reader:
        path = state_path(reader.location)
    removed = acceptances.remove(path, key)
    spans = f" of {args.span_name!r}" if args.span_name else ""
    group = f" where {Frame(where.texts)}" if where.texts else ""
    if args.json:
        say_json({
            "field": args.field, "span_name": args.span_name, "where": sorted(where.texts),
            "removed": removed,
        })  # fmt: skip
    elif removed:
        say("Removed: within half a minute, llmeval.accepts no longer goes by it.")
    else:
        say(f"There is no saved threshold for {args.field!r}{spans}{group}.")
    return 0 if removed else 1


def _threshold(
    args: argparse.Namespace, key: Key | None, traffic: FieldTraffic, promise: Promise
) -> SavedThreshold:
    from llmeval_sdk.evaluation.acceptances import SURE, SavedThreshold

    assert promise.threshold is not None
    assert key is not None
    return SavedThreshold(
        field=args.field,
        span_name=args.span_name,
        threshold=promise.threshold,
        error=args.error,
        promise=SURE,
        share=promise.share,
        values=len(traffic.scores),
        labels=len(traffic.labels),
        version=traffic.version,
        saved_ns=time_ns(),
        where={f"{TAG}{tag}": str(value) for tag, value in key.group},
    )


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved threshold, and whether its promise still holds."""

    saved: SavedThreshold
    outdated: str
    """Why no value is accepted by it any more; empty where it is in use."""
    values: int
    """The number of values that were scored since it was saved."""
    share: float | None
    """The share of these that it accepts, 0..1; ``None`` where there are none."""
    moved: bool
    """Whether that share differs from the one when it was saved, by more than chance."""
    audited: int
    """The number of audited values that people labelled."""
    wrong: int
    """The number of these that they called wrong."""
    exceeded: bool
    """Whether these labels prove the promise broken: too many accepted values are wrong."""

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the promise."""
        return not (self.outdated or self.moved or self.exceeded)


def _state_of(saved: SavedThreshold, version: str, store: Connection) -> SavedState:
    from llmeval_sdk.evaluation.acceptances import outdated

    frame = Frame(since_ns=saved.saved_ns)
    since = field_traffic(store, saved.field, frame, saved.span_name).scores
    accepted = sum(score is not None and score <= saved.threshold for score in since)
    share = accepted / len(since) if since else None
    labels = audited_labels(
        store, saved.field, saved.saved_ns, saved.span_name, is_of_group=bool(saved.where)
    )
    wrong = labels.count(False)
    return SavedState(
        saved=saved,
        outdated=outdated(saved, version),
        values=len(since),
        share=share,
        moved=share is not None and has_moved(saved.share, saved.values, share, len(since)),
        audited=len(labels),
        wrong=wrong,
        exceeded=is_exceeded(wrong, len(labels), saved.error),
    )


def _show_state(state: SavedState) -> None:
    saved = state.saved
    heading(f"The threshold that was saved {moment(saved.saved_ns)}: {saved.threshold:.4f}")
    if state.outdated:
        say_wrapped(f"{state.outdated[:1].upper()}{state.outdated[1:]}.")
        return
    if state.share is None:
        say_wrapped("No value was scored since.")
    else:
        say_wrapped(
            f"Of {plural(state.values, 'value')} since, it accepts {state.share:.0%}, where"
            f" {saved.share:.0%} was when it was saved."
            + (" The traffic or its scores have changed: label anew." if state.moved else "")
        )
    if state.audited:
        say_wrapped(
            f"Of {plural(state.audited, 'label')} of audited values, {state.wrong:,} say wrong."
            + (
                " That is more than was promised: it no longer holds. Label anew."
                if state.exceeded
                else " That does not contradict the promise."
            )
        )
    else:
        say_wrapped(
            "No audited value has a label, so that nothing would show if accepted values had become"
            " worse."
        )


def _show(
    args: argparse.Namespace,
    where: Filter,
    traffic: FieldTraffic,
    sure: Promise,
    *,
    outside: int,
) -> None:
    error = args.error
    unchecked = sum(score is None for score in traffic.scores)
    group = f" where {Frame(where.texts)}" if where.texts else ""
    names = ", ".join(printable(name) or "-" for name in traffic.span_names)
    say(
        f"{printable(args.field)} of {names}{group}:"
        f" {plural(len(traffic.scores), 'value')}, {unchecked:,} not checked,"
        f" {plural(len(traffic.labels), 'label')} of values drawn at random"
    )
    for caution in _cautions(traffic, outside):
        say_wrapped(caution)
    if (detection := _detection(traffic)) is not None:
        heading("How well the chance finds errors")
        area = _with_interval(detection["auroc"], ".2f")
        caught = _with_interval(detection["errors_found"], ".0%")
        right = _with_interval(detection["accuracy"], ".1%")
        say_wrapped(
            f"AUROC {area}. The riskiest {1 - COVERAGE:.0%} hold {caught} of the errors; of the"
            f" other {COVERAGE:.0%}, {right} are right. In brackets: 95 % intervals."
        )
    heading(f"With 95 % confidence, at most {error:.2%} of the accepted values is wrong")
    if sure.threshold is None:
        _refuse(sure, args, len(traffic.labels))
    else:
        say_wrapped(
            f"Accept values with a chance of an error up to {sure.threshold:.4f}: {sure.share:.0%}"
            f" of the traffic. Of the {sure.labels:,} labels there, {sure.wrong:,} say wrong, so at"
            f" most {sure.of_accepted or 0:.2%} of the accepted values is."
        )


COVERAGE = 0.8
"""The share of the values, the safest ones, that people would not look at."""


def _detection(traffic: FieldTraffic) -> dict[str, Figure] | None:
    """Say how well the chance finds errors, by the labels of values that were checked."""
    checked = [label for label in traffic.labels if label.score is not None]
    risks, bad = [label.score or 0.0 for label in checked], [label.wrong for label in checked]
    area, accuracy = auroc(risks, bad), accuracy_at(COVERAGE, risks, bad)
    caught = caught_at(1 - COVERAGE, risks, bad)
    interval = caught_interval(caught, bad)
    if area is None or accuracy is None or caught is None or interval is None:
        return None
    return {"auroc": area, "errors_found": Figure(caught, *interval), "accuracy": accuracy}


def _with_interval(figure: Figure, form: str) -> str:
    return f"{figure.value:{form}} ({figure.low:{form}}–{figure.high:{form}})"


def _cautions(traffic: FieldTraffic, outside: int) -> Iterator[str]:
    """Yield what may make the promise below claim too much."""
    yield "Answers that have no passages are not counted."
    if traffic.unlabelled:
        yield (
            f"{plural(traffic.unlabelled, 'value')} that were shown have no label. If people skip"
            " the hard ones, more is wrong than the labels say."
        )
    if traffic.left_out:
        yield (
            f"{plural(traffic.left_out, 'label')} of values drawn with --since, --span-name or"
            " --where are left out, because they say nothing of the other values: ask with the same"
            " options."
        )
    if outside:
        yield (
            f"{plural(outside, 'span')} with such values lack the tag, which another span of the"
            " request has: llmeval.accepts takes them for values of no group. Set tags by"
            " annotation_context."
        )
    if traffic.in_lists:
        yield (
            "Values of one answer are counted as independent. If they are wrong together, less is"
            " certain than stands below."
        )


def _refuse(promise: Promise, args: argparse.Namespace, labels: int) -> None:
    """Say why nothing is promised, and how many labels may change that."""
    say_wrapped(f"Nothing can be promised. {promise.reason}")
    if promise.missing:
        needed = min(max(labels + promise.missing, fewest_labels(args.error)), MOST_LABELS)
        said = (
            f"At least {needed:,} labels are needed"
            if labels < FEWEST
            else f"{plural(needed - labels, 'more label')} would do if they are like those so far"
        )
        command = f"llmeval label --for accept --field {printable(args.field)} --labels {needed}"
        say_wrapped(f"{said}: {command}{repeated(args)}")


def _saving(text: str) -> str:
    if text not in ("sure", "none"):
        gone = " (the promise on average is made no longer)" if text == "average" else ""
        raise ConfigurationError(f"{text!r} is neither sure nor none{gone}")
    return text


def _share(text: str) -> float:
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise ConfigurationError(f"{text!r} is no share between 0 and 1, such as 2% or 0.02")
    return share
