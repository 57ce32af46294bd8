"""Which step of the funnel a reason belongs to."""

from llmeval_sdk.statistics.reasons import NOT_RUN_REASONS, REASONS, funnel, step_of


def test_a_reason_names_the_step_it_kept_a_record_from():
    """The step is the first one that the funnel does not count the record in."""
    names = ("eligible", "selected", "budgeted", "run", "scored")
    for reason in NOT_RUN_REASONS:
        one = funnel(0, {reason: 1})
        missed = next((name for name in names if getattr(one, name) == 0), None)
        assert step_of(reason) == (None if reason == "cached" else missed)


def test_the_table_has_a_row_for_each_reason_in_their_order():
    """Each reason that the types know has its words and its step."""
    assert tuple(REASONS) == NOT_RUN_REASONS
