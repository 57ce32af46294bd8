"""What the escalation rules would find among extractions that people or a judge have checked."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from llmeval_sdk.model import values
from llmeval_sdk.statistics.detection import caught_at, caught_interval
from llmeval_sdk.store.effective import CHANCE, UNJUDGED


JUDGE = "extraction_correctness"
FEWEST, FEWEST_BAD = 20, 3
"""From how many checked records, and wrong ones among them, a comparison says anything."""
MOST = 50_000
"""Checked records that are read."""
SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Rules:
    """The rule by documents beside `extraction_risk`; all but the counts are in 0..1."""

    checked: int
    """How many extractions have a person's label, or otherwise a verdict of
    ``extraction_correctness``."""
    labelled: int
    """Those with a label of a person."""
    wrong: int
    plain_share: float | None = None
    """The part of the traffic that the rule asks about: recall is below its bound, or a limit was
    hit."""
    plain_caught: float | None = None
    """Part of the wrong extractions among them."""
    risk_caught: float | None = None
    """The part of the wrong extractions among as many records, those with the highest
    `extraction_risk`."""
    share: float = SHARE
    share_caught: float | None = None
    """The same for the riskiest ``share``."""
    plain_interval: tuple[float, float] | None = None
    """The 95 % interval of ``plain_caught``, which few wrong extractions leave wide."""
    risk_interval: tuple[float, float] | None = None
    share_interval: tuple[float, float] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is enough to compare."""
        return self.share_caught is not None


def compare(connection: sqlite3.Connection, threshold: float, since_ns: int | None = None) -> Rules:
    """Compare the two rules on what was checked since a moment.

    ``threshold`` is the recall below which the rule by documents asks. A verdict stands for the
    traffic from which its record was chosen.
    """
    flagged: list[bool] = []
    risks: list[float] = []
    wrong: list[bool] = []
    weights: list[float] = []
    labelled = 0
    rows = connection.execute(_CHECKED, (since_ns or 0, JUDGE, since_ns or 0, MOST))
    for label, verdict, chance, risk, recall, warning in rows:
        person = values.number(label)
        labelled += person is not None
        good = values.number(verdict) if person is None else person
        score = values.number(risk)
        if good is None or score is None:
            continue
        low = isinstance(recall, (int, float)) and recall < threshold
        flagged.append(low or warning == "HIT_RETRIEVAL_LIMIT")
        risks.append(score)
        wrong.append(good < 0.5)
        weights.append(1.0 if person is not None or not chance else 1 / chance)
    bad = sum(wrong)
    if len(wrong) < FEWEST or bad < FEWEST_BAD:
        return Rules(len(wrong), labelled, bad)
    plain = [float(is_flagged) for is_flagged in flagged]
    share = sum(w for w, is_flagged in zip(weights, flagged, strict=True) if is_flagged)
    share /= sum(weights)
    caught = [
        caught_at(part, scores, wrong, weights)
        for part, scores in ((share, plain), (share, risks), (SHARE, risks))
    ]
    by_rule, by_risk, by_share = caught
    intervals = (caught_interval(each, wrong, weights) for each in caught)
    return Rules(len(wrong), labelled, bad, share, by_rule, by_risk, SHARE, by_share, *intervals)


_CHECKED = f"""
WITH checked AS (
  SELECT span_id, max(value) AS label, NULL AS verdict, NULL AS chance
  FROM feedback WHERE time_ns >= ? AND span_id != '' GROUP BY span_id
  UNION ALL
  SELECT span_id, NULL, value, {CHANCE.format(table="evaluations")}
  FROM evaluations
  WHERE name = ? AND time_ns >= ? AND error_type IS NULL AND span_id != ''
    AND {UNJUDGED.format(table="evaluations")}
    AND span_id NOT IN (SELECT span_id FROM feedback)
  LIMIT ?
)
SELECT checked.label, checked.verdict, checked.chance, risk.value, recall.value, warning.value
FROM checked
JOIN evaluations AS risk
  ON risk.span_id = checked.span_id AND risk.name = 'extraction_risk'
LEFT JOIN evaluations AS recall
  ON recall.span_id = checked.span_id AND recall.name = 'context_recall_heuristic'
LEFT JOIN evaluations AS warning
  ON warning.span_id = checked.span_id AND warning.name = 'recall_warning'
"""  # noqa: S608 - constants
