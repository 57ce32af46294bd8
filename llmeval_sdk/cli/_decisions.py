"""What `llmeval doctor` says of the decision model, and of the calibrations beside the store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from llmeval_sdk import registry
from llmeval_sdk.cli._checks import Finding, address
from llmeval_sdk.cli._endpoint import DECISIONS, endpoint
from llmeval_sdk.config import Secret, Settings
from llmeval_sdk.config.decisions import DecisionSettings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.reader import StoreReader


def decision_model(settings: Settings, *, offline: bool) -> Iterator[Finding]:
    """Say which decision model is asked over which wire, in whose place, and whether it answers."""
    own = settings.of(DecisionSettings)
    if own.decision_model is None:
        if own.cascade:
            words = "no decision model is named: set LLMEVAL_DECISION_MODEL"
            yield Finding(False, "LLMEVAL_CASCADE", words)
        elif own.decision_api_key is not None:
            words = "none is configured. A key alone never asks one: name a model in it"
            yield Finding(None, "LLMEVAL_DECISION_MODEL", words)
        return
    from llmeval_sdk.llms.decisions import HttpDecisions, place, resolve

    try:
        model = resolve(settings=settings)
    except ConfigurationError as error:
        yield Finding(False, own.decision_model, str(error))
        return
    assert isinstance(model, HttpDecisions)
    key = place(model.wire, settings)[1]
    words = f"asked by POST {address(model.base_url)}{model.path}, {_with(key)}"
    yield Finding(True, own.decision_model, f"wire {model.wire.name}; {words}")
    yield from _judges(settings, own)
    yield from _ceilings(settings, own, model.model)
    if not offline:
        yield endpoint(model.base_url, key, DECISIONS)


def _with(key: Secret | None) -> str:
    return "without a key" if key is None else "with a key"


def asked_of_a_judge_model(settings: Settings) -> list[str]:
    """Return the judges of the settings that a judge model is asked: those no decision is for."""
    own = settings.of(DecisionSettings)
    if own.decision_model is None:
        return [name for name in settings.evaluators if registry.is_judge(name)]
    return [*dict.fromkeys((*own.cascade, *_divided(settings, settings.evaluators)[1]))]


def _divided(settings: Settings, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide the judges among some names into those that can be decided, and the others."""
    from llmeval_sdk.evaluation.deciding import divided
    from llmeval_sdk.evaluation.resolve import resolve

    decided: list[str] = []
    left: list[str] = []
    for name in dict.fromkeys(names):
        try:
            evaluator = resolve(name, settings)
        except ConfigurationError:  # which the checks of evaluators tell
            continue
        if evaluator.kind == "judge":
            (decided if divided([evaluator])[0] else left).append(name)
    return decided, left


def _judges(settings: Settings, own: DecisionSettings) -> Iterator[Finding]:
    decided, left = _divided(settings, (*settings.evaluators, *own.cascade))
    if decided:
        yield Finding(True, "decided", ", ".join(decided))
    if left:
        words = f"{', '.join(left)}: no typed question, so left to the judge model"
        yield Finding(None, "not decided", words)
    if not decided and not left:
        words = "no judge is asked for: name some in LLMEVAL_EVALUATORS or LLMEVAL_CASCADE"
        yield Finding(None, "decided", words)
    if own.cascade:
        words = f"the judge model is asked where it is uncertain: {', '.join(own.cascade)}"
        yield Finding(True, "cascade", words)


def _ceilings(settings: Settings, own: DecisionSettings, model: str) -> Iterator[Finding]:
    from llmeval_sdk._prices import price_of

    price = price_of(model, own=settings.prices)
    if price is None:
        words = f"NO limit: the price of {model} is unknown; set LLMEVAL_PRICES='{model}=IN,OUT'"
        yield Finding(None, "dollars", words)
    else:
        words = f"at most {own.decision_usd_per_day:g} a day, at {price.input:g} in and "
        yield Finding(True, "dollars", f"{words}{price.output:g} out per million tokens")
    tokens = f"at most {own.decision_tokens_per_minute:,.0f} a minute on this host"
    yield Finding(True, "tokens", tokens)


def calibrated(settings: Settings) -> Iterator[Finding]:
    """Say for each calibration whether it fits what answers now."""
    from llmeval_sdk.evaluation import calibrations

    path = calibrations.path_beside(path_of(settings.store))
    try:
        fitted = calibrations.read(path)
    except DataError as error:
        yield Finding(False, str(path), str(error))
        return
    for judge, one in fitted.items():
        made = datetime.fromtimestamp(one.fitted_ns / 1e9, tz=timezone.utc).date()
        words = f"fitted {made} to {one.calibration.labels:,} labels, {one.model} as v"
        words += one.judge_version
        latest = _latest(settings, judge)
        if latest is None:
            yield Finding(None, judge, f"{words}; no decision of it is stored yet")
        elif one.is_stale(*latest):
            yield Finding(None, judge, f"STALE: {calibrations.stale(judge, one, latest[1])}")
        elif one.calibration.is_identity:
            yield Finding(True, judge, f"{words}; it leaves the probabilities as they are")
        else:
            losses = f"{one.loss_before:.3f} to {one.loss_after:.3f}"
            yield Finding(True, judge, f"{words}; held-out log loss {losses}")


def _latest(settings: Settings, judge: str) -> tuple[str, str] | None:
    """Return the version of a judge and the model of its latest decision in the store."""

    def read(store: sqlite3.Connection) -> tuple[str, str] | None:
        row = store.execute(_LATEST, (judge,)).fetchone()
        if row is None:
            return None
        try:
            model = json.loads(row[1] or "{}").get("model")
        except (ValueError, AttributeError):
            model = None
        return str(row[0] or ""), str(model or "")

    path = path_of(settings.store)
    if not path.exists():
        return None
    try:
        with StoreReader(path) as reader:
            return reader.read(read)
    except ConfigurationError:  # which the check of the store tells
        return None


_LATEST = """
SELECT evaluator_version, metadata FROM evaluations
WHERE name = ? AND evaluator_kind = 'decision' AND error_type IS NULL ORDER BY time_ns DESC LIMIT 1
"""
