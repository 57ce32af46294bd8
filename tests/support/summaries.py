"""What the report reads of a store, in one call each."""

from llmeval_sdk.store import summary
from llmeval_sdk.store.groups import EvaluationScope
from llmeval_sdk.store.scores import Scores


def score_summary(reader, *scope, **named):
    """Summarise scores by evaluator and span name; the scope is that of `EvaluationScope`.

    Histograms have to be the same, whether digits were read with the sums or in another pass.
    """
    of = EvaluationScope(*scope, **named)
    summaries = tuple(Scores(reader).summaries(of))
    known = Scores(reader)
    known.groups(of, with_digits=True)
    assert tuple(known.summaries(of)) == summaries
    return summaries


def not_run_summary(reader, **named):
    """Count the judges that did not run, by judge and reason."""
    return tuple(reader.read(lambda c: summary.not_run_summary(c, EvaluationScope(**named))))
