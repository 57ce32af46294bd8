"""Traces as the viewer meets them: ordinary ones, judged ones and hostile ones."""

import itertools
import time

from llmeval_sdk.model import (
    Batch,
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    SpanData,
    Target,
    Usage,
)
from llmeval_sdk.store.writer import StoreWriter


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>"
    "\u202egnp.exe\u2066 \x00\x1b[31m </pre></textarea>{{7*7}} javascript:alert(4) "
)
"""Markup, direction overrides, control characters and a template, as an attacker would ask."""


class Store:
    """A store at a path, filled trace by trace."""

    def __init__(self, path):
        self.path = path
        self.writer = StoreWriter(path, max_days=0)
        self._ids = itertools.count(1)

    def close(self):
        self.writer.close()

    def write(self, *, spans=(), evaluations=(), not_run=()):
        self.writer.write(Batch(tuple(spans), tuple(evaluations), tuple(not_run)))

    def span(self, name="answer", *, trace=None, parent=None, start_ns=None, **given):
        number = next(self._ids)
        begin = start_ns or time.time_ns()
        given = {"kind": "workflow", "end_ns": begin + 5_000_000, **given}
        return SpanData(
            trace_id=trace or f"{number:032x}",
            span_id=f"{number + 0xABCDEF00000000:016x}",
            parent_id=parent.span_id if parent else None,
            name=name,
            start_ns=begin,
            **given,
        )

    def score(self, span, name, value, **given):
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        outcome = Evaluation(name, value, **given)
        return EvaluationEvent(f"{span.span_id}-{name}", target, outcome, span.end_ns)

    def refuse(self, span, judge, reason, detail=""):
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        return NotRun(f"{span.span_id}-{judge}", target, judge, reason, detail, span.end_ns)

    def trace(self, request="What is the roof made of?", *, recall=0.9, name="answer", **given):
        """Write one ordinary trace; returns its root."""
        root = self.span(name, request=request, response="slate", **given)
        below = self.span(
            "search", trace=root.trace_id, parent=root, kind="retrieval", request=request,
            start_ns=root.start_ns + 1_000,
            retrieved_context=(
                Chunk("The barn roof is slate.", "barn.txt", "7", 0.9, 3, "bm25"),
                Chunk("The house has tiles.", "house.txt", "9", 0.7, 4, "knn"),
            ),
        )  # fmt: skip
        scores = [self.score(root, "context_recall_heuristic", recall)]
        self.write(spans=[below, root], evaluations=scores)
        return root

    def judged(self, request="Is it slate?", *, verdict="no", why="recall 0.1 < 0.7", **given):
        """Write one trace that a judge scored, with the judge's own trace; returns its root."""
        root = self.trace(request, recall=0.1, **given)
        own = self.span(
            "groundedness", links=(Target(root.trace_id, root.span_id, root.name, root.kind),),
            tags={"llmeval.judge": "groundedness"}, model_name="gpt-4o-mini",
        )  # fmt: skip
        verdict = self.score(
            root, "groundedness", verdict, evaluator_kind="judge", explanation="Not in the text.",
            usage=Usage(90, 10, 100, 0.0025), duration=0.25, inclusion_probability=0.5,
            metadata={"why": why, "model": "gpt-4o-mini"},
        )  # fmt: skip
        self.write(spans=[own], evaluations=[verdict])
        return root

    def rich(self):
        """Write one trace with all that a page of a trace can show; returns its root."""
        root = self.span(
            "extract_field", request="Which roof?", response="The roof is slate. It costs 40 euro.",
            extractions=(Extraction("slate", 1, 0.9, "roof is slate"),), tags={"field": "roof"},
            error=Failure("ValueError", "no value"),
        )  # fmt: skip
        below = self.span(
            "search", trace=root.trace_id, parent=root, kind="retrieval",
            start_ns=root.start_ns + 1_000,
            retrieved_context=(
                Chunk("The barn roof is slate.", "barn.txt", "7", 0.9, 3, "bm25"),
                Chunk("The house has tiles.", "house.txt", "9", 0.7, 4, "knn"),
            ),
        )  # fmt: skip
        ratings = {
            "ratings": ["yes", "no"], "rationales": ["names the roof", "another house"],
            "error_messages": [None, None], "failed": 0,
        }  # fmt: skip
        risk = {"unsupported_spans": [[19, 36]], "sentences": 2}
        self.write(
            spans=[below, root],
            evaluations=[
                self.score(root, "groundedness_risk", 0.8, metadata=risk),
                self.score(root, "context_relevance", 0.35, label="investigate"),
                self.score(root, "chunk_relevance", 0.5, metadata=ratings, evaluator_kind="judge"),
            ],
            not_run=[self.refuse(root, "groundedness", "over_budget", "5.00 of 5.00 USD")],
        )
        return root

    def hostile(self):
        """Write a trace whose every text attacks the page; returns its root."""
        root = self.span(
            HOSTILE, request=HOSTILE, response=HOSTILE * 400, session_id=HOSTILE,
            attributes={HOSTILE: HOSTILE}, tags={HOSTILE: HOSTILE}, model_name=HOSTILE,
            error=Failure(HOSTILE, HOSTILE),
            retrieved_context=(Chunk(HOSTILE, HOSTILE, HOSTILE, 0.4, HOSTILE, HOSTILE),),
            extractions=(Extraction(HOSTILE, 1, HOSTILE, HOSTILE),),
        )  # fmt: skip
        metadata = {
            HOSTILE: HOSTILE,
            "why": HOSTILE,
            "ratings": [HOSTILE],
            "unsupported_spans": [HOSTILE, [0, 9]],
        }
        self.write(
            spans=[root],
            evaluations=[
                self.score(root, HOSTILE, HOSTILE, label=HOSTILE, explanation=HOSTILE, metadata=metadata, evaluator_version=HOSTILE),
                self.score(root, "groundedness_risk", 0.9, metadata=metadata),
                self.score(root, "failing", None, error=Failure(HOSTILE, HOSTILE), evaluator_kind="judge"),
            ],
            not_run=[self.refuse(root, HOSTILE, HOSTILE, HOSTILE)],
        )  # fmt: skip
        return root
