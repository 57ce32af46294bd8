"""Pure statistics: what the judged records say about all of the traffic.

Plain Python without I/O, and without knowledge of where records come from. ``llmeval report``,
``llmeval watch``, the viewer and the worker call exactly these functions. Values are in 0..1 unless
a function takes ``bounds``; chances are inclusion probabilities above 0 and at most 1; times are
nanoseconds since the epoch. Each module says on what assumptions its figures rest and where its
formulas come from.

`population_mean` and `assisted_mean` estimate a mean over all traffic with a 95 % interval;
`difference` compares two of them; `Evidence` may be looked at any time;
`corrected_mean` puts people's labels in place of a judge's mistakes; `reliability` says whether
of the answers that get 0.8, 80 % are good, and `calibrated` corrects probabilities so; `choose`
says which records to label; `Allocation` splits a share between catching and measuring;
`sure_acceptance` says below which risk no look is needed;
`caught_at` says what a share catches and `funnel` who was judged and why not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from llmeval_sdk.statistics.acceptance import (
        LabelledScore,
        Promise,
        sure_acceptance,
    )
    from llmeval_sdk.statistics.allocation import Allocation, default_control
    from llmeval_sdk.statistics.calibration import Calibration, calibrated, held_out_losses
    from llmeval_sdk.statistics.detection import (
        Caught,
        Figure,
        Reliability,
        accuracy_at,
        auroc,
        caught_at,
        caught_below,
        reliability,
        threshold_for,
    )
    from llmeval_sdk.statistics.labels import (
        Candidate,
        Choice,
        Correction,
        Labelled,
        choose,
        corrected_mean,
    )
    from llmeval_sdk.statistics.mean import (
        Difference,
        Estimate,
        Seen,
        Tally,
        assisted_mean,
        difference,
        population_mean,
    )
    from llmeval_sdk.statistics.reasons import Funnel, funnel
    from llmeval_sdk.statistics.sequence import Evidence

_HOMES = {
    "acceptance": "LabelledScore Promise sure_acceptance",
    "allocation": "Allocation default_control",
    "calibration": "Calibration calibrated held_out_losses",
    "detection": "Caught Figure Reliability accuracy_at auroc caught_at caught_below reliability "
    "threshold_for",
    "reasons": "Funnel funnel",
    "labels": "Candidate Choice Correction Labelled choose corrected_mean",
    "mean": "Difference Estimate Seen Tally assisted_mean difference population_mean",
    "sequence": "Evidence",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Allocation", "Calibration", "Candidate", "Caught", "Choice", "Correction", "Difference",
    "Estimate", "Evidence", "Figure", "Funnel", "Labelled", "LabelledScore", "Promise",
    "Reliability", "Seen", "Tally", "accuracy_at", "assisted_mean", "auroc",
    "calibrated", "caught_at", "caught_below", "choose",
    "corrected_mean", "default_control", "difference", "funnel",
    "held_out_losses", "population_mean", "reliability",
    "sure_acceptance", "threshold_for",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load a name with its module: what runs beside the app needs one of them, reports need all."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
