"""Records with ids of their own, and a store in a folder of its own."""

import functools
import itertools
import random
import string
import time
from contextlib import closing

import pytest

from llmeval_sdk.model import Evaluation, EvaluationEvent, NotRun, SpanData, Target
from llmeval_sdk.store.writer import StoreWriter


_ids = itertools.count(1)
_SIGNS = string.ascii_letters + string.digits + "-_"


@functools.cache
def _signs():
    return "".join(random.Random(1).choices(_SIGNS, k=1_000_000))


class Make:
    """Builds records; every option of a noun can be given."""

    def span(self, name="extract_field", *, trace=None, start_ns=None, **given):
        number = next(_ids)
        start_ns = time.time_ns() if start_ns is None else start_ns
        trace_id = trace or f"{number:032x}"
        given = {"parent_id": None, "kind": "workflow", "end_ns": start_ns + 5_000_000, **given}
        given.setdefault("span_id", f"{number:016x}")
        return SpanData(trace_id=trace_id, name=name, start_ns=start_ns, **given)

    def text(self, characters):
        """A text that no other repeats and that hardly compresses, of up to 100,000 characters."""
        number = next(_ids)
        start = number * 7_919 % 900_000
        return f"{number} {_signs()[start : start + characters]}"[:characters]

    def evaluation(
        self, span=None, name="context_precision", value=0.5, *, id=None, time_ns=None, **given
    ):
        target = Target(span.trace_id, span.span_id, span.name, span.kind) if span else Target()
        at = time_ns if time_ns is not None else span.end_ns if span else time.time_ns()
        key = id or f"{target.span_id}-{name}"
        return EvaluationEvent(key, target, Evaluation(name, value, **given), at)

    def not_run(self, span, evaluator="correctness", reason="not_sampled", detail="sample_rate 0"):
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        key = f"{span.span_id}-{evaluator}"
        return NotRun(key, target, evaluator, reason, detail, span.end_ns)


@pytest.fixture
def make():
    return Make()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "own" / "llmeval.db"


@pytest.fixture
def writer(path):
    with closing(StoreWriter(path)) as writer:
        yield writer
