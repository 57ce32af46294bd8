"""How the commands show which of the wrong extractions each escalation rule would find."""

from __future__ import annotations

from llmeval_sdk.cli.output import heading, say_wrapped, table
from llmeval_sdk.store.labels import FEWEST_CHECKED, FEWEST_WRONG, RuleComparison


SWITCH = (
    "To judge a fifth, the riskiest first: LLMEVAL_JUDGE_SHARE=0.2, or in code"
    " Escalation('extraction_correctness', share=0.2)."
)


def show_rules(rules: RuleComparison) -> None:
    """Print the comparison as a table, or what is missing for one."""
    heading("Which rule finds wrong extractions")
    if not rules.is_known:
        say_wrapped(
            f"Extractions checked: {rules.checked}; of them wrong: {rules.wrong}. The rules are"
            f" compared from {FEWEST_CHECKED} checked and {FEWEST_WRONG} wrong ones on. Label some"
            " in the viewer, or let `extraction_correctness` judge a share."
        )
        return
    people = f"{rules.labelled} by people, the rest by extraction_correctness"
    say_wrapped(
        f"{rules.checked:,} extractions were checked ({people}); {rules.wrong:,} are wrong."
    )
    plain, risk, share = rules.plain_interval, rules.risk_interval, rules.share_interval
    rows = [
        ("recall below its bound, or a hit limit", rules.plain_share, rules.plain_caught, plain),
        ("extraction_risk, as many records", rules.plain_share, rules.risk_caught, risk),
        (
            f"extraction_risk, the riskiest {rules.share:.0%}",
            rules.share,
            rules.share_caught,
            share,
        ),
        ("at random", rules.share, rules.share, None),
    ]
    shown = [
        (rule, f"{judged or 0:.0%}", f"{caught or 0:.0%}", _percents(interval) if interval else "-")
        for rule, judged, caught, interval in rows
    ]
    table(("rule", "records judged", "wrong ones caught", "95 % interval"), shown)
    say_wrapped(SWITCH)


def sentence(rules: RuleComparison) -> str:
    """Return the comparison as one line, for `llmeval doctor`."""
    if not rules.is_known:
        return f"{rules.checked} extractions were checked so far: too few to compare the rules"
    return (
        f"of {rules.wrong} wrong extractions, the recall rule would catch"
        f" {_share(rules.plain_caught, rules.plain_interval)} by judging"
        f" {rules.plain_share or 0:.0%}; extraction_risk"
        f" {_share(rules.risk_caught, rules.risk_interval)} by judging as many,"
        f" {_share(rules.share_caught, rules.share_interval)} by judging {rules.share:.0%}"
        " (LLMEVAL_JUDGE_SHARE)"
    )


def _share(caught: float | None, interval: tuple[float, float] | None) -> str:
    surely = f" (95 % interval {_percents(interval)})" if interval else ""
    return f"{caught or 0:.0%}{surely}"


def _percents(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.0%} to {interval[1]:.0%}"
