"""The ground truth of each field, from the metadata header, and how an answer compares with it.

Several answers can be right: each licence of an ``OR``, each author. Answers are compared in a
normal form, so that spelling does not decide. `grader` makes an evaluator of it, as an app would
with ``@llmeval.heuristic``: it runs in the worker on every record, and what it says is delivered,
stored and reported beside the built-in scores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import getaddresses

from extract_fields.documents import Document
from extract_fields.search import words

import llmeval_sdk as llmeval
from llmeval_sdk.model.protocols import Heuristic


_NAMES = {
    "Apache-2.0": r"apache[ -](software )?licen[cs]e,? ?\(?(version |v)?2(\.0)?|apache[- ]?2(\.0)?",
    "MPL-2.0": r"mozilla public licen[cs]e,? ?\(?(version |v)?2(\.0)?|mpl[- ]?v?2(\.0)?",
    "AGPL-3.0": r"(gnu )?affero general public licen[cs]e|agpl[- ]?v?3",
    "LGPL-3.0": r"(gnu )?lesser general public licen[cs]e,? (version |v)?3|lgpl[- ]?v?3",
    "LGPL-2.1": r"(gnu )?lesser general public licen[cs]e,? (version |v)?2|lgpl[- ]?v?2",
    "GPL-3.0": r"(?<!lesser )(?<!affero )general public licen[cs]e,? (version |v)?3|\bgpl[- ]?v?3",
    "GPL-2.0": r"(?<!lesser )(?<!affero )general public licen[cs]e,? (version |v)?2|\bgpl[- ]?v?2",
    "BSD-2-Clause": r"bsd[- ]?2[- ]clause|2[- ]clause bsd|(simplified|freebsd) (bsd )?licen[cs]e",
    "BSD-3-Clause": r"bsd[- ]?3[- ]clause|3[- ]clause bsd|(new|modified) bsd( licen[cs]e)?",
    "PSF-2.0": r"python software foundation licen[cs]e|psf[- ]?(2\.0|licen[cs]e)",
    "ISC": r"\bisc licen[cs]e|\bisc\b(?= licen)",
    "Unlicense": r"\bunlicense\b",
    "Zlib": r"\bzlib(/libpng)? licen[cs]e",
    "MIT": r"\bmit\b([ -]licen[cs]ed?)?|\bexpat licen[cs]e",
    "BSD": r"\bbsd\b( licen[cs]ed?| style)?",
}
_WORDING = {
    "MIT": r"permission is hereby granted, free of charge, to any person",
    "BSD-3-Clause": r"neither the name .{0,120}? may be used to endorse",
    "BSD-2-Clause": r"redistribution and use in source and binary forms",
    "Apache-2.0": r"apache license version 2\.0, january 2004|licensed under the apache license",
    "MPL-2.0": r"mozilla public license version 2\.0|terms of the mozilla public license, v\. 2\.0",
    "PSF-2.0": r"python software foundation license version 2",
    "ISC": r"permission to use, copy, modify, and/or distribute this software for any purpose",
    "Unlicense": r"this is free and unencumbered software",
}
NAMES = {spdx: re.compile(pattern, re.IGNORECASE) for spdx, pattern in _NAMES.items()}
WORDING = {spdx: re.compile(pattern, re.IGNORECASE) for spdx, pattern in _WORDING.items()}


def license_named(text: str) -> str | None:
    """Return the licence whose name stands first in the text."""
    found = ((match.start(), -len(match[0]), spdx) for spdx, match in _matches(NAMES, text))
    return min(found, default=(0, 0, None))[2]


def license_worded(text: str) -> tuple[str, str] | None:
    """Return the licence whose own wording the text holds, and that wording."""
    plain = " ".join(text.split())
    return next(((spdx, match[0]) for spdx, match in _matches(WORDING, plain)), None)


def _holds_license(text: str, spdx: str) -> bool:
    """Say whether the text names this licence or holds its wording."""
    plain = " ".join(text.split())
    return any(table[spdx].search(plain) is not None for table in (NAMES, WORDING) if spdx in table)


def license_alternatives(text: str) -> tuple[str, ...]:
    """Read a licence field: every identifier that one may choose, the first of those that add up.

    ``MIT OR Apache-2.0`` gives both, ``BSD-3-Clause AND MIT`` the first: the package's own terms
    stand before those of what it bundles.
    """
    found: list[str] = []
    for choice in re.split(r"\bOR\b|/|;", text):
        spdx = license_named(
            re.split(r"\bAND\b", choice)[0].replace("-only", "").replace("-or-later", "")
        )
        if spdx and spdx not in found:
            found.append(spdx)
    return tuple(found)


def _matches(table: dict[str, re.Pattern[str]], text: str) -> list[tuple[str, re.Match[str]]]:
    found = ((spdx, pattern.search(text)) for spdx, pattern in table.items())
    return [(spdx, match) for spdx, match in found if match]


HOSTS = r"(?:github|gitlab|bitbucket|codeberg)\.(?:com|org)"
_LABELS = {
    "repository": re.compile(r"source|repo|code|github|home", re.IGNORECASE),
    "documentation": re.compile(r"doc", re.IGNORECASE),
}


def truths(field: str, document: Document) -> tuple[str, ...]:
    """Return every right answer that the header gives; empty where it is silent."""
    header = document.header
    if field == "license":
        return _license(document)
    if field == "author":
        return _people(document)
    if field == "minimum_python":
        lowest = re.search(r">=?\s*(\d+\.\d+)", " ".join(header.get("requires-python", ())))
        return (lowest[1],) if lowest else ()
    if field == "summary":
        return tuple(line for line in header.get("summary", ()) if len(_content(line)) >= 3)
    return _addresses(field, document)


def right(field: str, answer: str | None, accepted: Sequence[str]) -> bool:
    """Say whether an answer is one of the accepted ones, spelling aside."""
    if not answer:
        return False
    return any(_same(field, answer, truth) for truth in accepted)


def stated(field: str, document: Document, accepted: Sequence[str]) -> bool:
    """Say whether the document's text holds an accepted answer at all, found or not.

    Looked up in the whole text by the answer itself, so that it does not depend on the rules that
    extract: a wrong answer to an unstated question is no fault of the retrieval.
    """
    text = document.text
    if field == "license":
        return any(_holds_license(text, spdx) for spdx in accepted)
    if field == "author":
        return any(f" {_plain(name)} " in f" {_plain(text)} " for name in accepted)
    if field == "minimum_python":
        near = r"python[^\n]{{0,60}}?(?<![\d.]){}(?![\d])"
        return any(re.search(near.format(re.escape(v)), text, re.IGNORECASE) for v in accepted)
    if field == "summary":
        return any(
            right(field, sentence, accepted)
            for passage in document.passages
            for sentence in sentences(passage.text)
        )
    bare = (re.escape(normal(field, address).removeprefix("https://")) for address in accepted)
    return any(re.search(rf"{address}(?![\w-])", text, re.IGNORECASE) for address in bare)


def normal(field: str, value: str) -> str:
    """Bring a value to the form in which two spellings of one thing are equal."""
    if field == "author":
        return " ".join(_name_words(value))
    if field == "repository":
        found = re.search(rf"({HOSTS})/([\w.-]+)/([\w.-]+)", value, re.IGNORECASE)
        return (
            f"https://{found[1]}/{found[2]}/{found[3].removesuffix('.git')}".lower()
            if found
            else ""
        )
    if field == "documentation":
        bare = re.sub(r"^https?://(www\.)?|[?#].*", "", value.strip()).lower()
        tail = r"(/(en|latest|stable|dev|main|master|index\.html?))*/?$"
        return "https://" + re.sub(tail, "", bare)
    return value.strip()


def sentences(text: str) -> list[str]:
    """Split running text into sentences, without markup, images, headings and code."""
    plain = re.sub(
        r"!\[[^\]]{0,300}\]\([^)]{0,300}\)|<[^>]{1,300}>|^\.\. .*(\n +\S.*)*",
        " ",
        text,
        flags=re.MULTILINE,
    )
    plain = re.sub(
        r"\[([^\]]{0,300})\](?:\([^)]{0,300}\)|\[[^\]]{0,300}\])"
        r"|`{1,3}([^`<]{0,300}?)( <[^>]{0,300}>)?`{1,3}_{0,2}",
        r"\1\2",
        plain,
    )
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", plain):
        lines = [
            li for li in paragraph.splitlines() if not re.match(r"\s*(#|>>>|\$|[=~^*-]{3})", li)
        ]
        joined = re.sub(r"[*_]{2}|^[\s>*-]+", "", " ".join(" ".join(lines).split()))
        found += [s for s in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'])", joined) if s.strip()]
    return found


def _same(field: str, answer: str, truth: str) -> bool:
    mine, theirs = normal(field, answer), normal(field, truth)
    if field == "license":
        return mine == theirs or (theirs == "BSD" and mine.startswith("BSD-"))
    if field == "author":
        fewer, more = sorted((set(mine.split()), set(theirs.split())), key=len)
        return bool(mine) and (mine == theirs or (len(fewer) > 1 and fewer <= more))
    if field == "documentation":
        return mine == theirs or mine.startswith(theirs + "/") or theirs.startswith(mine + "/")
    if field == "summary":
        wanted = _content(truth)
        return len(wanted & _content(answer)) >= 0.5 * len(wanted) and len(words(answer)) <= 40
    return bool(mine) and mine == theirs


def _content(sentence: str) -> set[str]:
    """Return the words that say something: every package here is a Python package."""
    return set(words(sentence)) - {"python", "package", "library"}


def _license(document: Document) -> tuple[str, ...]:
    header = document.header
    for text in (*header.get("license-expression", ()), *header.get("license", ())):
        found = license_alternatives(text) if len(text) < 100 else ()
        if found:
            return found
    marks = [c.split("::")[-1] for c in header.get("classifier", ()) if c.startswith("License")]
    found = tuple(spdx for mark in marks for spdx in license_alternatives(mark))
    return tuple(dict.fromkeys(found))


def _people(document: Document) -> tuple[str, ...]:
    names: list[str] = []
    for key in ("author", "maintainer"):
        names += re.split(r",| and |&|;", ", ".join(document.header.get(key, ())))
        names += [
            part
            for name, _ in getaddresses(list(document.header.get(f"{key}-email", ())))
            for part in re.split(r",| and |&", name)
        ]
    clean = [name.strip(" '\"()") for name in names if "@" not in name]
    return tuple(dict.fromkeys(name for name in clean if _name_words(name)))


def _name_words(text: str) -> list[str]:
    """Return a name's words without accents, titles and the likes of "and contributors"."""
    empty = {"and", "the", "et", "al", "inc", "llc", "ltd", "contributors", "authors", "others"}
    return [word for word in _plain(text).split() if word not in empty]


def _plain(text: str) -> str:
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(re.findall(r"[^\W\d_]+", bare.lower()))


def _addresses(field: str, document: Document) -> tuple[str, ...]:
    header = document.header
    labelled = [line.partition(",")[::2] for line in header.get("project-url", ())]
    labelled += [("home", line) for line in header.get("home-page", ())]
    found = [
        address.strip()
        for label, address in labelled
        if _LABELS[field].search(label) and (field != "documentation" or "change" not in label)
    ]
    if field == "documentation" and not found:
        # A home page on a documentation host is the documentation.
        found = [a for _, a in labelled if re.search(r"//docs?\.|readthedocs", a)]
    return tuple(a for a in dict.fromkeys(found) if normal(field, a).removeprefix("https://"))


OUTCOMES = {
    "right": "answered as the header does",
    "wrong": "the text states it, another answer was given",
    "missed": "the text states it, no answer was given",
    "abstained": "the text is silent, and so was the app",
    "invented": "the text is silent, an answer was given all the same",
}


@dataclass(frozen=True, slots=True)
class Key:
    """The right answers to one field of one document."""

    package: str
    field: str
    accepted: tuple[str, ...]
    stated: bool
    """Whether the document's text holds one of them."""


def keys(documents: Iterable[Document], fields: Iterable[str]) -> list[Key]:
    """Read the ground truth; a field that a header leaves out is not asked of that document."""
    wanted = tuple(fields)
    return [
        Key(document.package, field, accepted, stated(field, document, accepted))
        for document in documents
        for field in wanted
        if (accepted := truths(field, document))
    ]


def outcome(key: Key, value: object) -> str:
    """Sort an answer into one of `OUTCOMES`."""
    if right(key.field, value if isinstance(value, str) else None, key.accepted):
        return "right"
    if key.stated:
        return "wrong" if value else "missed"
    return "invented" if value else "abstained"


def grader(answers: Iterable[Key]) -> Heuristic:
    """Make the evaluator that knows the ground truth."""
    known: Mapping[tuple[str, str], Key] = {(key.package, key.field): key for key in answers}

    @llmeval.heuristic(needs=["field_config"], automatic=False)
    def against_header(record: llmeval.Record) -> llmeval.Evaluation | None:
        field = (record.field_config or {}).get("name", "")
        key = known.get((record.attributes.get("package", ""), field))
        if key is None:
            return None
        expected = " or ".join(key.accepted[:3])
        return llmeval.Evaluation(
            "against_header", outcome(key, record.value), explanation=f"header: {expected}"[:300]
        )

    return against_header
