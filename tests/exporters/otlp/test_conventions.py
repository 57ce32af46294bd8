"""The names that are sent, compared with those of OpenTelemetry and of the backends that read them."""

import re
from pathlib import Path

import conventions
import pytest

from llmeval_sdk.exporters.otlp import names


TABLE = conventions.table()
EMITTERS = [
    "core",
    "app",
    pytest.param("langfuse", marks=pytest.mark.plugin("langfuse")),
    pytest.param("watch", marks=pytest.mark.plugin("watch")),
]


@pytest.mark.parametrize("emitter", EMITTERS)
def test_conventions_have_every_name_that_is_not_our_own(emitter):
    """A name without ``llmeval.`` is known, and a deprecated one has a reason to be sent."""
    sent, _ = conventions.sent(emitter)
    assert conventions.wrong({name for _, name in sent}, TABLE) == {}


def test_every_name_that_the_code_has_is_compared():
    """None is left out because no app of these tests makes it be sent."""
    source = Path(names.__file__).read_text().partition("# -- spans: gen_ai")[2]
    wire = {getattr(names, constant) for constant in re.findall(r"^(\w+): Final = \"", source, re.M)}
    wire = {name for name in wire if "." in name or name == names.METADATA}
    wire |= {*names.NAME_OF.values(), names.TAG + names.JUDGE_TAG}
    sent = {name for _, name in conventions.sent("core")[0]}
    unseen = {
        name
        for name in wire - sent
        if not (name.endswith(".") and any(one.startswith(name) for one in sent))
    }
    assert unseen == set()


def test_every_deprecated_name_with_a_reason_is_sent():
    """A reason is removed together with the name."""
    assert set(conventions.KEPT) <= {name for _, name in conventions.sent("core")[0]}
    assert {conventions.standing(name, TABLE).word for name in conventions.KEPT} == {"deprecated"}


@pytest.mark.parametrize("emitter", EMITTERS[:3])
def test_the_schema_is_the_one_that_the_names_were_compared_with(emitter):
    """Spans, events and metrics of the exporters name its URL."""
    _, scopes = conventions.sent(emitter)
    assert scopes == {("llmeval_sdk", TABLE["schema_url"])}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("error.type", "known"),
        ("gen_ai.usage.input_tokens", "known"),
        ("gen_ai.usage.cache_write.input_tokens", "known"),
        ("llm.prompt_template.version", "known"),
        ("gen_ai.usage.prompt_tokens", "deprecated"),
        ("gen_ai.usage.cache_creation.input_tokens", "deprecated"),
        ("llmeval.whatever", "own"),
        ("gen_ai.usage.dreams", "unknown"),
    ],
)
def test_the_table_tells_names_apart(name, word):
    """Those of the conventions, old ones, ours, and what nobody has defined."""
    assert conventions.standing(name, TABLE).word == word
    assert bool(conventions.wrong([name], TABLE)) == (word in ("deprecated", "unknown"))
