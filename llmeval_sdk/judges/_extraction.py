"""What an extraction judge has to know of a Record: the value, where it was found, its rivals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmeval_sdk.extraction import value_of
from llmeval_sdk.judges.cut import shortened
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.judges.request import as_text
from llmeval_sdk.model import Chunk, Extraction, Record


MOST_EXTRACTIONS, MOST_CHUNKS, MOST_EXAMPLES = 10, 10, 8
_VALUE_CHARACTERS = 2_000
_EVIDENCE_CHARACTERS = 1_000

Rival = Mapping[str, Any]


def has_evidence(record: Record) -> bool:
    """Say whether there is anything to check a value against."""
    cited = any((each.evidence or "").strip() for each in record.extractions or ())
    return cited or any((chunk.content or "").strip() for chunk in record.retrieved_context or ())


def sections(record: Record, rivals: Sequence[Rival]) -> list[Section]:
    """Show the field, the value, the evidence, the rivals and the chunks that matter most."""
    extractions = list(record.extractions or ())[:MOST_EXTRACTIONS]
    cited = [each.chunk_number for each in (*extractions, *map(_as_extraction, rivals))]
    return [
        *field(record.field_config or {}),
        Section("value", _short(value_of(record))),
        *_lines("extractions", map(_extraction_line, extractions)),
        *_lines("rivals", (_extraction_line(_as_extraction(each)) for each in rivals)),
        *_chunks(record.retrieved_context or (), cited),
    ]


def field(config: Mapping[str, Any]) -> list[Section]:
    """Show what the app says about the field, its guidelines and its examples."""
    known = ("name", "description", "type", "format", "unit")
    lines = [f"{key}: {_short(config[key])}" for key in known if config.get(key)]
    return [
        *_lines("field", lines),
        *_lines("guidelines", map(_short, _list(config.get("guidelines")))),
        *_lines("examples of this field", map(_short, _list(config.get("examples")))),
    ]


def _list(given: Any) -> list[Any]:
    """Read one or several guidelines or examples."""
    if given is None or given == "":
        return []
    several = isinstance(given, Sequence) and not isinstance(given, str)
    return list(given)[:MOST_EXAMPLES] if several else [given]


def _lines(name: str, lines: Iterable[str]) -> list[Section]:
    text = "\n".join(lines)
    return [Section(name, text)] if text else []


def _chunks(chunks: Sequence[Chunk], cited: Sequence[Any]) -> list[Section]:
    """Show the cited chunks first in line, then the others by rank; under their own numbers."""
    cited = [number for number in cited if type(number) is int and 0 < number <= len(chunks)]
    wanted = list(dict.fromkeys((*cited, *range(1, len(chunks) + 1))))
    readable = [number for number in wanted if (chunks[number - 1].content or "").strip()]
    return [
        Section(f"chunk {number}", chunks[number - 1].content or "")
        for number in sorted(readable[:MOST_CHUNKS])
    ]


def _as_extraction(rival: Rival) -> Extraction:
    return Extraction(
        rival.get("value"), rival.get("chunk_number"), evidence=_text(rival.get("evidence"))
    )


def _extraction_line(each: Extraction) -> str:
    where = f" (chunk {each.chunk_number})" if each.chunk_number else ""
    sure = "" if each.confidence is None else f", confidence {each.confidence}"
    quoted = shortened(each.evidence, _EVIDENCE_CHARACTERS) if each.evidence else ""
    return f"- {_short(each.value)}{where}{sure}" + (f": {quoted}" if quoted else "")


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _short(value: Any) -> str:
    return shortened(as_text(value), _VALUE_CHARACTERS)
