"""What the report reads of a store, in one call each."""

from llmeval_sdk.store import summary
from llmeval_sdk.store.scores import Scores
from llmeval_sdk.store.summary import EvaluationScope


def score_summary(reader, *scope, **named):
    """Summarise scores by evaluator and span name; the scope is that of `EvaluationScope`."""
    of = EvaluationScope(*scope, **named)
    return tuple(Scores(reader).summaries(of))


def not_run_summary(reader, **named):
    """Count the judges that did not run, by judge and reason."""
    return tuple(reader.read(lambda c: summary.not_run_summary(c, EvaluationScope(**named))))
