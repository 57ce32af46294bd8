"""The decorator that makes a heuristic of a function, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.heuristics import FunctionHeuristic, heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import Heuristic


@pytest.fixture(autouse=True)
def _clean_registry():
    before = {own.name for own in registry.own_evaluators()}
    yield
    for own in registry.own_evaluators():
        if own.name not in before:
            registry.forget(own.name)


def test_a_bare_decorator_registers_the_function_under_its_name():
    """What @heuristic decorates is found by name and keeps being callable."""

    @heuristic
    def cites_a_page(record):
        return "page" in record.response

    assert registry.evaluator("cites_a_page") is cites_a_page
    assert cites_a_page(Record(response="see page 3")) is True
    assert cites_a_page(Record(response="no")) is False


def test_the_called_decorator_takes_every_option():
    """Options end up as what the heuristic says of itself."""

    @heuristic(name="other", version="3", needs=["value|response"], inline=True, automatic=False)
    def mine(record):
        return 1.0

    assert (mine.name, mine.version, mine.needs) == ("other", "3", ("value|response",))
    assert (mine.inline, mine.automatic, mine.kind) == (True, False, "heuristic")
    assert registry.evaluator("other") is mine


def test_a_plain_heuristic_needs_nothing_and_runs_in_the_background():
    """The defaults keep user code off the caller's thread."""

    @heuristic
    def calm(record):
        return None

    assert (calm.needs, calm.inline, calm.automatic, calm.version) == ((), False, True, "1")


def test_a_heuristic_satisfies_the_protocol_and_is_frozen():
    """It is what the rest of the SDK expects, and cannot be changed later."""

    @heuristic
    def frozen(record):
        return 1.0

    assert isinstance(frozen, Heuristic)
    assert isinstance(frozen, FunctionHeuristic)
    with pytest.raises(AttributeError):
        frozen.name = "changed"


@pytest.mark.parametrize("value", [0.5, True, "yes", None])
def test_a_plain_value_becomes_an_evaluation_of_its_name(value):
    """Evaluating wraps what the function returned."""
    made = heuristic(name="wrapped")(lambda record: value)
    evaluation = run_heuristic(made, Record())
    assert (evaluation.name, evaluation.value) == ("wrapped", value)
    assert type(evaluation.value) is type(value)


def test_an_evaluation_passes_through():
    """A function may return the Evaluation itself."""
    made = heuristic(name="whole")(lambda record: Evaluation("whole", 0.5, label="half"))
    assert run_heuristic(made, Record()).label == "half"


def test_the_needs_may_be_one_string():
    """A single field needs no tuple, and is not taken for a list of letters."""
    made = heuristic(name="single", needs="response")(lambda record: 1.0)
    assert made.needs == ("response",)


def test_an_unknown_need_names_the_nearest_field_and_all_of_them():
    """A misspelt field fails where a person is watching."""
    with pytest.raises(ConfigurationError, match=r"'respons'.*did you mean 'response'") as caught:
        heuristic(name="wrong", needs=("value|respons",))(lambda record: 1.0)
    assert "retrieved_context" in str(caught.value)
    assert "wrong" not in {own.name for own in registry.own_evaluators()}


@pytest.mark.parametrize(
    "name", ["", "1st", "with space", "dot.ted", "ümlaut", "a" * 201, "new\n", "_private", 5]
)
def test_a_name_that_backends_refuse_is_refused(name):
    """Names are ASCII letters, digits and underscores, and start with a letter."""
    with pytest.raises(ConfigurationError, match="name"):
        heuristic(name=name)(lambda record: 1.0)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,199}", fullmatch=True))
def test_every_good_name_is_taken(name):
    """Whatever fits the rule can be a name."""
    try:
        assert heuristic(name=name)(lambda record: 1.0).name == name
    finally:
        registry.forget(name)


def test_a_lambda_without_a_name_is_told_to_take_one():
    """The message says what to do."""
    with pytest.raises(ConfigurationError, match="name="):
        heuristic(lambda record: 1.0)


def _none():
    return 1.0


def _two(record, other):
    return 1.0


def _keyword_only(*, record):
    return 1.0


def _needs_a_keyword(record, *, other):
    return 1.0


@pytest.mark.parametrize("function", [_none, _two, _keyword_only, _needs_a_keyword])
def test_a_function_that_cannot_take_one_record_is_refused(function):
    """A heuristic is called with the Record and nothing else."""
    with pytest.raises(ConfigurationError, match="exactly one positional argument"):
        heuristic(name="wrong")(function)


async def _async(record):
    return 1.0


async def _async_generator(record):
    yield 1.0


def _generator(record):
    yield 1.0


@pytest.mark.parametrize(
    ("function", "word"),
    [(_async, "async"), (_async_generator, "async"), (_generator, "generator")],
)
def test_what_does_not_simply_return_is_refused(function, word):
    """Coroutines and generators are named as what they are."""
    with pytest.raises(ConfigurationError, match=word):
        heuristic(name="wrong")(function)


@pytest.mark.parametrize("thing", ["a_name", 3, object(), Record, print.__class__])
def test_what_is_no_function_is_refused(thing):
    """Options passed by position, classes and values fail with a hint."""
    with pytest.raises(ConfigurationError, match="takes a function"):
        heuristic(thing)


def test_the_later_of_two_with_one_name_wins():
    """A notebook cell may run twice."""
    heuristic(name="again")(lambda record: 1.0)
    second = heuristic(name="again")(lambda record: 2.0)
    assert registry.evaluator("again") is second


def test_a_method_bound_to_an_object_can_be_a_heuristic():
    """Configured checks are methods of objects."""

    class Checker:
        limit = 3

        def short(self, record):
            return len(record.response) <= self.limit

    made = heuristic(Checker().short)
    assert made.name == "short"
    assert made(Record(response="abc")) is True


def test_built_ins_are_not_the_apps_own():
    """Loading a built-in heuristic leaves the list of the app's evaluators alone."""
    before = registry.own_evaluators()
    registry.installed(registry.heuristics())
    assert registry.own_evaluators() == before
