"""Columns of public data sets, read as the columns of the input schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError, did_you_mean
from llmeval_sdk.offline.data._record import READERS
from llmeval_sdk.offline.data.source import Data, Located


def mapped(data: Data, names: Mapping[str, str] | None) -> Data:
    """Return data with other names of columns.

    Args:
        data: The rows, each as it is.
        names: Our names by the names in the data; other columns keep theirs.

    Raises:
        ConfigurationError: We have no such column, or two are mapped to the same one; all that is
            wrong is named at once.
        DataError: The first rows have no such columns, which is noticed with the first of them.
    """
    if not names:
        return data
    unknown = [ours for ours in names.values() if ours not in READERS]
    if unknown:
        shown = ", ".join(_with_hint(ours, READERS) for ours in unknown)
        raise ConfigurationError(
            f"columns are mapped to {shown}, which evaluators do not read: a map is "
            "from the name in the data to one of " + ", ".join(READERS)
        )
    ours_of = [*names.values()]
    twice = sorted({ours for ours in ours_of if ours_of.count(ours) > 1})
    if twice:
        raise ConfigurationError(f"{', '.join(map(repr, twice))}: mapped twice")
    return replace(data, rows=_renamed_rows(data.rows, names))


def _with_hint(name: str, known: Iterable[str]) -> str:
    """Quote a name that is not there, with the one that was probably meant."""
    hint = did_you_mean(name, known)
    return f"{name!r} ({hint})" if hint else repr(name)


LOOKED_AT = 100
"""Rows at the beginning of the data that say which columns it has."""


def _renamed_rows(rows: Iterator[Located], names: Mapping[str, str]) -> Iterator[Located]:
    """Yield rows with other names of columns; a row that has a new name already is yielded broken.

    Raises:
        DataError: the first rows have no such columns; the message names all of them.
    """
    first = list(islice(rows, LOOKED_AT))
    columns = {
        str(column): None for _, _, row in first if isinstance(row, Mapping) for column in row
    }
    missing = [name for name in names if name not in columns]
    if missing and columns:
        known = list(columns)[:LOOKED_AT]
        shown = ", ".join(_with_hint(name, known) for name in missing)
        raise DataError(f"the data has no column {shown}: it has {', '.join(map(repr, known))}")
    for number, place, row in chain(first, rows):
        yield Located(number, place, _renamed(row, names) if isinstance(row, Mapping) else row)


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    new = {names.get(column, column): cell for column, cell in row.items()}
    if len(new) < len(row):
        twice = [f"{names[name]!r} (mapped from {name!r})" for name in names if names[name] in row]
        return DataError(f"has a column {', '.join(twice)} already")
    return new
