"""Captured values are what they were at the call, bounded, read without running anyone's code."""

import asyncio
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import inspect
import math
import pathlib
import socket
import threading
import time
import types
import uuid

import numpy
import pydantic
import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk.model.placeholders import Placeholder
from llmeval_sdk.testing import capture as collecting
from llmeval_sdk.tracing._capture import MAX_ITEMS
from llmeval_sdk.tracing.internals import capture


RAN = []
"""Names of user methods that ran on the caller's thread; must stay empty."""


def trap(name):
    def method(self, *args, **kwargs):
        RAN.append(name)
        raise ZeroDivisionError(name)

    return method


METHODS = (
    "__repr__ __str__ __eq__ __hash__ __len__ __bool__ __iter__ __getattr__ __deepcopy__ __copy__ "
    "__reduce__ __format__ __dir__ __contains__ __getitem__ __float__ __int__ __index__ __call__ "
    "items keys values model_dump dict to_dict __json__ __fspath__"
).split()

Trapped = type("Trapped", (), {name: trap(name) for name in METHODS} | {"__hash__": None})
TrappedText = type("TrappedText", (str,), {name: trap(name) for name in METHODS})
TrappedDict = type("TrappedDict", (dict,), {name: trap(name) for name in METHODS})
TrappedList = type("TrappedList", (list,), {name: trap(name) for name in METHODS})
TrappedInt = type("TrappedInt", (int,), {name: trap(name) for name in METHODS})
TrappedFloat = type("TrappedFloat", (float,), {name: trap(name) for name in METHODS})
TrappedError = type("TrappedError", (Exception,), {name: trap(name) for name in METHODS})
TrappedTime = type("TrappedTime", (datetime.datetime,), {"isoformat": trap("isoformat")})


class Everything:
    """Every attribute access runs code."""

    def __getattribute__(self, name):
        RAN.append(name)
        raise ZeroDivisionError


class Disguised:
    @property
    def __class__(self):
        RAN.append("__class__")
        raise ZeroDivisionError


class Meta(type):
    def __getattribute__(cls, name):
        RAN.append(name)
        raise ZeroDivisionError

    def __hash__(cls):
        RAN.append("meta hash")
        raise ZeroDivisionError

    def __eq__(cls, other):
        RAN.append("meta eq")
        raise ZeroDivisionError


class OfMeta(metaclass=Meta):
    pass


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        RAN.append("utcoffset")
        raise ZeroDivisionError


class InterruptingRepr:
    def __repr__(self):
        RAN.append("repr")
        raise KeyboardInterrupt


class SlowRepr:
    def __repr__(self):
        RAN.append("repr")
        time.sleep(2)
        return ""


def cyclic():
    value = []
    value.append(value)
    return value


def widely_cyclic():
    value = {}
    value.update({str(n): value for n in range(1_000)})
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


HOSTILE = {
    "trapped object": Trapped(),
    "trapped text": TrappedText("text"),
    "trapped dict": TrappedDict(a=1),
    "trapped list": TrappedList([1]),
    "trapped int": TrappedInt(7),
    "trapped float": TrappedFloat(7.5),
    "trapped exception": TrappedError("message"),
    "trapped datetime": TrappedTime(2020, 1, 1),
    "raising getattribute": Everything(),
    "raising class": Disguised(),
    "raising metaclass": OfMeta(),
    "class of a raising metaclass": OfMeta,
    "raising tzinfo": datetime.datetime(2020, 1, 1, tzinfo=Zone()),
    "interrupting repr": InterruptingRepr(),
    "slow repr": SlowRepr(),
    "cyclic": cyclic(),
    "widely cyclic": widely_cyclic(),
    "deep": deep(),
    "huge text": "x" * 50_000_000,
    "huge dict": {str(n): "x" * 500 for n in range(100_000)},
    "huge int": 10**20_000,
    "nan": math.nan,
    "lone surrogate": "\ud800",
    "module": types,
    "own module type": types.ModuleType("x"),
    "lock": threading.Lock(),
    "socket": socket.socket(),
    "generator": (n for n in range(3)),
    "function": lambda: 1,
    "coroutine function": asyncio.sleep,
    "memory": memoryview(b"x"),
    "odd keys": {1: "a", None: "b", (1, 2): "c", Trapped: "d"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_runs_no_code_and_costs_no_time(name):
    """Thirty kinds of value are captured with bounded work, and without running their methods."""
    value = HOSTILE[name]
    RAN.clear()
    capture(value)  # the first of a class finds out how it is read
    captured = capture(value)
    calls = calls_of(lambda: capture(value))
    assert RAN == []
    assert calls < 20_000
    assert only_builtins(captured)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_argument_and_result_do_not_disturb_the_call(name):
    """The function gets and returns the very same object, and annotate takes it silently."""
    value = HOSTILE[name]
    RAN.clear()
    with collecting() as seen:

        @llmeval.workflow
        def identity(argument):
            llmeval.annotate(metadata={"value": argument}, response=argument)
            return argument

        returned = identity(value)
        assert returned is value or inspect.isgenerator(value)  # which is followed
        assert RAN == []
        del returned
        seen.drain()
        assert len(seen.spans) == 1


TEXTS = (str, Placeholder)


def only_builtins(value):
    if type(value) is list:
        return all(only_builtins(item) for item in value)
    if type(value) is dict:
        return all(type(k) in TEXTS and only_builtins(v) for k, v in value.items())
    return value is None or type(value) in (*TEXTS, int, float, bool)


@dataclasses.dataclass(slots=True)
class Slotted:
    name: str
    _private: int = 1


@dataclasses.dataclass
class Plain:
    name: str


class Model(pydantic.BaseModel):
    page_content: str
    metadata: dict


class Colour(enum.Enum):
    RED = "red"


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Slotted("a"), {"name": "a"}),
        (Plain("a"), {"name": "a"}),
        (Model(page_content="p", metadata={"k": 1}), {"page_content": "p", "metadata": {"k": 1}}),
        (Colour.RED, "red"),
        (Point(1, 2), {"x": 1, "y": 2}),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.date(2020, 2, 1), "2020-02-01"),
        (datetime.datetime(2020, 2, 1, 3, 4, 5), "2020-02-01T03:04:05"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.Path("a/b"), "a/b"),
        (numpy.float32(0.5), 0.5),
        (numpy.zeros((2, 3)), "<ndarray of shape (2, 3)>"),
        (b"abc", "<bytes of 3 bytes, sha256 ba7816bf8f01cfea>"),
        ({1, 2}, [1, 2]),
        ((1, "a", None, True), [1, "a", None, True]),
    ],
)
def test_well_known_values_are_read(value, expected):
    """Dataclasses, pydantic models, dates, numbers of libraries and the like keep their content."""
    assert capture(value) == expected


def test_a_later_change_is_not_seen():
    """What is captured is what the value was when the call was made."""
    with collecting() as seen:

        @llmeval.workflow
        def change(items):
            items.append("later")
            return items

        change(["first"])
        seen.drain()
    span = seen.span("change")
    assert span.request == {"items": ["first"]}
    assert span.response == ["first", "later"]


def test_what_is_cut_says_so():
    """A text beyond the limit keeps its beginning and says how much is missing."""
    captured = capture("x" * 200_000)
    assert captured.endswith("<truncated 68928 characters>")
    assert len(captured) < 132_000


def test_neighbours_of_a_huge_value_are_kept():
    """One 50 MB argument does not cost the others their place."""
    with collecting() as seen:

        @llmeval.workflow
        def busy(huge, small):
            return "done"

        busy(HOSTILE["huge text"], "small")
        seen.drain()
    span = seen.span("busy")
    assert span.request["small"] == "small"
    assert span.response == "done"


def test_what_comes_as_our_own_nouns_is_captured_too():
    """Tags, chunks, extractions and prompts: bounded, and later changes are not seen."""
    about, value, variables, tags = {"k": "then"}, ["then"], {"q": "then"}, {"tier": "then"}
    with collecting() as seen:
        with llmeval.llm("m", name="n" * 5_000_000, tags=tags) as span:
            span.annotate(
                retrieved_context=[llmeval.Chunk(content="x" * 5_000_000, metadata=about)],
                extractions=[llmeval.Extraction(value=value, chunk_number=1)],
                prompt=llmeval.Prompt(template="{q}", variables=variables),
            )
            size = span.size
        about["k"] = variables["q"] = tags["tier"] = value[0] = "now"
        seen.drain()
    (data,) = seen.spans
    assert 100_000 < size < 2_000_000
    assert len(data.retrieved_context[0].content) < 200_000
    assert len(data.name) == 1_000
    assert data.retrieved_context[0].metadata == {"k": "then"}
    assert data.tags["tier"] == "then"
    assert data.prompt.variables == {"q": "then"}


WIDE = {f"key {n}": n for n in range(200_000)}


@pytest.mark.parametrize(
    "field", ["retrieved_context", "extractions", "request", "metadata", "field_config", "prompt"]
)
@pytest.mark.parametrize("shape", ["alone", "in a list"])
def test_a_mapping_of_200_000_keys_costs_the_app_as_little_as_any(field, shape):
    """Neither capturing nor reading chunks looks at more than the first keys of a wide mapping."""
    value = {**WIDE, "content": "text"} if shape == "alone" else [WIDE, {**WIDE, "content": "text"}]
    calls = []
    with collecting():
        for _ in range(2):  # the first time loads what it needs
            with llmeval.workflow("answer") as span:

                def annotate(span=span):
                    with contextlib.suppress(TypeError):  # for a list that is no mapping
                        span.annotate(**{field: value})

                calls.append(calls_of(annotate))
    assert calls[1] < 20_000


@pytest.mark.parametrize("kind", [llmeval.retrieval, llmeval.workflow])
def test_what_a_function_takes_and_returns_may_be_as_wide(kind):
    """200,000 arguments, named or not, are captured in part, and so is a wide result."""
    names = {f"key_{n}": n for n in range(200_000)}
    taken = []

    @kind
    def wide(*args, **kwargs):
        taken.append((len(args), len(kwargs)))
        return [WIDE]

    with collecting() as seen:
        wide(**names)
        wide(*WIDE)
        seen.drain()
    assert taken == [(0, 200_000), (200_000, 0)]
    for span in seen.spans:
        assert len(span.request or ()) <= MAX_ITEMS + 1
