"""The demo's small app: what it reads, what its rules take, and how answers are graded."""

from __future__ import annotations

from email.message import Message

import pytest

from llmeval_sdk.model import Record
from llmeval_sdk.plugins.demo.app import (
    FIELDS,
    Key,
    compose,
    documents,
    grader,
    keys,
    outcome,
    search,
    truths,
    vote,
)


GRANT = "Permission is hereby granted, free of charge, to any person obtaining a copy."


def header(**lines):
    """Return a metadata header; an underscore in a name stands for a dash."""
    message = Message()
    for name, value in lines.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.fixture(scope="module")
def teapot():
    """A document that states all that its header says."""
    about = header(
        License_Expression="MIT OR Apache-2.0", Author_Email="Ada Brew <ada@brew.example>",
        Project_URL="Source, https://github.com/Kettle/teapot.git",
    )  # fmt: skip
    readme = "# teapot\n\nBrews tea.\n\n" + "\n\n".join(
        f"## Recipe {number}\n\n" + "Leaves, water and patience. " * 20 for number in range(9)
    )
    readme += "\n\nThe source is at https://github.com/kettle/teapot, issues too."
    files = {"README": readme, "LICENSE": f"MIT License\n\nCopyright (c) 2021 Ada Brew\n\n{GRANT}"}
    return compose("teapot", about, files)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("license", "Licensed under the Apache License, Version 2.0", "Apache-2.0"),
        ("license", GRANT, "MIT"),
        ("license", "All rights reserved.", None),
        ("author", "Copyright (c) 2014, 2019-present Ada Brew <a@b.example>", "Ada Brew"),
        ("author", "Copyright 2020 the copyright holders", None),
        ("repository", "Clone https://github.com/Kettle/Teapot.git", "https://github.com/kettle/teapot"),
        ("repository", "See https://github.com/sponsors/kettle", None),
    ],
)  # fmt: skip
def test_a_rule_takes_what_stands_there_or_nothing(field, text, value):
    """With the words that it was taken from."""
    taken = FIELDS[field].rule(text)
    assert (taken and taken[0]) == value
    assert taken is None or 0 < taken[1] <= 1


def test_the_header_is_the_truth(teapot):
    """In the form in which answers are compared; a field that it leaves out is not asked."""
    assert truths("author", teapot) == ("ada brew",)
    assert truths("repository", teapot) == ("https://github.com/kettle/teapot",)
    silent = compose("samovar", header(License="BSD"), {"README": "Samovar boils."})
    assert [key.field for key in keys([silent], list(FIELDS))] == ["license"]


def test_a_passage_that_can_answer_is_found_first(teapot):
    """Passages that hold nothing of the kind are left out, and counted."""
    chunks, total = search(teapot, FIELDS["repository"])
    assert "github.com/kettle" in chunks[0]["content"]
    assert 0 < len(chunks) <= total <= len(teapot.passages)
    assert all(0 < chunk["score"] <= 1 for chunk in chunks)


@pytest.mark.parametrize(
    ("confidences", "expected"),
    [
        ([("MIT", 0.9), ("MIT", 0.9), ("BSD", 0.3)], ("MIT", "HIGH")),
        ([("MIT", 0.9), ("BSD", 0.8)], ("MIT", "MEDIUM")),
        ([], (None, "LOW")),
    ],
)
def test_equal_values_vote_together(confidences, expected):
    """The best has the most confidence; how sure that makes us is its share."""
    assert vote("license", [{"value": v, "confidence": c} for v, c in confidences]) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("Ada Brew", "right"), ("Ada Mary Brew", "right"), ("Ada", "wrong"), (None, "none")],
)
def test_each_answer_has_one_outcome(teapot, value, expected):
    """A name may be longer than the header has it, and one word of it is not enough."""
    key = Key(teapot, "author", ("ada brew",))
    assert outcome(key, value) == expected
    record = Record(value=value, field_config={"name": "author"}, attributes={"package": "teapot"})
    said = grader([key]).evaluate(record)
    assert (said.value, said.explanation) == (expected, "header: ada brew")
    assert grader([key]).evaluate(Record(field_config={"name": "license"})) is None


def test_what_is_installed_is_read():
    """Each distribution with a README once, in the order of their names."""
    names = [document.package for document in documents()]
    assert names == sorted(set(names))
    assert "pytest" in names
    assert "llmeval-inprocess" not in names
