"""Reads the rules that settings hold as JSON: sampling rules, escalations and budgets of groups.

Rules in code raise at once. These come from the environment of an app in production, so a mistake
becomes a line for people, and closes what its rule could have been about: nothing is spent on a
judge because a rule that should have limited it was misspelt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Condition, Escalation, Joined, above, below, flagged
from llmeval_sdk.evaluation.groups import read_where
from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules, is_rate


@dataclass(frozen=True, slots=True)
class EscalationRules:
    """Escalations, and what keeps the judges of those that were misspelt from running."""

    escalations: Sequence[Escalation] | None = None
    """``None`` where the setting has no text, so that the default applies."""
    awaiting: tuple[Escalation, ...] = ()
    """Those of judges that nobody has declared, or not yet."""
    nobodys: frozenset[str] = frozenset()
    """The names of judges in escalations that nobody has."""
    closing: tuple[SamplingRule, ...] = ()
    """Sampling rules of rate 0, one for each escalation that cannot be read."""
    problems: tuple[str, ...] = ()
    """The mistakes, one line each, as people read them."""


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """Budgets of groups of requests, and the mistakes of those that cannot be read."""

    groups: tuple[Budget, ...] = ()
    problems: tuple[str, ...] = ()
    """The mistakes, one line each, as people read them."""


# Sampling rules, in Datadog's form.

_SAMPLING = ("sample_rate", "evaluator", "evaluator_label", "span_name", "where")


def parse_rules(text: str | None) -> SamplingRules:
    """Read Datadog's JSON list of ``{sample_rate, evaluator_label?, span_name?}``; never raises.

    ``where`` is ours, as in `SamplingRule`.

    ``evaluator`` means the same as ``evaluator_label``. A rate may be a numeric string, which
    Datadog accepts too. A rate outside 0 to 1 or of another type makes the rule a bad one. No text
    and an empty list both mean that there are no rules.
    """
    try:
        entries = _entries(text, "sampling rules")
    except ValueError as error:
        return SamplingRules((SamplingRule(0.0),), (f"{error}; the paid judges are off",))
    problems: list[str] = []
    rules = tuple(_rule(entry, place, problems) for place, entry in enumerate(entries or (), 1))
    return SamplingRules(rules, tuple(problems))


def _rule(entry: object, place: int, problems: list[str]) -> SamplingRule:
    """Read one entry. A mistake makes it a rule of rate 0 for everything it may have meant."""
    if not isinstance(entry, dict):
        problems.append(_line(f"sampling rule {place} is no object; nothing from it on runs"))
        return SamplingRule(0.0)
    wrong = _unknown(entry, _SAMPLING)
    evaluator = _name(entry, ("evaluator", "evaluator_label"), wrong)
    span_name = _name(entry, ("span_name",), wrong)
    rate, where = _rate(entry, wrong), entry.get("where")
    try:
        read_where(where, "where")
    except ConfigurationError as error:
        wrong.append(str(error))
        where = None
    if not wrong:
        return SamplingRule(rate, evaluator=evaluator, span_name=span_name, where=where)
    scope = " and ".join(
        f"{word} {name!r}" for word, name in (("evaluator", evaluator), ("span", span_name)) if name
    )
    problems.append(
        _line(f"sampling rule {place}: {'; '.join(wrong)}; counted as 0 for {scope or 'all'}")
    )
    return SamplingRule(0.0, evaluator=evaluator, span_name=span_name, where=where)


def _rate(entry: dict[str, Any], wrong: list[str]) -> float:
    if "sample_rate" not in entry:
        wrong.append("sample_rate is missing")
        return 0.0
    value = entry["sample_rate"]
    rate: Any = value
    if isinstance(value, str):
        try:
            rate = float(value)
        except ValueError:
            rate = None
    if not is_rate(rate):
        wrong.append(f"sample_rate {value!r} is no number from 0 to 1"[:120])
        return 0.0
    return float(rate)


def _name(entry: dict[str, Any], keys: tuple[str, ...], wrong: list[str]) -> str | None:
    names = [entry[key] for key in keys if key in entry]
    for name in names:
        if not isinstance(name, str) or not name:
            wrong.append(f"{keys[-1]} {name!r} is no name (leave the key out to match any)")
            return None
    if len(set(names)) > 1:
        wrong.append(f"{' and '.join(keys)} differ")
        return None
    return names[0] if names else None


# Escalations and budgets of groups: the keywords of the classes in code, and conditions as text.

_ESCALATION = ("judge", "when", "control_rate", "share", "by", "of", "where", "per")
_BUDGET = (
    "calls_per_minute", "tokens_per_minute", "unpriced_tokens_per_minute", "usd_per_day", "where",
    "per",
)  # fmt: skip


def parse_escalations(text: str | None) -> EscalationRules:
    """Read a JSON list of ``{judge, share or when, …}``, keys of `Escalation`; never raises.

    ``when`` is a comparison, or a list of comparisons of which one has to hold: ``"recall<0.7"``,
    ``"groundedness_risk>0.8"`` or ``"recall_warning=HIT_RETRIEVAL_LIMIT"``. A judge whose entry
    cannot be read does not run; where nobody can say which judge an entry is about, no judge runs.
    """
    try:
        entries = _entries(text, "escalations")
    except ValueError as error:
        line = f"{error}; the paid judges are off"
        return EscalationRules((), closing=(SamplingRule(0.0),), problems=(line,))
    if entries is None:
        return EscalationRules()
    escalations, closing, problems = [], [], []
    for place, entry in enumerate(entries, 1):
        try:
            escalations.append(_made(entry, _ESCALATION, _escalation))
        except ConfigurationError as error:
            judge = entry.get("judge") if isinstance(entry, dict) else None
            name = judge if isinstance(judge, str) and judge else None
            closing.append(SamplingRule(0.0, evaluator=name))
            stays_off = f"{name!r} does not run" if name else "no judge runs"
            problems.append(_line(f"escalation {place}: {error}; {stays_off}"))
    return EscalationRules(tuple(escalations), closing=tuple(closing), problems=tuple(problems))


def parse_budgets(text: str | None) -> BudgetRules:
    """Read a JSON list of ``{usd_per_day, per or where, …}``, keys of `Budget`; never raises.

    ``null`` lifts a limit, as ``None`` does in code.
    """
    groups: list[Budget] = []
    problems: list[str] = []
    try:
        for place, entry in enumerate(_entries(text, "budgets of groups") or (), 1):
            try:
                budget = _made(entry, _BUDGET, lambda keywords: Budget(**keywords))
                groups = list(Budget(groups=[*groups, budget]).groups)
            except ConfigurationError as error:
                problems.append(_line(f"budget of a group {place}: {error}"))
    except ValueError as error:
        problems.append(str(error))
    return BudgetRules(tuple(groups), tuple(problems))


def _escalation(keywords: dict[str, Any]) -> Escalation:
    if "judge" not in keywords:
        raise ConfigurationError("judge is missing")
    when = keywords.pop("when", None)
    judge = keywords.pop("judge")
    return Escalation(judge, when=None if when is None else _condition(when), **keywords)


_COMPARISON = re.compile(r"([^<>=]{1,200})([<>=])([^<>=]{1,200})")


def _condition(when: object) -> Condition:
    """Read a comparison, or several of which one has to hold."""
    comparisons = [when] if isinstance(when, str) else when
    if not isinstance(comparisons, list) or not comparisons:
        raise ConfigurationError(f"{_WHEN}, not {when!r}")
    read = [_comparison(text) for text in comparisons]
    return read[0] if len(read) == 1 else Joined(tuple(read), enough=True)


_WHEN = 'when is like "recall<0.7", "risk>0.8" or "warning=WORD", or a list of such comparisons'


def _comparison(text: object) -> Condition:
    parts = _COMPARISON.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise ConfigurationError(f"{_WHEN}, not {text!r}")
    name, sign, right = map(str.strip, parts.groups())
    if not (name and right):
        raise ConfigurationError(f"{_WHEN}, not {text!r}")
    if sign == "=":
        return flagged(name, right)
    try:
        threshold = float(right)
    except ValueError:
        raise ConfigurationError(f"{_WHEN}, not {text!r}") from None
    return below(name, threshold) if sign == "<" else above(name, threshold)


# What all of them share.


def _entries(text: str | None, what: str) -> list[object] | None:
    """Read a JSON list; ``None`` for no text. Raises ``ValueError`` with a line for people."""
    if text is None or not text.strip():
        return None
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_line(f"{what} are not JSON ({error})")) from None
    if not isinstance(entries, list):
        raise ValueError(f"{what} are no JSON list, expected [{{...}}, ...]")  # noqa: TRY004
    return entries


def _made(entry: object, keys: tuple[str, ...], make: Callable[[dict[str, Any]], Any]) -> Any:
    """Make what an entry describes; raises `ConfigurationError` for any mistake in it."""
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{entry!r} is no object")
    wrong = _unknown(entry, keys)
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    try:
        return make(dict(entry))
    except TypeError as error:  # a value of another type than any check expects
        raise ConfigurationError(str(error)) from None


def _unknown(entry: Mapping[str, object], keys: tuple[str, ...]) -> list[str]:
    return [f"unknown key {key!r}, {nearest(key, keys)}" for key in entry if key not in keys]


def _line(problem: str) -> str:
    return " ".join(problem.split())[:300]
