"""What the demo reads and asks: the documents of this machine, and the fields to find in them.

A document is the README that an installed Python distribution carries, plus the licence and authors
files that it ships. Its metadata header (licence, author, Requires-Python, addresses, summary) is
not part of the text: it is the ground truth that `grading` reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from importlib import metadata
from pathlib import PurePosixPath
from typing import cast


@dataclass(frozen=True, slots=True)
class Field:
    """One question asked of every document."""

    name: str
    question: str
    """The question for people and judges; ``{package}`` is the document's name."""
    search: str
    """What both retrievers search the document for."""
    holds: re.Pattern[str]
    """What a passage has to hold to be able to answer at all; the rest is filtered out."""
    description: str
    """What a good value is, for people and for judges."""
    format: str | None = None
    """Regular expression a value has to match."""

    def config(self) -> dict[str, str]:
        """Describe the field to the SDK, as ``annotate(field_config=...)`` takes it."""
        known = {"name": self.name, "description": self.description}
        return known | ({"format": self.format} if self.format else {})


FIELDS = {
    field.name: field
    for field in (
        Field(
            "license",
            "Which license is {package} distributed under?",
            "license licensed under permission granted copyright redistribution terms",
            re.compile(r"licen[cs]e|permission|redistribution|public domain", re.IGNORECASE),
            "SPDX identifier of the license the package is distributed under",
        ),
        Field(
            "author",
            "Who wrote or maintains {package}?",
            "copyright (c) by author maintainer all rights reserved",
            re.compile(
                r"copyright\s+(\(c\)|©|&copy;|\d{4})|\bauthors?\b\s*[:\n]"
                r"|(maintained|created|written|developed) by",
                re.IGNORECASE,
            ),
            "Name of a person or organisation that wrote or maintains the package",
        ),
        Field(
            "minimum_python",
            "What is the lowest Python version that {package} runs on?",
            "requires supports python version 3 or later above compatibility",
            re.compile(r"python[^\n]{0,80}\d\.\d|\d\.\d[^\n]{0,40}python", re.IGNORECASE),
            "Lowest Python version the package runs on, as major.minor",
            r"\d\.\d{1,2}",
        ),
        Field(
            "repository",
            "Where is the source code of {package}?",
            "source code github repository issues contributing bug report pull request",
            re.compile(r"(github|gitlab|bitbucket|codeberg)\.(com|org)/\w", re.IGNORECASE),
            "Address of the source code repository",
            r"https://[\w.-]+/\S+",
        ),
        Field(
            "documentation",
            "Where is the documentation of {package}?",
            "documentation docs readthedocs user guide manual tutorial",
            re.compile(
                r"\bdoc(s|umentation)?\b[^\n]{0,80}https?://|https?://\S{0,200}doc", re.IGNORECASE
            ),
            "Address of the documentation",
            r"https://[\w.-]+\S*",
        ),
        Field(
            "summary",
            "What is {package} for?",
            "{package} is a python library package tool framework that provides for",
            re.compile(
                r"\b(is|are|provides?|library|package|tool|framework|module)\b", re.IGNORECASE
            ),
            "One sentence that says what the package is for",
        ),
    )
}


CHUNK_CHARACTERS = 900
PAGE_CHARACTERS = 3000
FILE_CHARACTERS = 60_000
_SHIPPED = re.compile(
    r"(licen[cs]e|copying|notice|authors|contributors|maintainers)", re.IGNORECASE
)
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentChunk:
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
    passages: tuple[DocumentChunk, ...]
    header: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of the document's text."""
        return "\n\n".join(passage.text for passage in self.passages)


def installed() -> Iterator[Document]:
    """Read every distribution that has a long description, in the order of their names."""
    distributions: dict[str, metadata.Distribution] = {}
    for each in metadata.distributions():
        try:
            distributions.setdefault(_key(each.metadata["Name"]), each)
        except (TypeError, KeyError, OSError, UnicodeDecodeError):
            continue  # what an uninstall left behind
    for key in sorted(distributions.keys() - {"", "llmeval-inprocess"}):
        document = _read(distributions[key])
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
    passages: list[DocumentChunk] = []
    page = 1
    for name, text in files:
        uri = f"{package}-{version}/{name}"
        offset = 0
        for number, piece in enumerate(pieces(_COMMENT.sub("", text)[:FILE_CHARACTERS])):
            here = page + offset // PAGE_CHARACTERS
            passages.append(DocumentChunk(f"{uri}#{number}", uri, here, piece))
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


def _read(distribution: metadata.Distribution) -> Document | None:
    # Typed as a protocol, and in fact an email message: the body is the long description.
    message = cast("Message", distribution.metadata)
    readme = str(message.get_payload() or message.get("Description") or "")
    if len(readme.strip()) < 200:
        return None
    header: dict[str, tuple[str, ...]] = {}
    for key, value in message.items():
        if key != "Description":
            header[key.lower()] = (*header.get(key.lower(), ()), str(value))
    files = [("README", readme), *_shipped(distribution)]
    return compose(distribution.name, files, version=distribution.version, header=header)


def _shipped(distribution: metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Yield licence and authors files of the distribution itself, not of code bundled with it."""
    for file in sorted(distribution.files or [], key=str):
        folder = PurePosixPath(str(file)).parent.as_posix()
        own = re.fullmatch(r"[^/]+\.dist-info(/licenses)?", folder)
        if own and _SHIPPED.match(file.name):
            try:
                yield file.name, file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue


def _key(name: str | None) -> str:
    return re.sub(r"[-_.]+", "-", name or "").lower()
