"""Sampling rules: the chance that a paid judge runs, in Datadog's JSON form.

The first rule that matches wins, names must match exactly, and without a match the judge runs. One
draw per trace decides for all judges, so that a trace is judged as a whole and the traces of a
lower rate are among those of a higher one. Datadog fails open or crashes on a bad rule, and ours
fails closed: a rule that cannot be understood means rate 0 for whatever it could have matched, and
JSON that cannot be read means rate 0 for everything.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError, nearest


# Random draws that are the same everywhere for the same id.
#
# A draw is a keyed BLAKE2b of the id, so it is uniform for ids that are not random (sequential
# test ids, 64-bit ids padded to 128) and independent of samplers that look at the id's low bits,
# such as OpenTelemetry's ratio sampler: a stream cut to 1 % at its head is still sampled at the
# asked rate. ``draw < rate`` keeps a lower rate's set inside a higher one's.

_SAMPLING = blake2b(digest_size=8, person=b"sampling")
_ESCALATION = blake2b(digest_size=8, person=b"escalation")
_UNIT = 2.0**-53


def sampling_draw(trace_id: str | None) -> float:
    """Draw from 0..1 (1 excluded) for a trace; a missing id draws afresh each time."""
    return _draw(_SAMPLING, trace_id)


def escalation_draw(key: str | None) -> float:
    """Draw from 0..1 (1 excluded) for one evaluated span, independently of `sampling_draw`."""
    return _draw(_ESCALATION, key)


def _draw(salted: blake2b, key: str | None) -> float:
    if not key:
        return random.random()  # noqa: S311 - sampling, not a secret
    digest = salted.copy()
    digest.update(key.encode("utf-8", "surrogatepass"))
    return (int.from_bytes(digest.digest(), "big") >> 11) * _UNIT


_KEYS = ("sample_rate", "evaluator", "evaluator_label", "span_name")


@dataclass(frozen=True, slots=True)
class SamplingRule:
    """The chance that a paid judge runs.

    Args:
        sample_rate: The chance: from 0 (never) to 1 (always).
        evaluator: The exact name of the judge; ``None`` matches any.
        span_name: The exact name of the span; ``None`` matches any.

    Raises:
        ConfigurationError: The rate is no number in 0..1, or a name is empty.

    Examples:
        >>> llmeval.configure(sampling_rules=[llmeval.SamplingRule(0.05, evaluator="safety")])
    """

    sample_rate: float
    _: KW_ONLY
    evaluator: str | None = None
    span_name: str | None = None

    def __post_init__(self) -> None:
        rate: Any = self.sample_rate
        if not _is_rate(rate):
            raise ConfigurationError(
                "SamplingRule: sample_rate must be a number from 0 (never) to 1 (always), "
                f"not {rate!r}"
            )
        for key, name in (("evaluator", self.evaluator), ("span_name", self.span_name)):
            if name is not None and not (isinstance(name, str) and name):
                raise ConfigurationError(
                    f"SamplingRule: {key} must be a name or None for any, not {name!r}"
                )

    def matches(self, evaluator: str, span_name: str | None) -> bool:
        """Return whether the rule is about an evaluator on spans of a name."""
        return self.evaluator in (None, evaluator) and self.span_name in (None, span_name)


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """Sampling rules in order, and the problems of the text that they were read from."""

    rules: tuple[SamplingRule, ...] = ()
    problems: tuple[str, ...] = ()
    """The problems, one line each, as people read them."""

    @classmethod
    def of(cls, rules: Iterable[SamplingRule]) -> SamplingRules:
        """Make rules of `SamplingRule` objects; raises `ConfigurationError` for others."""
        known = tuple(rules)
        for rule in known:
            if not isinstance(rule, SamplingRule):
                raise ConfigurationError(
                    f"sampling_rules takes SamplingRule(0.1, evaluator=...) objects, not {rule!r}"
                )
        return cls(known)

    def rate(self, evaluator: str, span_name: str | None) -> float:
        """Return the chance, from 0 to 1, that an evaluator runs on a span of this name."""
        for rule in self.rules:
            if rule.matches(evaluator, span_name):
                return float(rule.sample_rate)
        return 1.0

    def decide(
        self, evaluator: str, span_name: str | None, trace_id: str | None
    ) -> tuple[bool, float]:
        """Return whether the evaluator runs in this trace, and with what chance."""
        rate = self.rate(evaluator, span_name)
        return rate >= 1 or (rate > 0 and sampling_draw(trace_id) < rate), rate


def parse_rules(text: str | None) -> SamplingRules:
    """Read Datadog's JSON list of ``{sample_rate, evaluator_label?, span_name?}``; never raises.

    ``evaluator`` means the same as ``evaluator_label``. A rate may be a numeric string, which
    Datadog accepts too. A rate outside 0 to 1 or of another type makes the rule a bad one. No text
    and an empty list both mean that there are no rules.
    """
    if text is None or not text.strip():
        return SamplingRules()
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _closed(f"sampling rules are not JSON ({error}); the paid judges are off")
    if not isinstance(entries, list):
        return _closed(
            "sampling rules are no JSON list, expected [{...}, ...]; the paid judges are off"
        )
    problems: list[str] = []
    rules = tuple(_rule(entry, place, problems) for place, entry in enumerate(entries, 1))
    return SamplingRules(rules, tuple(problems))


def _closed(problem: str) -> SamplingRules:
    return SamplingRules((SamplingRule(0.0),), (_line(problem),))


def _rule(entry: Any, place: int, problems: list[str]) -> SamplingRule:
    """Read one entry; a bad one becomes rate 0 for everything it may have been meant for."""
    if not isinstance(entry, dict):
        problems.append(_line(f"sampling rule {place} is no object; nothing from it on runs"))
        return SamplingRule(0.0)
    wrong = [f"unknown key {key!r}, {nearest(key, _KEYS)}" for key in entry if key not in _KEYS]
    evaluator = _name(entry, ("evaluator", "evaluator_label"), wrong)
    span_name = _name(entry, ("span_name",), wrong)
    rate = _rate(entry, wrong)
    if not wrong:
        return SamplingRule(rate, evaluator=evaluator, span_name=span_name)
    scope = " and ".join(
        f"{word} {name!r}" for word, name in (("evaluator", evaluator), ("span", span_name)) if name
    )
    problems.append(
        _line(f"sampling rule {place}: {'; '.join(wrong)}; counted as 0 for {scope or 'all'}")
    )
    return SamplingRule(0.0, evaluator=evaluator, span_name=span_name)


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
    if not _is_rate(rate):
        wrong.append(f"sample_rate {value!r} is no number from 0 to 1"[:120])
        return 0.0
    return float(rate)


def _is_rate(rate: Any) -> bool:
    """Return whether a rate is a number from 0 to 1; NaN and booleans are not."""
    is_number = isinstance(rate, Real) and not isinstance(rate, bool)
    return is_number and bool(0 <= rate <= 1)


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


def _line(problem: str) -> str:
    return " ".join(problem.split())[:300]
