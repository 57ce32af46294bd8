"""What the report reads of a store, in one call each."""

from llmeval_sdk.store import scores
from llmeval_sdk.store.populations import SharedReadings
from llmeval_sdk.store.scores import EvaluationScope


def score_summary(reader, *scope, **named):
    """Summarise scores by evaluator and span name; the scope is that of `EvaluationScope`.

    Histograms have to be the same, whether digits were read with the sums or in another pass.
    """
    of = EvaluationScope(*scope, **named)
    summaries = tuple(SharedReadings(reader).summaries(of))
    known = SharedReadings(reader)
    known.groups(of, with_digits=True)
    assert tuple(known.summaries(of)) == summaries
    return summaries


def not_run_summary(reader, **named):
    """Count the judges that did not run, by judge and reason."""
    return tuple(reader.read(lambda c: scores.not_run_summary(c, EvaluationScope(**named))))
