"""The documents: what the Python distributions on this machine say about themselves.

A document is the README that a distribution carries plus the licence and authors files it ships.
Its metadata header (licence, author, Requires-Python, addresses, summary) is not part of the text:
it is the ground truth that `truth` reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from importlib import metadata
from pathlib import PurePosixPath
from typing import cast


CHUNK_CHARACTERS = 900
PAGE_CHARACTERS = 3000
FILE_CHARACTERS = 60_000
_SHIPPED = re.compile(
    r"(licen[cs]e|copying|notice|authors|contributors|maintainers)", re.IGNORECASE
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """One chunk of one file of a document."""

    chunk_id: str
    doc_uri: str
    page: int
    """1-based, counted through all files of the document; a file starts a new page."""
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One distribution: the text to search, in passages, and the header to compare with."""

    package: str
    version: str
    passages: tuple[Passage, ...]
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of the document's text."""
        return "\n\n".join(passage.text for passage in self.passages)


def installed() -> Iterator[Document]:
    """Read every distribution that has a long description, in the order of their names."""
    found: dict[str, metadata.Distribution] = {}
    for each in metadata.distributions():
        try:
            found.setdefault(_key(each.metadata["Name"]), each)
        except (TypeError, KeyError, OSError, UnicodeDecodeError):
            continue  # what an uninstall left behind
    for key in sorted(found.keys() - {"", "llmeval-sdk"}):
        document = _read(found[key])
        if document is not None:
            yield document


def compose(
    package: str,
    files: Iterable[tuple[str, str]],
    *,
    version: str = "0",
    header: Mapping[str, tuple[str, ...]] | None = None,
) -> Document:
    """Cut ``(name, text)`` files into the passages of one document."""
    passages: list[Passage] = []
    page = 1
    for name, text in files:
        uri = f"{package}-{version}/{name}"
        offset = 0
        for number, piece in enumerate(pieces(_COMMENT.sub("", text)[:FILE_CHARACTERS])):
            here = page + offset // PAGE_CHARACTERS
            passages.append(Passage(f"{uri}#{number}", uri, here, piece))
            offset += len(piece)
        page += 1 + max(offset - 1, 0) // PAGE_CHARACTERS
    return Document(package, version, tuple(passages), header or {})


def pieces(text: str, size: int = CHUNK_CHARACTERS) -> Iterator[str]:
    """Pack whole paragraphs into pieces of at most ``size`` characters, cutting only long ones."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", text):
        for part in _cut(paragraph.strip("\n"), size):
            if held and len(held) + len(part) + 2 > size:
                yield held
                held = part
            else:
                held = f"{held}\n\n{part}" if held else part
    if held.strip():
        yield held


def _cut(paragraph: str, size: int) -> Iterator[str]:
    while len(paragraph) > size:
        end = max(paragraph.rfind("\n", 0, size), paragraph.rfind(". ", 0, size) + 1)
        end = end if end > size // 3 else paragraph.rfind(" ", size // 3, size)
        end = end if end > 0 else size
        yield paragraph[:end].strip()
        paragraph = paragraph[end:].lstrip()
    if paragraph.strip():
        yield paragraph


def _read(found: metadata.Distribution) -> Document | None:
    # Typed as a protocol, and in fact an email message: the body is the long description.
    message = cast("Message", found.metadata)
    readme = str(message.get_payload() or message.get("Description") or "")
    if len(readme.strip()) < 200:
        return None
    header: dict[str, tuple[str, ...]] = {}
    for key, value in message.items():
        if key != "Description":
            header[key.lower()] = (*header.get(key.lower(), ()), str(value))
    files = [("README", readme), *_shipped(found)]
    return compose(found.name, files, version=found.version, header=header)


def _shipped(found: metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Yield licence and authors files of the distribution itself, not of code bundled with it."""
    for file in sorted(found.files or [], key=str):
        folder = PurePosixPath(str(file)).parent.as_posix()
        own = re.fullmatch(r"[^/]+\.dist-info(/licenses)?", folder)
        if own and _SHIPPED.match(file.name):
            try:
                yield file.name, file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue


def _key(name: str | None) -> str:
    return re.sub(r"[-_.]+", "-", name or "").lower()
