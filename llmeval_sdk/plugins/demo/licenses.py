"""Licences by their SPDX identifier: the names people write, and words only that text holds."""

from __future__ import annotations

import re


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


def named(text: str) -> str | None:
    """Return the licence whose name stands first in the text."""
    found = ((match.start(), -len(match[0]), spdx) for spdx, match in _matches(NAMES, text))
    return min(found, default=(0, 0, None))[2]


def worded(text: str) -> tuple[str, str] | None:
    """Return the licence whose own wording the text holds, and that wording."""
    plain = " ".join(text.split())
    return next(((spdx, match[0]) for spdx, match in _matches(WORDING, plain)), None)


def holds(text: str, spdx: str) -> bool:
    """Say whether the text names this licence or holds its wording."""
    plain = " ".join(text.split())
    return any(table[spdx].search(plain) is not None for table in (NAMES, WORDING) if spdx in table)


def alternatives(text: str) -> tuple[str, ...]:
    """Read a licence field: every identifier that one may choose, the first of those that add up.

    ``MIT OR Apache-2.0`` gives both, ``BSD-3-Clause AND MIT`` the first: the package's own terms
    stand before those of what it bundles.
    """
    found: list[str] = []
    for choice in re.split(r"\bOR\b|/|;", text):
        spdx = named(re.split(r"\bAND\b", choice)[0].replace("-only", "").replace("-or-later", ""))
        if spdx and spdx not in found:
            found.append(spdx)
    return tuple(found)


def _matches(table: dict[str, re.Pattern[str]], text: str) -> list[tuple[str, re.Match[str]]]:
    found = ((spdx, pattern.search(text)) for spdx, pattern in table.items())
    return [(spdx, match) for spdx, match in found if match]
