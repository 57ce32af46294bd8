"""The documents that stand in a prompt, for answers of which nothing was retrieved.

Many apps put the document into the prompt and get JSON back. Of the messages of users, tools and
files these parts are documents, by the first rule that applies:

1. what stands between the tags of an element, such as ``<document>…</document>``,
2. a block in a code fence or between triple quotes,
3. what follows a heading such as ``Document:`` or ``## Invoice``, up to the end of the message,
4. a message, or a part of one, of at least `MIN_LONG` characters.

What a system message says is never a document, nor is an element, block or heading whose name says
that it instructs, nor a JSON schema: they name every field and every unit. An app that knows better
annotates ``retrieved_context``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from llmeval_sdk.model._nouns import Chunk, Record
from llmeval_sdk.model.chat import content_of, messages_of, role_of, text_of, unwrapped
from llmeval_sdk.process.pieces import find_all


MIN_LONG = 400
"""A message without any marks is a document if it has at least so many characters."""
_MIN_MARKED = 20
"""A marked part with fewer characters is a placeholder, or the form of the answer."""
MAX_DOCUMENTS = 50
MAX_TEXT = 200_000
"""Characters of a prompt that are read."""
_READ = frozenset(("user", "human", "tool", "function", "file", "document", "tool_result"))
_MAX_SEARCHED = 50

_TAG = re.compile(r"<([A-Za-z][\w-]{0,30})((?:\s[^<>]{0,200})?)>")
_NAME = re.compile(r"""(?:name|title|id|src|source|filename|uri)\s*=\s*["']([^"'<>]{1,200})["']""")
_BLOCK_BEGINS = re.compile(r"```([\w-]{0,20})[^\n`]{0,80}\n|\"\"\"")
_HEADING = re.compile(
    r"^(?:#{1,4}[ \t]+([^\n]{2,60})\n|[*_]{0,2}([\w' -]{3,60}):[*_]{0,2}[ \t\n])", re.MULTILINE
)
_DOCUMENT = re.compile(
    r"\b(?:document|text|context|passage|invoice|receipt|contract|e-?mail|letter|article|order"
    r"|statement|report|source|content|file|page|bill|agreement)s?\b",
    re.IGNORECASE,
)
_INSTRUCTS = re.compile(
    r"instruct|schema|rule|format|output|example|guideline|task|question|query|field|system|think"
    r"|tool|role|note|prompt|definition|json|answer|response",
    re.IGNORECASE,
)


_SHOWS_FORM = re.compile(r"schema|format|example|output|respond|return|answer", re.IGNORECASE)
"""Words in the line before a block that shows the form of the answer."""


def sources_of(record: Record) -> tuple[Chunk, ...] | None:
    """Return the passages that an answer may have been taken from.

    They are the retrieved chunks, or the documents in the request if nothing was retrieved;
    ``None`` if there are neither.
    """
    if record.retrieved_context is not None:
        return record.retrieved_context
    return documents_of(record.request) or None


def documents_of(request: object) -> tuple[Chunk, ...]:
    """Return the documents that stand in a request, by the rules of this module."""
    if isinstance(request, str):
        return _documents(request[:MAX_TEXT])
    messages = messages_of(request) or ()
    documents: list[Chunk] = []
    room = MAX_TEXT
    for message in messages[-_MAX_SEARCHED:]:
        if not isinstance(message, Mapping) or role_of(unwrapped(message)) not in _READ:
            continue
        content = content_of(unwrapped(message))
        for part in content if isinstance(content, (list, tuple)) else (content,):
            text = text_of(part)
            if text and room > 0:
                documents += _documents(text[:room])
                room -= len(text)
    return tuple(documents[:MAX_DOCUMENTS])


@lru_cache(maxsize=32)  # several scores of one record ask
def _documents(text: str) -> tuple[Chunk, ...]:
    if len(text) < _MIN_MARKED:
        return ()
    for rule in (_tagged, _fenced, _headed):
        documents = tuple(rule(text))
        if documents:
            return documents
    return (Chunk(text),) if len(text) >= MIN_LONG else ()


def _tagged(text: str) -> Iterator[Chunk]:
    """Yield what stands in elements; of one in another, the outer one counts."""
    end = 0
    unclosed: set[str] = set()
    for tag in find_all(_TAG, text):
        name, attributes = tag.groups()
        if tag.start() < end or name in unclosed or _INSTRUCTS.search(name):
            continue
        close = text.find(f"</{name}>", tag.end())
        if close < 0:
            unclosed.add(name)
            continue
        inner = text[tag.end() : close].strip()
        if len(inner) >= _MIN_MARKED and not _is_schema(inner):
            named = _NAME.search(attributes)
            end = close
            yield Chunk(inner, named[1] if named else None)


def _fenced(text: str) -> Iterator[Chunk]:
    done = 0
    for block in find_all(_BLOCK_BEGINS, text):
        if block.start() < done:
            continue
        mark, language = block[0][:3], block[1]
        begin = block.end()
        close = text.find(mark, begin if mark == "```" else begin + 1)
        if close < 0 and mark != "```":
            continue  # quotation marks that are not closed quote nothing
        inner = text[begin : close if close >= 0 else len(text)].strip()
        done = close + len(mark) if close >= 0 else len(text)
        before = text[max(0, block.start() - 80) : block.start()].rstrip().rsplit("\n", 1)[-1]
        if (
            len(inner) >= _MIN_MARKED
            and not _is_schema(inner)
            and not _SHOWS_FORM.search(before)
            and not _INSTRUCTS.search(language or "")
        ):
            yield Chunk(inner)


def _headed(text: str) -> Iterator[Chunk]:
    """Yield what follows the first heading of a document, up to one that instructs."""
    begin: int | None = None
    end = len(text)
    for heading in find_all(_HEADING, text):
        title, name = heading.groups()
        instructs = _INSTRUCTS.search(title or name) is not None
        if begin is None:
            if not instructs and (title or _DOCUMENT.search(name)):
                begin = heading.end()
        elif instructs and title:
            end = heading.start()
            break
    inner = text[begin:end].strip() if begin is not None else ""
    if len(inner) >= _MIN_MARKED and not _is_schema(inner):
        yield Chunk(inner)


def _is_schema(text: str) -> bool:
    """Return whether a text is a JSON schema, which names the fields and has no values."""
    return text[:1] in "{[" and '"type"' in text and ('"properties"' in text or '"string"' in text)
