"""Bounds that a mean over all traffic should keep, for ``llmeval report --alert``."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from llmeval_sdk.estimates.mean import Estimate


@dataclass(frozen=True, slots=True)
class Alert:
    """A bound that a judge's mean over all traffic should keep, such as ``groundedness<0.9``."""

    evaluator: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.evaluator}{self.sign}{self.bound:g}"

    def holds(self, estimate: Estimate) -> bool:
        """Say whether the whole interval lies beyond the bound."""
        return estimate.high < self.bound if self.sign == "<" else estimate.low > self.bound


def alert(text: str) -> Alert:
    """Read ``groundedness<0.9``."""
    found = re.fullmatch(r"\s*([^<>\s]+)\s*([<>])\s*(-?\d*\.?\d+)\s*", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no alert: expected 'groundedness<0.9'")
    return Alert(found[1], found[2], float(found[3]))
