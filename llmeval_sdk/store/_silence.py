"""Tells whether an evaluator still gives verdicts, or has fallen silent while the app goes on.

Free scores predict what a missing verdict would have been. So an hour without verdicts is evidence,
as long as it is by chance that nothing was selected. If verdicts are missing for another reason,
nothing corrects the predictions, and an error in them would look like a change of quality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from llmeval_sdk.store.hours import Hour
from llmeval_sdk.store.words import moment


EXPECTED = 7
"""How many expected verdicts have to be missing. By chance that happens once in 1,100 times."""


@dataclass(slots=True)
class Silence:
    """What happened since the last verdict."""

    last_verdict_ns: int = 0
    """When the last verdict was given; 0 where there never was one."""
    requests: int = 0
    """Requests since then that could have been judged."""
    lost: int = 0
    """Judgements since then that were selected and gave no verdict."""
    without_model: int = 0
    """Requests since then that nobody judged because no judge model was configured."""
    went_on: bool = False
    """Whether the app still served requests a day after the last verdict."""

    def note(self, hour: Hour) -> None:
        """Take in one hour; a verdict in it ends the silence."""
        if hour.judged:
            self.requests = self.lost = self.without_model = 0
            self.went_on = False
            self.last_verdict_ns = max(self.last_verdict_ns, hour.last_verdict_ns)
        else:
            self.requests += len(hour.seen)
            self.lost += hour.lost
            self.without_model += hour.without_model

    def sentence(self, usual_share: float) -> str:
        """Say that verdicts are missing, and why if that is known; empty if none are.

        ``usual_share`` is the part of the requests, 0..1, that was judged so far.
        """
        since = "no verdict so far"
        if self.last_verdict_ns:
            since = f"no verdict since {moment(self.last_verdict_ns)}"
        later = " later" if self.last_verdict_ns else ""
        if self.lost == 1:
            return f"{since}: the only{later} judgement was lost"
        if self.lost:
            return f"{since}: all {self.lost:,}{later} judgements were lost"
        if self.without_model:
            return f"{since}: no judge model was configured for {self.without_model:,} requests"
        expected = self.requests * usual_share
        if expected >= EXPECTED:
            return (
                f"{since}, although about {expected:,.0f} of the {self.requests:,} requests since"
                " then would usually have been judged"
            )
        return f"{since}, although the app went on serving requests" if self.went_on else ""

    def as_plain(self) -> dict[str, Any]:
        """Return what `from_plain` reads, in types of JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Silence:
        """Read what `as_plain` returned."""
        return cls(**{each.name: plain[each.name] for each in fields(cls)})
