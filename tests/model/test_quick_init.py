"""The values made at each request are made quickly, and are what their dataclass says."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Record,
    SpanData,
)


CLASSES = (Chunk, Extraction, Record, Evaluation, SpanData, EvaluationEvent)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_field_takes_its_own_value(cls):
    """Each field holds what was passed for it, by position and by name."""
    names = [field.name for field in fields(cls)]
    values = {name: f"value of {name}" for name in names}
    for made in (cls(*values.values()), cls(**values)):
        assert type(made) is cls
        assert {name: getattr(made, name) for name in names} == values
        assert made == cls(**values)
        with pytest.raises(FrozenInstanceError):
            setattr(made, names[0], "x")
        assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == replace(made) == made


@pytest.mark.parametrize("cls", [Chunk, Extraction, Record])
def test_defaults_are_those_of_the_dataclass(cls):
    """A field that is not passed has its default, and one from a factory is made anew."""
    one, other = cls(), cls()
    for field in fields(cls):
        if callable(field.default_factory):
            assert getattr(one, field.name) == field.default_factory()
            assert getattr(one, field.name) is not getattr(other, field.name)
        else:
            assert getattr(one, field.name) == field.default


@pytest.mark.parametrize("cls", CLASSES)
def test_the_signature_stays(cls):
    """Editors and `help` show the fields in order, and what is missing or unknown is an error."""
    assert list(inspect.signature(cls).parameters) == [field.name for field in fields(cls)]
    with pytest.raises(TypeError):
        cls(unknown=1)


def test_a_subclass_is_made_as_before():
    """An app's own subclass with more fields keeps them, and its class."""

    class Mine(Chunk):
        """One without slots."""

    made = Mine("text")
    assert type(made) is Mine
    assert made.content == "text"
