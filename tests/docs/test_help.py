"""`help()` and an editor's pop-up explain every public name."""

import doctest
import inspect
import re

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture


MODULES = [name for name in llmeval.__all__ if inspect.ismodule(getattr(llmeval, name))]
PROTOCOLS = ["LLM", "Exporter"]
CALLED = [name for name in llmeval.__all__ if name not in (*MODULES, *PROTOCOLS)]
VERBS = [name for name in CALLED if not inspect.isclass(getattr(llmeval, name))]
WITH_EXAMPLE = [*VERBS, "Record", "Budget", "Escalation", "SamplingRule", "LLMJudge"]


def own_docstring(name):
    """Return what `help` shows: the value's own docstring, not that of its class or base."""
    value = getattr(llmeval, name)
    assert value.__doc__ is not type(value).__doc__, f"{name} has only the docstring of its class"
    return inspect.getdoc(value) or ""


def first_sentence(name):
    return re.split(r"(?<=\.)\s", own_docstring(name).strip(), maxsplit=1)[0]


def section(title, docstring):
    """Return the indented block under a heading of a Google-style docstring."""
    match = re.search(rf"^{title}:\n((?:(?: {{4}}.*)?\n?)*)", docstring, re.MULTILINE)
    return match[1] if match else ""


@pytest.mark.parametrize("name", llmeval.__all__)
def test_each_public_name_begins_with_a_sentence_of_its_own(name):
    """No two public names share their first sentence, and each is a whole one."""
    sentence = first_sentence(name)
    assert sentence.endswith("."), sentence
    assert len(sentence.split()) >= 3, sentence
    others = [first_sentence(other) for other in llmeval.__all__ if other != name]
    assert sentence not in others


@pytest.mark.parametrize("name", CALLED)
def test_each_parameter_is_explained(name):
    """Every parameter in the signature stands under Args with a meaning, and nothing else does."""
    signature = inspect.signature(getattr(llmeval, name))
    described = re.findall(
        r"^ {4}(\*{0,2}\w+): \S", section("Args", own_docstring(name)), re.MULTILINE
    )
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    assert described == [
        stars.get(parameter.kind, "") + parameter.name
        for parameter in signature.parameters.values()
    ]


@pytest.mark.parametrize("name", ["workflow", "task", "retrieval", "tool", "agent"])
def test_a_kind_of_span_shows_its_options(name):
    """The signature names each option; none hides behind `**options`."""
    options = [*inspect.signature(getattr(llmeval, name)).parameters]
    common = ["evaluators", "session_id", "user_id", "tags", "request", "metadata"]
    own = ["effect"] if name == "tool" else []
    assert options == ["name", *common, *own]


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_each_verb_has_an_example_that_runs(name):
    """The example under Examples uses the name and runs as it stands."""
    text = section("Examples", own_docstring(name))
    example = doctest.DocTestParser().get_doctest(text, {"llmeval": llmeval}, name, None, None)
    assert any(f"llmeval.{name}" in step.source for step in example.examples), "no example"
    output = []
    with capture():
        failed = doctest.DocTestRunner().run(example, out=output.append).failed
    assert not failed, "".join(output)
