"""A label counts in figures on what it was drawn from, and on parts of that, and in no others."""

import copy
import json
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from statistics import mean, stdev

import pytest
from store_fixtures import Make

from llmeval_sdk.model import Batch
from llmeval_sdk.store.filters import read_filter
from llmeval_sdk.store.frames import ALL_TRAFFIC, Frame, frame_in
from llmeval_sdk.store.labelling import human_label, queue
from llmeval_sdk.store.labels import labels_of
from llmeval_sdk.store.populations import SharedReadings, by_group, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.selection import Selection, frame_of
from llmeval_sdk.store.writer import StoreWriter


JUDGE = "polite"
SHARES = {"acme": 0.25, "globex": 0.75}
GOOD = {"acme": 0.55, "globex": 0.95}
"""How many answers people call good, by tenant."""
CHANCE = 0.5
START, STEP = 1_767_225_600_000_000_000, 1_000_000_000
ACME, GLOBEX = ("tag:tenant=acme",), ("tag:tenant=globex",)
COUNTS = {ACME: 60, GLOBEX: 160, (): 160}
"""How many records are labelled under a filter, of about 150 and 450 judged ones."""


class Traffic:
    """Requests of two tenants, a part of them judged kindly, in a store."""

    def __init__(self, path, make, seed=0, requests=1_200):
        self.path = path
        rng = random.Random(seed)
        spans, outcomes, refused = [], [], []
        self.good, self.tenant_of = {}, {}
        for number in range(requests):
            tenant = "acme" if rng.random() < SHARES["acme"] else "globex"
            span = make.span(
                "answer", tags={"tenant": tenant}, start_ns=START + number * STEP,
                span_id=f"{rng.getrandbits(64):016x}", trace=f"{rng.getrandbits(128):032x}",
            )  # fmt: skip
            spans.append(span)
            good = rng.random() < GOOD[tenant]
            self.good[span.span_id], self.tenant_of[span.span_id] = good, tenant
            if rng.random() < CHANCE:
                passes = good or rng.random() < 0.6
                outcomes.append(
                    make.evaluation(
                        span, JUDGE, "yes" if passes else "no", evaluator_kind="judge",
                        inclusion_probability=CHANCE,
                    )
                )  # fmt: skip
            else:
                refused.append(make.not_run(span, JUDGE))
        self.spans = {span.span_id: span for span in spans}
        with closing(StoreWriter(path, max_days=0)) as writer:
            writer.write(Batch(tuple(spans), tuple(outcomes), tuple(refused)))

    def copied_to(self, path):
        """Return the same traffic in a store of its own."""
        other = copy.copy(self)
        other.path = shutil.copy(self.path, path)
        return other

    def reader(self, where=(), by=()):
        return StoreReader(self.path, selection=Selection(read_filter(where), by))

    def label(self, where=(), count=80, since_ns=None):
        """Label what `llmeval label` would hand out, as people would; return how many."""
        with self.reader(where) as reader:
            drawn = queue(reader, JUDGE, count, since_ns)
        labels = tuple(
            human_label(
                self.spans[choice.id], JUDGE, "yes" if self.good[choice.id] else "no",
                inclusion_probability=choice.chance, **drawn.frame.as_metadata(),
            )
            for choice in drawn.waiting
        )  # fmt: skip
        with closing(StoreWriter(self.path, max_days=0)) as writer:
            writer.write(Batch(evaluations=labels))
        return len(labels)

    def population(self, where=(), since_ns=None):
        with self.reader(where) as reader:
            (only,) = populations(reader, (since_ns, None, None, None))
        return only

    def groups(self, *by):
        with self.reader(by=by) as reader:
            return {
                each.group: each
                for each in by_group(reader, (None,) * 4, SharedReadings(reader, ""))
                if each.judge == JUDGE
            }

    def truth(self, tenant=None):
        return mean(
            good for span, good in self.good.items() if tenant in (None, self.tenant_of[span])
        )


@pytest.fixture
def traffic(path, make):
    return Traffic(path, make)


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Twelve streams of requests without labels."""
    folder = tmp_path_factory.mktemp("streams")
    return [Traffic(folder / f"{seed}.db", Make(), seed) for seed in range(12)]


@pytest.mark.parametrize(
    ("draws", "asked"),
    [
        ([ACME], ACME),
        ([()], ()),
        ([()], ACME),
        ([ACME, ()], ()),
        ([(), ACME], ACME),
        ([ACME, (), GLOBEX], GLOBEX),
    ],
)
def test_the_corrected_mean_has_no_bias(streams, tmp_path, draws, asked):
    """Whatever was labelled before, and under whichever filter, over 12 streams of requests."""
    errors = []
    for stream in streams:
        traffic = stream.copied_to(tmp_path / stream.path.name)
        for where in draws:
            assert traffic.label(where, COUNTS[where])
        tenant = asked[0].partition("=")[2] if asked else None
        estimate = traffic.population(asked).correction.estimate
        errors.append(estimate.mean - traffic.truth(tenant))
    standard_error = stdev(errors) / len(errors) ** 0.5
    assert abs(mean(errors)) < 3.5 * standard_error
    assert standard_error < 0.02


def test_labels_of_a_part_correct_nothing_else(traffic):
    """They are counted as left out, with what they were drawn from."""
    traffic.label(ACME)
    of_all, of_globex = traffic.population(), traffic.population(GLOBEX)
    assert (of_all.labels, of_all.correction) == (0, None)
    assert of_all.left_out == {"tag:tenant=acme": 80}
    assert (
        "80 labels drawn from a part of the traffic (tag:tenant=acme)" in of_all.left_out.sentence
    )
    assert (of_globex.labels, of_globex.left_out) == (0, {})
    narrower = traffic.population((*ACME, "name=answer"))
    assert (narrower.labels, narrower.left_out, narrower.left_out.sentence) == (80, {}, "")


def test_a_group_counts_the_labels_of_the_filter_that_selects_it(traffic):
    """And those of all traffic; by groups that no condition names, labels of a part do not count."""
    traffic.label(ACME)
    groups = traffic.groups("tag:tenant")
    assert groups["acme"].labels == 80
    assert groups["acme"].correction.estimate == traffic.population(ACME).correction.estimate
    assert (groups["globex"].labels, groups["globex"].left_out) == (0, {})
    (by_name,) = traffic.groups("request").values()
    assert (by_name.labels, by_name.left_out) == (0, {"tag:tenant=acme": 80})
    traffic.label()
    assert sum(each.labels for each in traffic.groups("tag:tenant").values()) > 120


def test_a_record_waits_again_where_its_label_does_not_count(traffic):
    """A draw from all traffic would otherwise lack the records that were labelled under a filter."""
    traffic.label(ACME)
    before = Counter(traffic.tenant_of.values())
    assert before["acme"] < before["globex"]
    assert traffic.label() == 80
    assert traffic.label() == 0
    assert traffic.population().labels == 80
    assert traffic.label(ACME) < 80  # labels drawn from all traffic count under the filter


def test_labels_of_a_period_count_in_periods_that_begin_no_earlier(traffic):
    """So does the period of a trend."""
    half = START + 600 * STEP
    traffic.label(since_ns=half)
    assert traffic.population().labels == 0
    assert "judged since 2026-01-01 00:10" in next(iter(traffic.population().left_out))
    assert traffic.population(since_ns=half).labels == 80
    assert 0 < traffic.population(since_ns=half + 300 * STEP).labels < 80
    assert frame_of(None, None, half) == Frame(since_ns=half)


def test_labels_without_a_word_count_as_drawn_from_all_traffic(traffic):
    """As older stores hold them, and as apps submit them."""
    traffic.label()
    with sqlite3.connect(traffic.path) as store:
        (metadata,) = store.execute("SELECT metadata FROM feedback LIMIT 1").fetchone()
    assert set(json.loads(metadata)) == {"inclusion_probability"}
    assert traffic.population().labels == 80


@pytest.mark.parametrize(
    "drawn_from",
    [7, "acme", [], {"where": "tag:tenant=acme"}, {"since_ns": "now"}, {"where": [{}]}],
)
def test_a_frame_that_nobody_can_read_covers_nothing(drawn_from):
    """A label is rather left out than counted where it says nothing."""
    frame = frame_in({"drawn_from": drawn_from})
    assert not frame.covers(ALL_TRAFFIC)
    assert not frame.covers(Frame(frozenset(ACME)))


def test_a_hostile_frame_is_harmless(traffic, tmp_path):
    """It reaches the terminal without its control characters."""
    traffic.label(ACME)
    with sqlite3.connect(traffic.path) as store:
        store.execute(
            "UPDATE feedback SET metadata = json_set(metadata, '$.drawn_from.where[0]', ?)",
            ("\x1b[31m<b>" + "x" * 10_000,),
        )
    sentence = traffic.population().left_out.sentence
    assert "\x1b" not in sentence
    assert len(sentence) < 400
    with traffic.reader() as reader:
        assert len(reader.read(lambda store: labels_of(store, JUDGE))) == 80
