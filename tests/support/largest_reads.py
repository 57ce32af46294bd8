"""A process that hands the SDK texts of some hundred KB, and prints what one call into C read most.

Patterns that the package compiles are wrapped before it is imported, and so are the calls of
`json`. It prints the calls that read more than one may, with the line that made them, as JSON.
"""

import base64
import json
import random
import re
import sys
from collections.abc import Callable
from typing import Any

from llmeval_sdk.process.pieces import MAX_READ, MAX_SEARCHED


too_large: dict[str, int] = {}
"""Characters, or bytes, by the line of the package that had them read."""


def note(size: int, most: int) -> None:
    frame = sys._getframe(2)
    while frame is not None and "llmeval_sdk" not in frame.f_code.co_filename:
        frame = frame.f_back
    if size > most and frame is not None:
        place = f"{frame.f_code.co_filename.rpartition('llmeval_sdk/')[2]}:{frame.f_lineno}"
        too_large[place] = max(size, too_large.get(place, 0))


class Watched:
    """A pattern that notes how much of a text it is given."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._pattern, name)
        if name in ("match", "fullmatch", "search", "findall", "finditer"):

            def read(text: Any, start: int = 0, end: int = sys.maxsize) -> Any:
                note(min(end, len(text)) - start, MAX_SEARCHED)
                return method(text, start, end)

            return read
        if name in ("sub", "split"):

            def change(*arguments: Any, **named: Any) -> Any:
                note(len(arguments[name == "sub"]), MAX_SEARCHED)
                return method(*arguments, **named)

            return change
        return method


def watch() -> None:
    """Wrap what reads a text in one call."""
    compiled = re.compile

    def compile_watched(pattern: Any, flags: int = 0) -> Any:
        made = compiled(getattr(pattern, "_pattern", pattern), flags)
        caller = sys._getframe(1).f_code.co_filename
        return Watched(made) if "llmeval_sdk" in caller else made

    re.compile = compile_watched  # type: ignore[assignment]
    for name, at in {"match": 1, "fullmatch": 1, "search": 1, "split": 1, "sub": 2}.items():
        setattr(re, name, _watched(getattr(re, name), at))
    encode, decode = json.JSONEncoder.encode, json.JSONDecoder.raw_decode

    def encode_watched(self: Any, value: Any) -> str:
        note(characters(value), MAX_READ)
        return encode(self, value)

    def decode_watched(self: Any, text: str, idx: int = 0) -> Any:
        note(len(text) - idx, MAX_READ)
        return decode(self, text, idx)

    json.JSONEncoder.encode = encode_watched  # type: ignore[method-assign]
    json.JSONDecoder.raw_decode = decode_watched  # type: ignore[method-assign]


def characters(value: Any) -> int:
    """Count those of all texts in a value, each as often as it stands there."""
    if isinstance(value, dict):
        return sum(len(key) + characters(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(characters, value))
    return len(value) if isinstance(value, str) else 0


def _watched(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    def read(*arguments: Any, **named: Any) -> Any:
        note(len(arguments[at]), MAX_SEARCHED)
        return function(*arguments, **named)

    return read


def texts() -> dict[str, str]:
    data = base64.b64encode(random.Random(1).randbytes(400_000)).decode()
    lines = "\n".join(data[at : at + 76] for at in range(0, 400_000, 76))
    return {
        "prose": "the rent of 12 March is EUR 1,250.00, yes; write to a@b.com, see http://x.y/z\n" * 4_000,
        "no blanks": "a" * 300_000, "figures": "1,2 " * 60_000, "ideographs": "é漢 " * 90_000,
        "lines": "\n" * 300_000, "tabs": "\t" * 300_000, "fence": f"```json\n{'x y ' * 60_000}\n```",
        "json": json.dumps({"a": "b c " * 45_000, "items": [{"x": "y" * 3_000} for _ in range(100)]}),
        "base64": data, "base64 in a text": f"look: {data} end", "lines of base64": lines,
        "data url": f"data:image/png;base64,{data}", "percents": f"x data:text/plain,{'%20a' * 70_000}",
        "escapes": "\\n\\u0022 password=\\x22 %3D" * 10_000, "elements": "<password>abc</password>" * 9_000,
        "addresses": "://a:b@" * 40_000, "chat": '[{"type": "text", "text": "a"}]' * 9_000,
        "tags": "<document>" * 25_000, "headings": "# Invoice\nTotal: 12.00\n" * 12_000,
    }  # fmt: skip


def main(store: str) -> None:
    watch()
    import llmeval_sdk as llmeval
    from llmeval_sdk import registry
    from llmeval_sdk.evaluation.scoring import run_heuristic
    from llmeval_sdk.model import Chunk, Extraction, Record

    llmeval.configure(exporters=["local"], store=store, redact=["all"], background_share=1.0)
    heuristics = [
        each for each in map(registry.evaluator, registry.heuristics()) if each.kind == "heuristic"
    ]
    for text in texts().values():

        @llmeval.retrieval
        def retrieve(query: str, text: str = text) -> list[dict[str, str]]:
            return [{"content": text, "doc_uri": "d"}, {"content": text[:50_000], "doc_uri": "e"}]

        @llmeval.tool
        def look_up(arguments: dict[str, str], text: str = text) -> str:
            return text

        @llmeval.llm
        def answer(messages: list[dict[str, str]], text: str = text) -> dict[str, str]:
            return {"role": "assistant", "content": text}

        @llmeval.workflow
        def extract(query: str, text: str = text) -> dict[str, object]:
            retrieve(query)
            answer([{"role": "user", "content": text}])
            return {"value": text, "nothing": None}

        @llmeval.agent
        def act(query: str, text: str = text) -> str:
            look_up({"query": text})
            answer([{"role": "user", "content": query}, {"role": "tool", "content": text}])
            return text

        extract(text)
        act(text)
        chunk = Chunk(text[:190_000], "d")
        values = ("EUR 1,250.00", "12 March 2021", "true", "DE", "Acme Ltt", text[:500])
        for record in (
            Record(request=text, response=text, retrieved_context=(chunk,), expected_response=text),
            Record(
                request="q", value=text[:100_000], retrieved_context=(Chunk(text[:95_000], "d"),)
            ),
            Record(request="q", value=True, retrieved_context=(chunk,)),
            Record(request=text, value={"a": "x", "b": None}, response=text),
            Record(extractions=tuple(Extraction(v, 1) for v in values), retrieved_context=(chunk,)),
        ):
            for heuristic in heuristics:
                run_heuristic(heuristic, record)
    llmeval.flush(100)
    llmeval.shutdown(5)
    print(json.dumps(too_large))


if __name__ == "__main__":
    main(sys.argv[1])
