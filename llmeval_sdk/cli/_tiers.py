"""How ``llmeval report`` shows the tiers of judges that a decision model was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.cli.output import heading, say_wrapped, table
from llmeval_sdk.store.populations import Population
from llmeval_sdk.store.tiers import Tiers
from llmeval_sdk.text.terminal import number, printable


def show_tiers(tiers: Sequence[Tiers], judged: Sequence[Population]) -> None:
    """Print each tier's share, mean and cost, and what the judge model changed."""
    if not tiers:
        return
    heading("Tiers: decisions, and the judge model where it was asked")
    titles = ("judge", "span", "tier", "records", "share", "mean", "all traffic (95 %)", "cost")
    estimates = {(tier.judge, tier.span_name): tier for tier in judged}
    rows = []
    for tier in tiers:
        share, judged_share = tier.shares
        whole = estimates.get((tier.judge, tier.span_name))
        estimate = None if whole is None else whole.estimate
        over_all = "-"
        if estimate is not None:
            over_all = f"{number(estimate.mean)} [{estimate.low:.3f}, {estimate.high:.3f}]"
        decision = (
            tier.judge, tier.span_name or "-", "decision", f"{tier.decided:,}", f"{share:.1%}",
            _number(tier.decision_mean), "-", _cost(tier.decision_cost_usd),
        )  # fmt: skip
        rows.append(decision)
        if whole is None and not tier.judged and not tier.unanswered:
            continue  # no judge model was ever considered
        judge = (
            "", "", "judge", f"{tier.judged:,}", f"{judged_share:.1%}",
            _number(None if whole is None else whole.mean), over_all, _cost(tier.judge_cost_usd),
        )  # fmt: skip
        rows.append(judge)
    table(titles, rows, numbers="records share mean cost")
    for tier in tiers:
        if tier.both or tier.unanswered:
            say_wrapped(_changed(tier))
        if tier.left_out:
            where = f"{printable(tier.judge)} on {printable(tier.span_name or '-')}"
            say_wrapped(
                f"{where}: {tier.left_out:,} records were decided without the images or files of"
                " their request: a decision model reads text only."
            )


def _changed(tier: Tiers) -> str:
    where = f"{printable(tier.judge)} on {printable(tier.span_name or '-')}"
    part = tier.changed / max(tier.both, 1)
    said = (
        f"{where}: the judge model changed {tier.changed:,} of the {tier.both:,} answers that both"
        f" gave ({part:.0%}), {tier.to_good:,} of them to good."
    )
    if tier.unanswered:
        said += f" It failed on {tier.unanswered:,}, where the decision stands."
    return said


def _number(mean: float | None) -> str:
    return "-" if mean is None else number(mean)


def _cost(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:.4f}"
