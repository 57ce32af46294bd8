"""Which evaluators run, running them, and the models and verdicts of judges.

The pipeline and ``evaluate()`` both use this room, so an evaluator means the same, fails the same
and costs the same online and offline.
"""
