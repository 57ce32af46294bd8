"""Which requests a rule is about, and in which group of requests a record is: by their tags.

Rules know the tags of the evaluated span alone, which include those of ``annotation_context``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from llmeval_sdk.errors import ConfigurationError


TAG = "tag:"
NO_TAGS: Mapping[str, str] = {}
MAX_GROUPS = 200
"""Groups that a process keeps state of their own for; all others share one."""
OTHERS = "all others"
_MAX_LENGTH = 200
"""Values that are the same up to here are one group, in characters."""

Values: TypeAlias = "str | list[str] | tuple[str, ...]"
Where: TypeAlias = "Mapping[str, Values] | None"
"""Tags with the value, or the values, that they must have: ``{"tag:tenant": "acme"}``."""


class TagTest(NamedTuple):
    """One tag, and the values of which it must have one."""

    tag: str
    values: frozenset[str]


def read_where(where: object, owner: str) -> tuple[TagTest, ...]:
    """Read what requests a rule is about; raises `ConfigurationError` where that is unclear."""
    if where is None:
        return ()
    if not isinstance(where, Mapping) or not where:
        raise ConfigurationError(f'{owner}: where= is like {{"tag:tenant": "acme"}}, not {where!r}')
    tests = []
    for key, values in where.items():
        listed = [values] if isinstance(values, str) else values
        if not isinstance(listed, (list, tuple)) or not all(isinstance(v, str) for v in listed):
            raise ConfigurationError(
                f"{owner}: where[{key!r}] is a text or a list of texts, not {values!r}"
            )
        tests.append(TagTest(read_tag(key, owner, "where="), frozenset(listed)))
    return tuple(tests)


def read_tag(key: object, owner: str, option: str) -> str:
    """Return the name of the tag that ``tag:KEY`` or ``user`` means; raises for any other text."""
    if key == "user":
        return "user_id"
    if not isinstance(key, str) or not key.startswith(TAG) or key == TAG:
        raise ConfigurationError(f"{owner}: {option} takes tag:KEY or user, not {key!r}")
    return key.removeprefix(TAG)


def is_about(tests: tuple[TagTest, ...], tags: Mapping[str, str]) -> bool:
    """Say whether a record with these tags has all that a rule asks for."""
    return all(tags.get(tag) in values for tag, values in tests)


def group_of(per: str, tags: Mapping[str, str]) -> str:
    """Return the group of a record with these tags; it is empty where the tag is missing.

    ``per`` is what `read_tag` took, such as ``tag:tenant``.
    """
    return str(tags.get(read_tag(per, "groups", "per=")) or "")[:_MAX_LENGTH]
