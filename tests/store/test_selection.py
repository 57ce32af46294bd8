"""Requests in groups: each group's figures are those of a filter that selects it."""

import itertools
import json
import random
import time

import pytest

from llmeval_sdk import cli
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Batch, Failure, Usage
from llmeval_sdk.statistics.differences import GroupMean, differing
from llmeval_sdk.statistics.mean import population_mean
from llmeval_sdk.store import scores
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.filters import read_filter
from llmeval_sdk.store.labels import feedback_by_group
from llmeval_sdk.store.populations import SharedReadings, by_group, overall
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope
from llmeval_sdk.store.selection import BETWEEN, MAX_SLICES, OTHERS, SEVERAL, Selection
from llmeval_sdk.store.splits import BY_SLICE
from llmeval_sdk.store.traffic import BY_SELECTION, traffic


TENANTS = ("acme", "globex", "it's", 'quo"te', None)
EVERYTHING = (None,) * 4
START = time.time_ns() - 10**15


@pytest.fixture
def store(make, writer, path):
    """Return a store with 200 requests of five tenants and three models, a part of them judged."""
    chance = random.Random(3)
    spans, outcomes, refused = [], [], []
    for number in range(200):
        tenant, model = TENANTS[number % 5], ("gpt-4o", "llama", "both")[number % 3]
        root = make.span("answer", tags={"tenant": tenant} if tenant else {})
        models = ("gpt-4o", "llama") if model == "both" else (model,)
        spans.append(root)
        for name in models:
            spans.append(
                make.span(
                    "call", trace=root.trace_id, parent_id=root.span_id, kind="llm",
                    model_name=name, usage=Usage(10, 5, 15, 0.01),
                )
            )  # fmt: skip
        outcomes.append(make.evaluation(root, "quality", chance.random(), evaluator_version="1"))
        if chance.random() < 0.5:
            said = "no" if tenant == "globex" or chance.random() < 0.1 else "yes"
            outcomes.append(
                make.evaluation(
                    root, "groundedness", said, evaluator_kind="judge", inclusion_probability=0.5
                )
            )
            if chance.random() < 0.3:
                outcomes.append(
                    make.evaluation(root, "thumbs", said == "yes", evaluator_kind="human")
                )
        else:
            refused.append(make.not_run(root, "groundedness", "not_escalated"))
    writer.write(Batch(tuple(spans), tuple(outcomes), tuple(refused)))
    return path


def grouped(store, *by, where=()):
    """Return the estimates by evaluator and group."""
    with StoreReader(store, selection=Selection(read_filter(where), by)) as reader:
        found = by_group(reader, EVERYTHING, SharedReadings(reader, ""))
    return {(each.judge, each.group): each for each in found}


@pytest.mark.parametrize("judge", ["groundedness", "quality"])
@pytest.mark.parametrize("where", [(), ("model~gpt",)])
def test_a_group_has_the_figures_of_the_filter_that_selects_it(store, judge, where):
    """Estimates, funnels and costs are the same by either way, also for requests without a tag."""
    found = grouped(store, "tag:tenant", where=where)
    for tenant in TENANTS:
        alone = f'tag:tenant="{tenant}"' if tenant and '"' not in tenant else "tag:tenant="
        if tenant and '"' in tenant:
            alone = "tag:tenant~quo"
        with StoreReader(store, selection=Selection(read_filter([*where, alone]))) as reader:
            expected = overall(reader, EVERYTHING, SharedReadings(reader, ""), judge)
        each = found[judge, tenant]
        assert each.funnel == expected.funnel
        assert each.estimate == expected.estimate
        assert each.mean == expected.mean
        assert each.categories == expected.categories


@pytest.fixture
def odd_store(make, writer, path):
    """Return a store with late, failed, paid and doubled verdicts of two versions and any chance."""
    chance = random.Random(11)
    spans, outcomes = [], []
    for number in range(300):
        tags = {"tenant": chance.choice("abc"), "release": chance.choice("12")}
        root = make.span(
            chance.choice(("answer", "extract")), start_ns=START + number * 10**9, tags=tags
        )
        spans.append(root)
        words = ("yes", "no", "skipped", True, None, chance.gauss(500, 200), chance.random())
        for again in range(1 + number % 2):
            value = chance.choice(words)
            given = {"error": Failure("E", "") if value is None and number % 3 else None}
            given |= {"usage": Usage(1, 2, 3, chance.random()) if number % 5 else None}
            given |= {"inclusion_probability": chance.choice((1.0, 0.2, None))}
            given |= {"evaluator_version": chance.choice("12"), "id": f"{root.span_id}-{again}"}
            kind, late = chance.choice(("judge", "heuristic")), chance.randrange(10**12)
            outcomes.append(
                make.evaluation(
                    root, "tone", value, time_ns=root.end_ns + late, evaluator_kind=kind, **given
                )
            )
    writer.write(Batch(tuple(spans), tuple(outcomes)))
    return path


@pytest.mark.parametrize(
    "scope", [EvaluationScope(), EvaluationScope(START + 90 * 10**9, None, "tone")]
)
@pytest.mark.parametrize("where", [(), ("tag:tenant=a,b",)])
def test_parts_have_the_sums_of_one_statement_about_all_of_them(odd_store, where, scope):
    """Each is read by itself, as that is faster: in the same order, so that no digit differs."""
    in_one = f"""
SELECT {scores.GROUP}, {BY_SLICE.part}, {WORD}, {scores._SUMS}, NULL
FROM evaluations {scope.of_evaluations()} GROUP BY {scores.GROUP}, {WORD} {BY_SLICE.and_part}
"""
    selection = Selection(read_filter(where), ("tag:tenant", "tag:release"))
    with StoreReader(odd_store, selection=selection) as reader:
        expected = reader.read(lambda c: c.execute(in_one, scope._asdict()).fetchall())
        found = reader.read(lambda c: scores.groups(c, scope, BY_SLICE))
    assert list(map(tuple, found)) == expected
    assert len({part.part for part in found}) == (4 if where else 6)
    assert len(found) > 40


def test_two_groupings_divide_what_one_of_them_has(store):
    """A request that called two models is in a group of its own."""
    one, two = grouped(store, "tag:tenant"), grouped(store, "tag:tenant", "model")
    names = {group.split(BETWEEN)[1] for _, group in two}
    assert names == {"gpt-4o", "llama", SEVERAL}
    for tenant in TENANTS[:4]:
        parts = [
            each
            for (judge, group), each in two.items()
            if judge == "quality" and group.startswith(f"{tenant}{BETWEEN}")
        ]
        assert sum(each.funnel.scored for each in parts) == one["quality", tenant].funnel.scored


def test_traffic_and_feedback_are_by_the_same_groups(store):
    """All requests are in one of them."""
    with StoreReader(store, selection=Selection(by=["tag:tenant", "request"])) as reader:
        summed = reader.read(lambda c: traffic(c, by=BY_SELECTION))
        said = reader.read(feedback_by_group)
    assert {group.key for group in summed.groups} == {
        f"{tenant or '(none)'}{BETWEEN}answer" for tenant in TENANTS
    }
    assert [group.count for group in summed.groups] == [40] * 5
    assert sum(one.count for one in said) > 10
    assert {one.mean for one in said if one.group == f"globex{BETWEEN}answer"} == {0.0}


def test_a_tag_of_a_span_below_counts_where_the_first_span_has_none(make, writer, path):
    """Other instrumentations may set tags where they stand."""
    root = make.span("answer")
    below = make.span("step", trace=root.trace_id, parent_id=root.span_id, tags={"tenant": "acme"})
    writer.write(Batch((root, below), (make.evaluation(root, "quality", 0.5),)))
    assert set(grouped(path, "tag:tenant")) == {("quality", "acme")}


def noted(path, where, *by):
    """Return the selected requests with their groups."""
    with StoreReader(path, selection=Selection(read_filter(where), by)) as reader:
        sql = "SELECT request, slice FROM selection.requests ORDER BY request"
        return reader.read(lambda c: c.execute(sql).fetchall())


@pytest.mark.parametrize("by", [("tag:release",), ("user", "tag:release"), ("tag:it's", "model")])
@pytest.mark.parametrize("firsts", [(1,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("tagged", [(1.0, 0.0), (0.8, 0.8)])
def test_a_group_is_the_same_however_its_requests_are_selected(
    make, writer, path, tagged, firsts, by
):
    """Whichever span meets a condition, and of requests with any number of first spans.

    Of two conditions, the requests are found before their groups.
    """
    chance = random.Random(len(firsts))
    spans = []
    for _ in range(150):
        first, trace = chance.choice(firsts), None
        for place in range(first + chance.randrange(3)):
            share = tagged[place >= first]
            tags = ("tenant", "release", "user_id", "it's")
            names = [tag for tag in tags if chance.random() < share]
            span = make.span(
                chance.choice("abc"), trace=trace,
                parent_id=None if place < first else "f" * 16,
                tags={name: chance.choice(("acme", "b")) for name in names},
                kind="llm", model_name=chance.choice(("gpt-4o", "llama")),
            )  # fmt: skip
            trace = span.trace_id
            spans.append(span)
    writer.write(Batch(tuple(spans)))
    for where in ("tag:tenant=acme", "tag:tenant~ac", "user", "name=a", "model=llama"):
        found = noted(path, (where,), *by)
        assert found == noted(path, (where, where), *by)
        assert len({group for _, group in found}) > 1


def test_more_groups_than_can_be_shown_are_pooled(make, writer, path):
    """A tag that is different on each request takes no more memory than the largest groups."""
    spans = [make.span(tags={"id": f"{number}"}) for number in range(MAX_SLICES + 50)]
    spans += [make.span(tags={"id": "often"}) for _ in range(3)]
    writer.write(
        Batch(tuple(spans), tuple(make.evaluation(span, "quality", 0.5) for span in spans))
    )
    found = grouped(path, "tag:id")
    assert len(found) == MAX_SLICES + 1
    assert found["quality", "often"].funnel.scored == 3
    assert found["quality", OTHERS].funnel.scored == 51


@pytest.mark.parametrize("by", [("tenant",), ("tag:",), ("name",), ("model", "user", "session")])
def test_what_is_no_grouping_is_refused(by):
    """Before anything is read."""
    with pytest.raises(ConfigurationError, match=r"grouping"):
        Selection(by=by)


def outcomes(sizes, rates, chance):
    """Return the means of groups, of which each record was judged."""
    made = []
    for size, rate in zip(sizes, rates, strict=True):
        values = [float(chance.random() < rate) for _ in range(size)]
        made.append(GroupMean(population_mean(values, [1.0] * size), size, size))
    return made


def test_groups_that_do_not_differ_are_rarely_said_to_differ():
    """In at most 5 % of reports over fifty tenants of very different size is any named."""
    chance = random.Random(5)
    sizes = [10, 15, 20, 40, 80, 200, 1_000] * 7 + [5_000]
    named = sum(
        any(differing(outcomes(sizes, itertools.repeat(0.9, 50), chance))) for _ in range(200)
    )
    assert named <= 10


def test_groups_that_differ_are_found_among_many():
    """Five of fifty fell from .9 to .7."""
    chance = random.Random(6)
    rates = [0.7] * 5 + [0.9] * 45
    hits = wrong = 0
    for _ in range(20):
        distances = differing(outcomes([300] * 50, rates, chance))
        hits += sum(distance < 0 for distance in distances[:5])
        wrong += sum(map(bool, distances[5:]))
    assert hits >= 95
    assert wrong <= 0.1 * hits


def test_small_and_lonely_groups_differ_from_nothing():
    """Nine records say nothing, and one group has no others."""
    bad = GroupMean(population_mean([0.0] * 9, [1.0] * 9), 9, 9)
    good = GroupMean(population_mean([1.0] * 500, [1.0] * 500), 500, 500)
    assert differing([bad, good, GroupMean(None, 0, 100)]) == [0.0, 0.0, 0.0]
    assert differing([]) == []


def test_the_report_shows_the_worst_group_first(store, capsys):
    """With what was judged and whether it is worse than the others."""
    command = ["report", "--store", str(store), "--by", "tag:tenant", "--by", "model"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    first = next(line for line in lines if line.startswith("groundedness"))
    assert first.split()[1] == "globex"
    assert "worse by" in first
    assert "(none)" in text
    assert "15 groups were looked at" in text
    assert "Traffic by tag:tenant and model" in text
    assert "Feedback" in text
    assert cli.main([*command, "--json", "--where", "tag:tenant=globex"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {tuple(group["group"]) for group in report["groups"]} == {
        ("globex", "gpt-4o"), ("globex", "llama"), ("globex", SEVERAL),
    }  # fmt: skip
    assert [group["group"][0] for group in report["traffic"]["groups"]] == ["globex"] * 3


@pytest.mark.parametrize("by", ["day", "field", "name"])
def test_groupings_that_stand_alone_are_told(store, capsys, by):
    """Two groupings are of requests."""
    assert cli.main(["report", "--store", str(store), "--by", by, "--by", "model"]) == 2
    assert "stands alone" in capsys.readouterr().err
