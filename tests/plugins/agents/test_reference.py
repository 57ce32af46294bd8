"""A run beside the tool calls that it should have made."""

import pytest

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Record, Step
from llmeval_sdk.plugins.agents.heuristics.trajectory_match import matching


def steps(*calls):
    """Return tool calls, each a name and its arguments."""
    return tuple(Step("tool", None, name, arguments, "ok") for name, arguments in calls)


READ, BOOK, PAY = ("get_trip", {"id": 7}), ("book_trip", {"id": 7}), ("pay", {"cents": 100})


@pytest.mark.parametrize(
    ("made", "matched"),
    [
        ((READ, BOOK, PAY), "strict unordered subset superset in_order"),
        ((READ, PAY, BOOK), "unordered subset superset"),
        ((READ, BOOK), "subset"),
        ((READ, READ, BOOK, PAY), "superset in_order"),
        ((BOOK, ("pay", {"cents": 99})), ""),
    ],
)
def test_the_modes_are_those_of_the_field(made, matched):
    """Order, missing calls and further calls count as each mode says."""
    record = Record(steps=steps(*made), expected_trajectory=steps(READ, BOOK, PAY))
    modes = ("strict", "unordered", "subset", "superset", "in_order")
    assert [mode for mode in modes if matching(mode)(record).value] == matched.split()


def test_only_what_changes_something_can_be_compared():
    """Another way to look something up is no difference then."""
    record = Record(steps=steps(READ, READ, BOOK), expected_trajectory=steps(BOOK))
    assert matching("strict", only="writes")(record).value is True
    assert matching("strict")(record).value is False


def test_a_whole_number_is_the_same_in_either_form():
    """Models write 7.0 for 7, and arguments in any order."""
    made = steps(("a", {"x": 7.0, "y": [1, 2.0]}))
    record = Record(steps=made, expected_trajectory=steps(("a", {"y": [1, 2], "x": 7})))
    assert registry.evaluator("trajectory_match")(record).value is True


def test_what_differs_is_named():
    """The explanation holds the first call that is missing, surplus or out of order."""
    expected = steps(READ, BOOK)
    missing = matching("superset")(Record(steps=steps(READ), expected_trajectory=expected))
    assert missing.explanation == 'not called: book_trip {"id": 7}'
    surplus = matching("subset")(Record(steps=steps(PAY), expected_trajectory=expected))
    assert surplus.explanation == 'not expected: pay {"cents": 100}'
    swapped = matching()(Record(steps=steps(BOOK, READ), expected_trajectory=expected))
    assert "from call 1 on" in swapped.explanation


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    """Two of three calls are right, and two of two expected ones were made: 0.8."""
    record = Record(steps=steps(READ, BOOK, PAY), expected_trajectory=steps(BOOK, READ))
    assert registry.evaluator("tool_call_f1")(record).value == pytest.approx(0.8)
    nothing = Record(steps=(Step("user", "Hi"),), expected_trajectory=())
    assert registry.evaluator("tool_call_f1")(nothing).value == 1.0


def test_accuracy_is_the_share_of_right_arguments_of_the_right_tools():
    """One of two calls has one of its two arguments right: 0.75; other tools give 0."""
    expected = steps(READ, ("pay", {"cents": 100, "to": "x"}))
    record = Record(
        steps=steps(READ, ("pay", {"cents": 100, "to": "y"})), expected_trajectory=expected
    )
    assert registry.evaluator("tool_call_accuracy")(record).value == pytest.approx(0.75)
    other = Record(steps=steps(PAY), expected_trajectory=expected)
    assert registry.evaluator("tool_call_accuracy")(other).value == 0.0


def test_an_unknown_mode_is_an_error_that_lists_them():
    """Where somebody is watching, the message says what to write."""
    with pytest.raises(ConfigurationError, match="strict, unordered, subset, superset, in_order"):
        matching("loose")
