"""The `Budget` of judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

from llmeval_sdk.config import DefaultLimit
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.groups import (
    TagTest,
    Where,
    group_of,
    is_about,
    read_tag,
    read_where,
)


UNPRICED_TOKENS_PER_MINUTE = 200_000
"""Enough for sixty calls of some 3,000 tokens each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What judges may use at most. ``None`` lifts a limit, 0 allows nothing.

    Args:
        calls_per_minute: Calls in any 60 seconds. A number below 1 allows one call in
            ``60 / calls_per_minute`` seconds.
        tokens_per_minute: Tokens in any 60 seconds.
        unpriced_tokens_per_minute: Tokens in any 60 seconds, for a model whose price is unknown: it
            replaces the default of ``usd_per_day``, unless ``tokens_per_minute`` is set or
            ``usd_per_day`` is ``None``. A judgement that needs more tokens takes the whole minute.
        usd_per_day: Dollars in a UTC day. Where the app sets it, a model whose price is unknown
            does not run.
        concurrency: Calls at the same time, in each process.
        judges: Further limits for single judges, by name, inside this budget. Their
            ``concurrency`` is not used.
        groups: Further limits for groups of requests, inside this budget: budgets with ``where``
            or ``per``. Their ``concurrency`` is not used.
        where: Tags of the spans that a budget among ``groups`` is about, such as
            ``{"tag:tenant": "acme"}``.
        per: ``tag:KEY`` or ``user``: each of its values has these limits for itself. 200 values
            that were used since yesterday have an account of their own; all others share one.

    Raises:
        ConfigurationError: A limit is not a number of at least 0, or one of ``groups`` has neither
            ``where`` nor ``per``.

    Examples:
        >>> llmeval.configure(
        ...     budget=llmeval.Budget(
        ...         calls_per_minute=60,
        ...         usd_per_day=5.0,
        ...         judges={"safety": llmeval.Budget(usd_per_day=1.0)},
        ...     )
        ... )
    """

    calls_per_minute: float | None = 60
    tokens_per_minute: float | None = None
    unpriced_tokens_per_minute: float | None = UNPRICED_TOKENS_PER_MINUTE
    usd_per_day: float | None = DefaultLimit(5.0)
    concurrency: int = 8
    judges: Mapping[str, Budget] = field(default_factory=dict, hash=False)
    groups: Sequence[Budget] = field(default=(), hash=False)
    where: Where = field(default=None, hash=False)
    per: str | None = None
    tests: tuple[TagTest, ...] = field(default=(), init=False, repr=False)
    """``where``, as it was read: a record has to pass all of these tests."""

    def __post_init__(self) -> None:
        for limit in (
            "calls_per_minute",
            "tokens_per_minute",
            "unpriced_tokens_per_minute",
            "usd_per_day",
        ):
            value = getattr(self, limit)
            if value is not None and not (_is_number(value) and 0 <= value < float("inf")):
                raise ConfigurationError(
                    f"Budget: {limit} must be a number of at least 0, or None for no limit,"
                    f" not {value!r}"
                )
        if type(self.concurrency) is not int or self.concurrency < 1:
            raise ConfigurationError(
                f"Budget: concurrency must be a whole number of at least 1,"
                f" not {self.concurrency!r}"
            )
        for name, budget in self.judges.items():
            if not isinstance(budget, Budget) or budget.judges:
                raise ConfigurationError(
                    f"Budget: judges[{name!r}] must be a Budget without judges of its own"
                )
        object.__setattr__(self, "tests", read_where(self.where, "Budget"))
        if self.per is not None:
            read_tag(self.per, "Budget", "per=")
        for budget in self.groups:
            if not isinstance(budget, Budget) or not budget.is_of_group or budget.judges:
                raise ConfigurationError(
                    "Budget: groups= takes budgets with where= or per=, and without judges, such as"
                    f' Budget(usd_per_day=0.5, per="tag:tenant"), not {budget!r}'
                )
        accounts = [budget.account_prefix for budget in self.groups]
        if len(set(accounts)) < len(accounts):
            raise ConfigurationError(
                "Budget: two of groups= are about the same requests, with the same where= and per=:"
                " give one budget all of their limits"
            )

    @property
    def is_of_group(self) -> bool:
        """Whether it is about some requests only, or about each group of them."""
        return bool(self.tests or self.per)

    def account_of(self, tags: Mapping[str, str]) -> str | None:
        """Return the account that a request with these tags uses; ``None`` where it uses none."""
        if not is_about(self.tests, tags):
            return None
        if self.per is None:
            return self.account_prefix
        return f"{self.account_prefix}{group_of(self.per, tags)}"

    @property
    def account_prefix(self) -> str:
        """How the names of all accounts of a budget of a group begin."""
        tests = [f"tag:{tag}={'|'.join(sorted(listed))}" for tag, listed in self.tests]
        where = f"where {' and '.join(tests)}" if tests else ""
        return ", ".join(filter(None, (where, self.per and f"{self.per}=")))


def limits_dollars(budget: Budget) -> bool:
    """Say whether the app has set a limit in dollars, which needs the price of each model."""
    return bool(budget.usd_per_day) and not isinstance(budget.usd_per_day, DefaultLimit)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


DECISION_BUDGET = Budget(
    calls_per_minute=None,
    tokens_per_minute=1_000_000,
    usd_per_day=DefaultLimit(1.0),
    concurrency=16,
)
"""What a decision model may use by default, apart from the judge models: as many requests as USD 1
a day and a million tokens a minute pay for."""
