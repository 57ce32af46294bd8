"""The names that are sent, compared with those of OpenTelemetry and of the backends that read them."""

import re
from functools import cache
from pathlib import Path

import conventions
import pytest
import surface

from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import attributes_of
from llmeval_sdk.model import SpanData


TABLE = conventions.table()
sent_by = cache(conventions.sent)
EMITTERS = [
    "core",
    "app",
    pytest.param("langfuse", marks=pytest.mark.plugin("langfuse")),
    pytest.param("watch", marks=pytest.mark.plugin("watch")),
]


@pytest.mark.parametrize("emitter", EMITTERS)
def test_conventions_have_every_name_that_is_not_our_own(emitter):
    """A name without ``llmeval.`` is known, and a deprecated one has a reason to be sent."""
    sent, _ = sent_by(emitter)
    assert conventions.wrong({name for _, name in sent}, TABLE) == {}


def names_in_files():
    return {name for names in surface.exported_attributes().values() for name in names}


def test_conventions_have_every_name_in_exported_files():
    """Files name more than requests do: what an import needs to tell records apart."""
    assert conventions.wrong(names_in_files(), TABLE) == {}


def test_every_name_that_the_code_has_is_compared():
    """None is left out because no app of these tests makes it be sent."""
    source = Path(names.__file__).read_text().partition("# -- spans: gen_ai")[2]
    constants = re.findall(r"^(\w+): Final = \"", source, re.MULTILINE)
    wire = {getattr(names, constant) for constant in constants}
    wire = {name for name in wire if "." in name or name == names.METADATA}
    wire |= {*names.NAME_OF.values(), names.TAG + names.JUDGE_TAG}
    sent = {name for _, name in sent_by("core")[0]} | names_in_files()
    left_out = SpanData(
        "ab" * 16, "cd" * 8, None, "answer", "task", 0, 1, inclusion_probability=0.5
    )
    sent |= attributes_of(left_out).keys()  # no app of these tests has more than it can work off
    unseen = {
        name
        for name in wire - sent
        if not (name.endswith(".") and any(one.startswith(name) for one in sent))
    }
    assert unseen == set()


def test_every_deprecated_name_with_a_reason_is_sent():
    """A reason is removed together with the name."""
    assert set(conventions.KEPT) <= {name for _, name in sent_by("core")[0]}
    assert {conventions.standing(name, TABLE).word for name in conventions.KEPT} == {"deprecated"}


@pytest.mark.parametrize("emitter", EMITTERS[:3])
def test_the_schema_is_the_one_that_the_names_were_compared_with(emitter):
    """Spans, events and metrics of the exporters name its URL."""
    _, scopes = sent_by(emitter)
    assert scopes == {("llmeval_sdk", TABLE["schema_url"])}


@pytest.mark.parametrize(
    ("name", "word", "is_refused"),
    [
        ("error.type", "known", False),
        ("gen_ai.usage.input_tokens", "known", False),
        ("gen_ai.usage.cache_write.input_tokens", "known", False),
        ("llm.prompt_template.version", "known", False),
        ("gen_ai.usage.cache_creation.input_tokens", "deprecated", False),
        ("gen_ai.usage.prompt_tokens", "deprecated", True),
        ("llmeval.whatever", "own", False),
        ("gen_ai.usage.dreams", "unknown", True),
    ],
)
def test_the_table_tells_names_apart(name, word, is_refused):
    """Those of the conventions, old ones with and without a reason, ours, and nobody's."""
    assert conventions.standing(name, TABLE).word == word
    assert (name in conventions.wrong([name], TABLE)) == is_refused
