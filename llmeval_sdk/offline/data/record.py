"""A row of a data set becomes the Record that evaluators see, online and offline alike.

Each column of the input schema has a reader. A reader raises ``ValueError`` or ``TypeError`` with
the end of a sentence, and `record_from` adds where in the data it happened.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError, did_you_mean
from llmeval_sdk.model import Chunk, Extraction, Record, Request, Step, Usage
from llmeval_sdk.model.chat import (
    definitions_of,
    messages_of,
    messages_of_turns,
    steps_of,
    to_answer,
    to_text,
)
from llmeval_sdk.model.fields import FIELD_OF, to_chunk, to_extraction, to_reason, to_usage
from llmeval_sdk.offline.data.source import Data, Located, check_size, read_json, settled
from llmeval_sdk.offline.data.spans import Trace, read_trace
from llmeval_sdk.process.patterns import UnboundedPatternError, longest_text


def _read_steps(value: object) -> tuple[Step, ...]:
    """Read messages and tool calls.

    Raises:
        TypeError, ValueError: there are none.
    """
    steps = steps_of(value)
    if steps is None:
        raise ValueError(
            "expected a list of chat messages or of tool calls, {'role': 'tool', 'name': ...,"
            f" 'arguments': ..., 'result': ...}}, not {type(value).__name__}"
        )
    return steps


def _read_tools(value: object) -> tuple[Mapping[str, Any], ...]:
    """Read the definitions of tools.

    Raises:
        TypeError, ValueError: there are none.
    """
    tools = definitions_of(value)
    if tools is None:
        raise ValueError(
            "expected a list of tools, {'name': ..., 'parameters': {...}}, not"
            f" {type(value).__name__}"
        )
    return tools


CONVERSATION = ("messages", "turns")
"""Columns that hold a whole conversation, in rows that say nothing else of what was asked."""


def _with_conversation(
    fields: dict[str, Any], others: dict[str, Any], read: Callable[[Any], Any], where: str
) -> dict[str, Any]:
    """Add the fields of a conversation that stands in one of the other columns of a row.

    ``read`` parses a cell that may hold JSON.

    Raises:
        DataError: There is such a column, and it cannot be read.
    """
    column = next((name for name in CONVERSATION if name in others), None)
    if column is None or not {"request", "steps", "trace"}.isdisjoint(fields):
        return fields
    try:
        return {**_conversation(read(others.pop(column))), **fields}
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}, column {column!r}: {error}") from None


def _conversation(value: object) -> dict[str, Any]:
    """Read chat messages, or turns such as ``{"user": …, "assistant": …}``, as fields of a Record.

    Raises:
        TypeError, ValueError: there are none.
    """
    steps = _read_steps(messages_of_turns(value) or value)
    asked = [step.content for step in steps if step.role == "user"]
    answered = [step.content for step in steps if step.role == "assistant"]
    return {
        "steps": steps,
        "request": asked[-1] if asked else "",
        **({"response": answered[-1]} if answered else {}),
    }


def _steps_of_chat(request: Request | None) -> tuple[Step, ...] | None:
    """Return the run that a chat request holds; ``None`` where no tool was called in it."""
    steps = steps_of(messages_of(request)) or ()
    return steps if any(step.role == "tool" for step in steps) else None


# Columns whose names are almost ours: nothing is guessed, and all of a row are named at once.

MAX_NAMED = 20
"""Unknown columns that one message names."""


def _check_names(
    others: Mapping[str, object], fields: Mapping[str, object], where: str, columns: Iterable[str]
) -> None:
    """Refuse misspelled columns of the schema; other columns belong to the data set.

    Args:
        others: The columns of a row that the schema does not have.
        fields: Those that it has.
        where: The place of the row.
        columns: All that the schema has.
    """
    unknown: dict[str, str] = {}
    for column in others:
        name = str(column)
        close = get_close_matches(name.lower()[:80], columns, n=1, cutoff=0.85)
        meant = FIELD_OF.get(name.lower()) or (close[0] if close else None)
        if meant is not None and meant not in fields:
            unknown[name] = meant
    if not unknown:
        return
    shown = dict(list(unknown.items())[:MAX_NAMED])
    named = ", ".join(f"{name!r:.80}: did you mean {ours!r}?" for name, ours in shown.items())
    more = f" and {len(unknown) - len(shown):,} more" if len(unknown) > len(shown) else ""
    several = "s" if len(unknown) > 1 else ""
    options = " ".join(f"--map {name:.80}={ours}" for name, ours in shown.items())
    raise DataError(
        f"{where}: unknown column{several} {named}{more} Map what is meant ({options}, or "
        f"map_columns={shown!r:.1000}), or rename it, or put what is not to be evaluated into "
        f"'attributes'{_also(others, unknown)}"
    )


def _also(others: Mapping[str, object], unknown: Mapping[str, str]) -> str:
    """List the remaining unknown columns, which resemble none of ours."""
    rest = [str(name) for name in others if str(name) not in unknown]
    named = ", ".join(f"{name!r:.80}" for name in rest[:MAX_NAMED])
    more = f" and {len(rest) - MAX_NAMED:,} more" if len(rest) > MAX_NAMED else ""
    return f". These would be kept as attributes, unless mapped: {named}{more}" if rest else ""


def absent(value: object) -> bool:
    """Return whether a cell is empty: None, NaN, or what data frames have in their place."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def plain(value: object) -> Any:
    """Turn a numpy array or scalar into plain Python values."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "dtype") else value


def structured(value: object) -> Any:
    """Parse a text that holds JSON, as CSV cells do; any other value is returned unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        content = read_json(value)
        check_size(content)
        return content
    return value


def _request(value: object) -> Request:
    request = value
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return value
        try:
            request = read_json(value)
            check_size(request)
        except ValueError:
            return value
    if isinstance(request, Mapping):
        request = {key: plain(item) for key, item in request.items() if not absent(item)}
        if messages_of(request) is not None:
            return request
    if isinstance(value, str):
        return value
    raise ValueError(
        f"expected a text, {{'messages': [...]}} or {{'query': ..., 'history': [...]}}, not "
        f"{_shown(value)}"
    )


def _text(value: object) -> str:
    if isinstance(value, (str, Mapping, list, tuple, int, float)) and not isinstance(value, bool):
        text = to_text(dict(value) if isinstance(value, Mapping) else value)
        assert text is not None
        return text
    raise ValueError(f"expected a text, not {_shown(value)}")


def _response(value: object) -> str:
    text = _text(value)
    return text if to_answer(value) else ""


def _facts(value: object) -> tuple[str, ...]:
    facts = structured(value)
    if isinstance(facts, str):
        return (facts,)
    for number, fact in enumerate(_list(facts, "texts"), 1):
        if not isinstance(fact, str):
            raise TypeError(f"item {number}: expected a text, not {_shown(fact)}")
    return tuple(facts)


def _chunks(value: object) -> tuple[Chunk, ...]:
    items = structured(value)
    if isinstance(items, Mapping):
        items = next((items[k] for k in ("documents", "chunks", "results") if k in items), items)
    chunks = []
    for number, item in enumerate(_list(items, "chunks"), 1):
        chunk = to_chunk(dict(item) if isinstance(item, Mapping) else item)
        if chunk is None:
            raise ValueError(f"item {number}: expected a content or a doc_uri, not {_shown(item)}")
        chunks.append(chunk)
    return tuple(chunks)


def _ground_truth(value: object) -> tuple[Chunk, ...]:
    chunks = _chunks(value)
    for number, chunk in enumerate(chunks, 1):
        if chunk.doc_uri is None:
            raise ValueError(f"item {number}: a ground-truth chunk needs a doc_uri")
    return chunks


def _extractions(value: object) -> tuple[Extraction, ...]:
    extractions = []
    for number, item in enumerate(_list(structured(value), "extractions"), 1):
        extraction = to_extraction(dict(item) if isinstance(item, Mapping) else item)
        if extraction is None:
            raise ValueError(f"item {number}: expected a value or a chunk_number")
        rank: Any = extraction.chunk_number
        if isinstance(rank, float):  # a data frame has no whole numbers beside empty cells
            extraction = replace(extraction, chunk_number=int(rank) if rank.is_integer() else None)
        elif not (rank is None or isinstance(rank, int)):
            raise ValueError(f"item {number}: chunk_number is not a number: {_shown(rank)}")
        extractions.append(extraction)
    return tuple(extractions)


def _mapping(value: object) -> Mapping[str, Any]:
    mapping = structured(value)
    if not isinstance(mapping, Mapping):
        raise TypeError(f"expected a mapping, not {_shown(value)}")
    return mapping


def _field_config(value: object) -> Mapping[str, Any]:
    config = _mapping(value)
    form = config.get("format")
    if isinstance(form, (str, re.Pattern)):
        try:
            longest_text(form)
        except UnboundedPatternError as error:
            raise ValueError(f"the format {form!r:.80}: {error}") from None
        except re.error:  # the name of a format, or none: the score then has none to go by
            pass
    return config


def _usage(value: object) -> Usage:
    usage = to_usage(structured(value))
    if usage is None:
        raise ValueError(
            f"expected {{'input_tokens': ..., 'output_tokens': ...}}, not {_shown(value)}"
        )
    return usage


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a number of seconds, not {_shown(value)}") from None
    if not 0 <= seconds < math.inf or isinstance(value, bool):
        raise ValueError(f"expected a number of seconds, not {_shown(value)}")
    return seconds


def _id(value: Any) -> str:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _confidence(value: object) -> float | str:
    if isinstance(value, (str, int, float)):  # `aggregated_confidence` reads it, as it does online
        return value
    raise ValueError(f"expected a number or HIGH, MEDIUM, LOW, not {_shown(value)}")


def _abstained(value: object) -> str | None:
    return to_reason(value if isinstance(value, bool) else _text(value))


def _as_it_is(value: object) -> Any:
    return value


def _trace(value: object) -> Trace:
    return read_trace(structured(value))


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list of {what}, not {_shown(value)}")
    return list(value)


def _shown(value: object) -> str:
    kind = type(value).__name__
    return (
        f"{kind} {value!r}"
        if isinstance(value, (int, float, str)) and len(repr(value)) < 60
        else kind
    )


READERS: dict[str, Callable[[Any], Any]] = {
    "request_id": _id,
    "request": _request,
    "response": _response,
    "retrieved_context": _chunks,
    "expected_facts": _facts,
    "expected_response": _text,
    "expected_retrieved_context": _ground_truth,
    "trace": _trace,
    "extractions": _extractions,
    "value": _as_it_is,
    "confidence": _confidence,
    "field_config": _field_config,
    "retrieval": _mapping,
    "attributes": _mapping,
    "usage": _usage,
    "latency_seconds": _seconds,
    "steps": lambda value: _read_steps(structured(value)),
    "tools": lambda value: _read_tools(structured(value)),
    "expected_trajectory": lambda value: _read_steps(structured(value)),
    "abstained": _abstained,
}


def record_from(  # noqa: C901, PLR0912
    row: Mapping[str, object] | Record,
    *,
    number: int = 1,
    place: str | None = None,
    prices: Mapping[str, tuple[float, ...]] | None = None,
) -> Record:
    """Read one row as a Record.

    Errors name the row by ``place``, or else by its 1-based ``number``. NaN in a cell means that
    the value is absent. A ``trace`` fills the columns that are missing; the cost of its model
    calls is computed with ``prices`` (USD per million tokens) or the built-in ones. A column that
    the schema does not have goes to ``attributes`` under its name.

    Raises:
        DataError: a value cannot be read, or the name of a column looks like a misspelling; the
            message names the row and the column.
    """
    if isinstance(row, Record):
        return row
    where = place or f"row {number}"
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected a mapping, not {type(row).__name__}")
    fields: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for column, cell in row.items():
        value = plain(cell)
        if absent(value):
            continue
        read = READERS.get(column)
        try:
            if type(value) is not str:
                value = settled(value)
                check_size(value)
            if read is None:
                others[column] = value
                continue
            fields[column] = read(value)
        except (TypeError, ValueError, AttributeError) as error:
            if column == "request" and isinstance(value, Mapping) and not absent(row.get("trace")):
                continue  # the app's arguments, in MLflow's frame of traces: the trace says more
            raise DataError(f"{where}, column {column!r}: {error}") from None
    fields = _with_conversation(fields, others, structured, where)
    if others:
        _check_names(others, fields, where, READERS)
        fields["attributes"] = {**others, **fields.get("attributes", {})}
    trace = fields.pop("trace", None)
    if trace is not None:
        fields = {**trace.priced(prices), **fields}
    if fields.get("expected_facts") is not None and fields.get("expected_response") is not None:
        raise DataError(
            f"{where}: a row may have expected_facts or expected_response, but not both"
        )
    if "steps" not in fields and (steps := _steps_of_chat(fields.get("request"))):
        fields["steps"] = steps
    if "response" in fields and "value" not in fields:
        fields["value"] = fields["response"]
    return Record(**fields)


# Columns of public data sets, read as the columns of the input schema.


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


MAX_ROWS_LOOKED_AT = 100
"""Rows at the beginning of the data that say which columns it has."""


def _renamed_rows(rows: Iterator[Located], names: Mapping[str, str]) -> Iterator[Located]:
    """Yield rows with other names of columns; a row that has a new name already is yielded broken.

    Raises:
        DataError: the first rows have no such columns; the message names all of them.
    """
    first = list(islice(rows, MAX_ROWS_LOOKED_AT))
    columns = {
        str(column): None for _, _, row in first if isinstance(row, Mapping) for column in row
    }
    missing = [name for name in names if name not in columns]
    if missing and columns:
        known = list(columns)[:MAX_ROWS_LOOKED_AT]
        shown = ", ".join(_with_hint(name, known) for name in missing)
        raise DataError(f"the data has no column {shown}: it has {', '.join(map(repr, known))}")
    for number, place, row in chain(first, rows):
        yield Located(number, place, _renamed(row, names) if isinstance(row, Mapping) else row)


def _renamed(row: Mapping[str, object], names: Mapping[str, str]) -> Any:
    new = {names.get(column, column): cell for column, cell in row.items()}
    if len(new) < len(row):
        twice = [f"{names[name]!r} (mapped from {name!r})" for name in names if names[name] in row]
        return DataError(f"has a column {', '.join(twice)} already")
    return new
