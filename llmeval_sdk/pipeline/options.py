"""What ``configure()`` was given, checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from llmeval_sdk.config.reading import json_list, names
from llmeval_sdk.config.settings import shown
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.json_rules import parse_budgets, parse_escalations, parse_rules


BUDGET = ("calls_per_minute", "tokens_per_minute", "usd_per_day", "judge_concurrency",
          "budget_groups")  # fmt: skip
"""The settings in whose place a `Budget` stands."""


class Options(NamedTuple):
    """The arguments of ``configure()``, sorted by who reads them."""

    settings: dict[str, Any]
    """Settings by name, for `config.from_environment`."""
    instead: tuple[str, ...]
    """Settings that the environment does not set, because an object stands in their place."""
    plan: dict[str, Any]
    """Keywords of `make_plan`."""


def read_options(
    settings: Mapping[str, Any],
    *,
    evaluators: object,
    escalations: object,
    sampling_rules: object,
    budget: object,
    llm: object,
    decisions: object,
    exporters: object,
    prices: object,
    redact: object,
) -> Options:
    """Sort the arguments; a text means what the variable of that name says.

    Raises:
        ConfigurationError: An argument cannot be used; the message names it and says what can.
    """
    rows: dict[str, Any] = {**settings, "prices": prices}
    plan: dict[str, Any] = {"evaluators": _evaluators(evaluators)}
    if isinstance(exporters, str):
        rows["exporters"] = exporters
    elif exporters is not None:
        each = _items("exporters", exporters, 'names such as ["local"], or Exporter objects')
        rows["exporters"] = tuple(item for item in each if isinstance(item, str))
        plan["exporters"] = tuple(item for item in each if not isinstance(item, str))
    if callable(redact):
        plan["redact"] = redact
    else:
        rows["redact"] = redact
    for name, value, row in (
        ("llm", llm, "judge_model"),
        ("decisions", decisions, "decision_model"),
    ):
        if isinstance(value, str):
            rows[row] = value
        else:
            plan[name] = value
    if not (llm is None or isinstance(llm, str) or callable(llm) or hasattr(llm, "complete")):
        raise _refused("llm", llm, "a model's name, an LLM or a callable")
    if not (budget is None or isinstance(budget, Budget)):
        raise _refused("budget", budget, "a Budget, such as Budget(usd_per_day=5.0)")
    plan["budget"] = budget
    if isinstance(groups := settings.get("budget_groups"), str):
        _read("budget_groups", groups, parse_budgets)
    plan["escalations"] = _escalations(escalations)
    plan["rules"] = _rules(sampling_rules)
    instead = {"escalations": escalations, "sampling_rules": sampling_rules}
    replaced = tuple(name for name, value in instead.items() if value is not None)
    return Options(rows, replaced + (BUDGET if budget is not None else ()), plan)


def _evaluators(evaluators: object) -> tuple[Any, ...]:
    expected = 'evaluators, or names such as ["groundedness"]'
    if not isinstance(evaluators, str):
        return _items("evaluators", evaluators, expected)
    try:
        return names(evaluators)
    except ValueError:
        raise _refused("evaluators", evaluators, expected) from None


def _escalations(escalations: object) -> tuple[Escalation, ...] | None:
    expected = "Escalation objects or a JSON list"
    if isinstance(escalations, str):
        written = _read("escalations", escalations, parse_escalations)
        return None if written.escalations is None else tuple(written.escalations)
    if escalations is None:
        return None
    for item in (items := _items("escalations", escalations, expected)):
        if not isinstance(item, Escalation):
            raise _refused("escalations", item, expected)
    return items


def _rules(rules: object) -> Any:
    if isinstance(rules, str):
        _read("sampling_rules", rules, parse_rules)
    if rules is None or isinstance(rules, str):
        return rules
    return _items("sampling_rules", rules, "SamplingRule objects or a JSON list")


def _read(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    """Return rules that were read from JSON; raises `ConfigurationError` for the first mistake."""
    try:
        written = parse(json_list(text))
    except ValueError:
        raise _refused(name, text, "a JSON list") from None
    if written.problems:
        raise ConfigurationError(f"{name}: {written.problems[0]}")
    return written


def _items(name: str, value: object, expected: str) -> tuple[Any, ...]:
    """Return the items of a sequence; ``None`` has none."""
    if value is None:
        return ()
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise _refused(name, value, expected)
    return tuple(value)


def _refused(name: str, value: object, expected: str) -> ConfigurationError:
    return ConfigurationError(f"{name}={shown(value)}: expected {expected}")
