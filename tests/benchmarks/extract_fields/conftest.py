"""Two small invented documents, and what their headers say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


sys.path.append(str(Path(__file__).parents[3] / "examples"))

from extract_fields.documents import compose


GRANT = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this\n"
    "software, to use it as they like."
)

TEAPOT = compose(
    "teapot",
    [
        (
            "README",
            "# teapot\n\nTeapot is a library that brews tea on a schedule.\n\n"
            "Documentation: https://teapot.readthedocs.io/en/latest/\n\n"
            "## Install\n\nteapot requires Python 3.9 or later.\n\n"
            "## Contributing\n\nThe source is at https://github.com/kettle/teapot, issues too.\n"
            + "\n\n".join(
                f"## Recipe {n}\n\n" + "Leaves, water and patience. " * 20 for n in range(9)
            ),
        ),
        (
            "LICENSE",
            f"MIT License\n\nCopyright (c) 2021-present Ada Brew <ada@brew.example>\n\n{GRANT}",
        ),
    ],
    version="1.2",
    header={
        "license-expression": ("MIT OR Apache-2.0",),
        "author-email": ("Ada Brew <ada@brew.example>",),
        "requires-python": (">=3.9",),
        "project-url": (
            "Source, https://github.com/Kettle/teapot.git",
            "Documentation, https://teapot.readthedocs.io",
        ),
        "summary": ("Brews tea on a schedule",),
    },
)

SAMOVAR = compose(
    "samovar",
    [("README", "Samovar boils. " * 30)],
    header={"license": ("BSD",), "requires-python": (">=3.12",), "author": ("Ivan Samov",)},
)


@pytest.fixture(scope="session")
def teapot():
    """A document that states everything its header says."""
    return TEAPOT


@pytest.fixture(scope="session")
def samovar():
    """A document that states nothing of it."""
    return SAMOVAR


@pytest.fixture(scope="session")
def grant():
    """Words that only the MIT licence has."""
    return GRANT
