"""The fields of answers: what is doubtful, what people said of it, and what is forgotten."""

from contextlib import closing

import pytest

from llmeval_sdk.model import Batch
from llmeval_sdk.store.fields import (
    ACCEPT,
    doubtful_fields,
    draw_values,
    field_summaries,
    field_traffic,
    labelled_chances,
    scored_field,
    spans_without,
    worst_fields,
)
from llmeval_sdk.store.filters import read_filter
from llmeval_sdk.store.forgetting import belongings_of, forget
from llmeval_sdk.store.frames import ALL_TRAFFIC, Frame
from llmeval_sdk.store.labelling import add_feedback, human_label
from llmeval_sdk.store.labels import labels_of
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.selection import selection_of


def entry(path, chance, value="41.50", **more):
    return {"path": path, "value": value, "chance": chance, "checked": chance is not None, **more}


@pytest.fixture
def answer(writer, make):
    """Store an answer with some fields, and return its span."""

    def store(*entries, **options):
        span = make.span(**options)
        risk = make.evaluation(span, "extraction_risk", 0.5, metadata={"fields": list(entries)})
        writer.write(Batch((span,), (risk,)))
        return span

    return store


@pytest.fixture
def read(path):
    """Do one reading of the store."""

    def reading(work, where=()):
        with closing(StoreReader(path, selection=selection_of(where))) as reader:
            return reader.read(work)

    return reading


def paths(read, **options):
    return [each.path for each in read(lambda store: doubtful_fields(store, **options))]


def test_doubtful_fields_come_worst_first(answer, read):
    """What is above one chance in five is listed; what was not checked is not."""
    answer(entry("total", 0.9, reason="it stands under 'Subtotal'"), entry("vendor", 0.1))
    answer(entry("due", 0.95), entry("note", None), entry("id", 0.21))
    assert paths(read) == ["due", "total", "id"]
    total = read(doubtful_fields)[1]
    assert (total.value, total.reason) == ("41.50", "it stands under 'Subtotal'")


def test_a_field_that_is_always_doubtful_does_not_hide_the_others(answer, read):
    """A list has a few values of each field, also where they stand in one list of one answer."""
    answer(*(entry(f"lines[{place}].amount", 0.9) for place in range(9)), entry("vendor", 0.3))
    assert paths(read, most_of_a_field=2)[2:] == ["vendor"]
    assert {each.field for each in read(doubtful_fields)} == {"lines.amount", "vendor"}


def test_a_labelled_field_needs_no_second_look(answer, path, read):
    """A label of one field leaves the other fields of the answer in the list."""
    span = answer(entry("total", 0.9), entry("due", 0.8))
    add_feedback(path, human_label(span, "extraction_correctness", "no", field="total"))
    assert paths(read) == ["due"]
    add_feedback(path, human_label(span, "extraction_correctness", "yes"))
    assert paths(read) == []


def test_the_verdict_of_the_judge_stands_beside_the_field(answer, writer, make, read):
    """A doubtful field says what the judge said of it, and the summary counts both."""
    span = answer(entry("total", 0.9), entry("due", 0.8))
    verdict = {"path": "total", "rating": "no", "chance": 1.0, "right_value": "44.82"}
    right = {"path": "vendor", "rating": "yes", "chance": 0.0}
    judged = make.evaluation(
        span,
        "extraction_correctness",
        "no",
        evaluator_kind="judge",
        metadata={"fields": [verdict, right]},
    )
    writer.write(Batch((), (judged,)))
    total, due = read(doubtful_fields)
    assert (total.path, total.verdict["right_value"]) == ("total", "44.82")
    assert (due.path, due.verdict) == ("due", {})
    total, due = read(field_summaries)
    assert (total.field, total.count, total.judged, total.judged_wrong) == ("total", 1, 1, 1)
    assert (due.field, due.judged, due.labelled) == ("due", 0, 0)


def test_a_label_of_a_field_is_no_label_of_the_answer(answer, path, read):
    """Judges are measured by what people say of the answers that they judged."""
    span = answer(entry("total", 0.9), entry("due", 0.8))
    add_feedback(path, human_label(span, "extraction_correctness", "no", field="total"))
    assert read(lambda store: labels_of(store, "extraction_correctness")) == {}


def test_fields_are_summed_up_by_name(answer, path, read):
    """How many are doubtful, not checked, probably wrong, labelled and wrong by the labels."""
    span = answer(
        entry("total", 0.9), entry("lines[0].amount", 0.1), entry("lines[1].amount", None)
    )
    answer(entry("total", 0.3))
    for value in ("yes", "no"):  # the later one counts
        add_feedback(path, human_label(span, "extraction_correctness", value, field="total"))
    total, amount = read(field_summaries)
    assert (total.field, total.count, total.doubtful, total.labelled, total.wrong) == (
        "total",
        2,
        2,
        1,
        1,
    )
    assert total.expected_wrong == pytest.approx(1.2)
    assert (amount.field, amount.count, amount.not_checked, amount.labelled) == (
        "lines.amount",
        2,
        1,
        0,
    )


def test_the_label_of_an_answer_with_one_field_counts_for_the_field(answer, path, read):
    """An extraction of a single value is labelled as a whole."""
    span = answer(entry("total", 0.9))
    add_feedback(path, human_label(span, "extraction_correctness", "no"))
    (total,) = read(field_summaries)
    assert (total.labelled, total.wrong) == (1, 1)


def test_the_worst_field_of_an_answer_is_known(answer, read):
    """Lists of requests show it beside the score."""
    span, other = answer(entry("total", 0.9), entry("due", 0.95)), answer(entry("id", None))
    worst = read(lambda store: worst_fields(store, [span.span_id, other.span_id]))
    assert {key: each.path for key, each in worst.items()} == {span.span_id: "due"}


@pytest.mark.parametrize(
    "fields",
    [
        "total",
        [None, 3, {"path": 7}, {"value": "x"}],
        [{"path": "a" * 5_000, "chance": 7}, {"path": "b", "chance": float("nan")}, {"path": "c", "chance": True}],
        [{"path": "\ud800", "value": "\ud800", "chance": 0.9}] * 20_000,
    ],
)  # fmt: skip
def test_metadata_of_a_stranger_does_not_stop_the_store(writer, make, read, fields):
    """Any evaluator may call its metadata so; what is no field is left out, and all is bounded."""
    span = make.span()
    strange = make.evaluation(span, "extraction_risk", 0.5, metadata={"fields": fields})
    assert writer.write(Batch((span,), (strange,))) is None
    listed = read(
        lambda store: doubtful_fields(store, above=-1.0, most_of_a_field=1_000, most=9_999)
    )
    assert len(listed) <= 500
    assert all(len(each.path) <= 200 and 0 <= each.chance <= 1 for each in listed)


class Hostile(dict):
    """A mapping of the app that raises whatever it is asked."""

    def get(self, *_):
        raise RuntimeError("no")


def test_metadata_that_cannot_be_read_costs_no_other_record(writer, make, read):
    """Neither the batch is lost nor the evaluation itself, and nothing is counted twice."""
    span = make.span()
    strange = make.evaluation(span, "odd", 0.5, metadata={"fields": [Hostile(path="total")]})
    risk = make.evaluation(span, "extraction_risk", 0.5, metadata={"fields": [entry("due", 0.9)]})
    assert writer.write(Batch((span,), (strange, risk))) is None
    assert paths(read) == ["due"]
    names = read(
        lambda store: store.execute("SELECT name FROM evaluations ORDER BY name").fetchall()
    )
    assert names == [("extraction_risk",), ("odd",)]


def test_a_value_that_was_scored_twice_counts_once(writer, make, path, read):
    """Otherwise a promise would rest on twice the labels that there are."""
    spans = [make.span() for _ in range(30)]
    for turn in ("first", "again"):
        scores = [
            make.evaluation(
                span, "extraction_risk", 0.5, id=f"{span.span_id}-{turn}",
                time_ns=span.end_ns + len(turn), metadata={"fields": [entry("total", 0.9)]},
            )
            for span in spans
        ]  # fmt: skip
        writer.write(Batch(tuple(spans), tuple(scores)))
    for span in spans:
        label = human_label(span, "extraction_correctness", "no", field="total", purpose=ACCEPT)
        add_feedback(path, label)
    traffic = read(lambda store: field_traffic(store, "total"))
    assert (len(traffic.scores), len(traffic.labels)) == (30, 30)
    assert read(field_summaries)[0].count == 30
    assert read(lambda store: draw_values(store, "total", 10)).total == 30


def test_scores_of_former_versions_are_no_traffic(writer, make, read):
    """A threshold on one version's chances says nothing of another's."""
    for version, count in (("1", 5), ("2", 3)):
        spans = [make.span() for _ in range(count)]
        given = {"evaluator_version": version, "metadata": {"fields": [entry("total", 0.9)]}}
        scores = [make.evaluation(span, "extraction_risk", 0.5, **given) for span in spans]
        writer.write(Batch(tuple(spans), tuple(scores)))
    assert len(read(lambda store: field_traffic(store, "total")).scores) == 3


@pytest.fixture
def label_drawn(path, read):
    """Draw values, and label the first of those that wait as ``right`` says of their span."""

    def label(count, right, most=None, where=(), since_ns=0, **options):
        frame = Frame(read_filter(where).texts, since_ns)
        drawn = read(lambda store: draw_values(store, "total", count, frame, **options), where)
        with closing(StoreReader(path)) as reader:
            for row, field in drawn.waiting[:most]:
                scored = reader.read(lambda store, row=row: scored_field(store, row))
                span = reader.span(scored.span_id)
                value = "yes" if right(span) else "no"
                said = human_label(
                    span, "extraction_correctness", value, field=field, purpose=ACCEPT,
                    drawn=drawn.draw.as_metadata(), inclusion_probability=drawn.chance,
                )  # fmt: skip
                add_feedback(path, said)
        return drawn

    return label


def test_labels_of_two_draws_are_not_one_sample(answer, label_drawn, read):
    """The traffic that was there at the first draw would count more often than it happens."""
    for _ in range(60):
        answer(entry("total", 0.5), name="old")
    label_drawn(30, lambda span: True)
    for _ in range(540):
        answer(entry("total", 0.5), name="new")
    label_drawn(60, lambda span: span.name == "old")
    traffic = read(lambda store: field_traffic(store, "total"))
    assert len(traffic.scores) == 600
    assert 50 <= len(traffic.labels) <= 60
    assert traffic.unlabelled == 0
    wrong = sum(label.wrong for label in traffic.labels)
    assert wrong / len(traffic.labels) > 0.75  # nine tenths of the traffic is new


def test_labels_of_a_part_are_no_sample_of_the_rest(answer, label_drawn, read):
    """Those of a period count in periods that begin no earlier, and those of a name in that one."""
    spans = [answer(entry("total", 0.5), name=name) for name in ("old", "new") for _ in range(40)]
    middle = read(lambda store: store.execute(
        "SELECT time_ns FROM fields WHERE span_id = ?", (spans[40].span_id,)
    ).fetchone())[0]  # fmt: skip
    label_drawn(30, lambda span: False, since_ns=middle)
    label_drawn(20, lambda span: True, span_name="old")

    def counted(frame=ALL_TRAFFIC, **options):
        traffic = read(lambda store: field_traffic(store, "total", frame, **options))
        return len(traffic.labels), traffic.left_out

    assert counted() == (0, 50)
    assert counted(Frame(since_ns=middle)) == (30, 0)
    assert counted(span_name="old") == (20, 0)


def test_a_sitting_that_ended_early_counts_as_far_as_it_went(answer, label_drawn, read):
    """What nobody was shown is no part of the sample, and what was skipped is counted."""
    for _ in range(40):
        answer(entry("total", 0.5))
    drawn = label_drawn(20, lambda span: True, most=8)
    traffic = read(lambda store: field_traffic(store, "total"))
    assert (len(drawn.waiting), len(traffic.labels), traffic.unlabelled) == (20, 8, 0)


def test_a_draw_of_one_span_name_says_nothing_of_the_others(answer, label_drawn, read):
    """Labels of invoices are no sample of invoices and letters together."""
    for name in ("invoice", "letter") * 20:
        answer(entry("total", 0.5), name=name)
    label_drawn(10, lambda span: True, span_name="invoice")
    assert read(lambda store: field_traffic(store, "total")).labels == ()
    of_invoices = read(lambda store: field_traffic(store, "total", span_name="invoice"))
    assert len(of_invoices.labels) == 10


ACME, BOTH = ("tag:tenant=acme",), ("tag:tenant=acme", "tag:plan=paid")


@pytest.fixture
def tenants(answer):
    """Store 90 totals of two tenants, a third of them of acme, which pays for every second."""
    return [
        answer(
            entry("total", 0.5),
            tags={"tenant": "beta" if number % 3 else "acme", "plan": ("paid", "free")[number % 2]},
        )
        for number in range(90)
    ]


@pytest.fixture
def counted(read):
    """Return how many labels count in a group, were left out there and are missing."""

    def count(where=(), **options):
        frame = Frame(read_filter(where).texts)
        traffic = read(lambda store: field_traffic(store, "total", frame, **options), where)
        return len(traffic.labels), traffic.left_out, traffic.unlabelled

    return count


def test_labels_of_all_traffic_are_a_sample_of_each_group(tenants, label_drawn, counted):
    """Those of the group's values count there, and in a part of the group those of its values."""
    label_drawn(60, lambda span: True)
    of_acme, of_beta = counted(ACME)[0], counted(("tag:tenant=beta",))[0]
    assert of_acme + of_beta == counted()[0] == 60
    assert 10 <= of_acme <= 30
    assert 0 < counted(BOTH)[0] < of_acme
    assert counted(ACME)[1:] == counted(BOTH)[1:] == (0, 0)


def test_labels_of_a_group_count_in_it_and_in_parts_of_it_alone(tenants, label_drawn, counted):
    """They say nothing of other tenants, of all, or of a group that is another part of all."""
    label_drawn(20, lambda span: True, where=ACME)
    assert counted(ACME) == (20, 0, 0)
    assert 0 < counted(BOTH)[0] < 20
    assert counted() == (0, 20, 0)
    assert counted(("tag:tenant=beta",)) == (0, 0, 0)
    assert counted(("tag:plan=paid",))[0] == 0
    assert counted(("tag:tenant=acme,beta",)) == (0, 20, 0)


def test_what_was_labelled_in_a_draw_over_all_waits_in_no_draw_of_a_group(
    tenants, label_drawn, counted
):
    """The labels of both are one sample of the group, because all draws go in one order."""
    label_drawn(60, lambda span: True)
    known = counted(ACME)[0]
    drawn = label_drawn(30, lambda span: True, where=ACME)
    assert len(drawn.waiting) == 30 - known
    assert counted(ACME) == (30, 0, 0)


def test_values_that_were_shown_and_skipped_are_missing_in_their_group(
    tenants, label_drawn, read, path, counted
):
    """Also those after the last label of the group, as long as another one was labelled later."""
    drawn = read(lambda store: draw_values(store, "total", 45))
    with closing(StoreReader(path)) as reader:
        for row, field in drawn.waiting:
            span = reader.span(reader.read(lambda c, row=row: scored_field(c, row)).span_id)
            if span.tags["tenant"] == "acme":
                skipped = span
                continue
            add_feedback(path, human_label(
                span, "extraction_correctness", "yes", field=field, purpose=ACCEPT,
                drawn=drawn.draw.as_metadata(),
            ))  # fmt: skip
        add_feedback(path, human_label(
            skipped, "extraction_correctness", "yes", field="total", purpose=ACCEPT,
            drawn=drawn.draw.as_metadata(),
        ))  # fmt: skip
    labels, _, missing = counted(ACME)
    assert labels == 1
    assert missing >= 5


def test_many_draws_of_groups_do_not_hide_the_draw_over_all(answer, label_drawn, counted):
    """Each of thirty tenants has more labels of its own than there are of all traffic."""
    for number in range(240):
        answer(entry("total", 0.5), tags={"tenant": f"t{number % 30}"})
    label_drawn(6, lambda span: True)
    for number in range(30):
        label_drawn(8, lambda span: True, where=(f"tag:tenant=t{number}",))
    labels, left_out, _ = counted()
    assert labels == 6
    assert left_out == 240 - 6


@pytest.mark.parametrize(
    "where", [5, "tag:tenant=acme", {"tag": "tenant"}, [["tag:tenant=acme"]], [None], ["x"] * 9_999]
)
def test_a_label_whose_part_of_the_traffic_cannot_be_read_counts_nowhere(
    tenants, path, counted, where
):
    """Metadata of feedback come from anywhere, and must not widen what a label stands for."""
    for span in tenants[:30]:
        add_feedback(path, human_label(
            span, "extraction_correctness", "yes", field="total", purpose=ACCEPT,
            drawn={"up_to": 1_000, "since_ns": 0, "span_name": None, "where": where},
        ))  # fmt: skip
    assert counted()[0] == 0
    assert counted(ACME)[0] == 0


@pytest.mark.parametrize("drawn", ["all", 7, [], {"up_to": "1"}, {"up_to": 1, "since_ns": None}])
def test_what_is_no_draw_is_that_of_an_app_that_draws_itself(tenants, path, counted, drawn):
    """Such labels are a sample of what they are labels of, in each group as well."""
    for span in tenants[:30]:
        add_feedback(path, human_label(
            span, "extraction_correctness", "yes", field="total", purpose=ACCEPT, drawn=drawn,
        ))  # fmt: skip
    assert counted() == (30, 0, 0)
    assert counted(ACME) == (10, 0, 0)


def test_chances_are_not_calibrated_by_labels_of_a_group(tenants, label_drawn, read):
    """The chance of such a label holds among the group's values, and the calibration is of all."""
    label_drawn(20, lambda span: True, where=ACME)
    assert read(labelled_chances) == []
    label_drawn(20, lambda span: True)
    assert 0 < len(read(labelled_chances)) <= 20


def test_spans_that_lack_the_tag_of_their_request_are_counted(answer, read, make, writer):
    """A rule of an app knows the tags of the span alone, and a filter those of the request."""
    child = answer(entry("total", 0.5), tags={"plan": "paid"})
    parent = make.span(trace=child.trace_id, tags={"tenant": "acme"})
    writer.write(Batch((parent,), ()))
    answer(entry("total", 0.5), tags={"tenant": "acme"})
    where = read_filter(ACME)
    assert read(lambda store: spans_without(store, "total", where, 0, None), ACME) == 1
    assert read(lambda store: spans_without(store, "due", where, 0, None), ACME) == 0


def test_an_answer_that_is_delivered_twice_has_its_fields_once(writer, make, read):
    """Delivery may repeat a batch."""
    span = make.span()
    risk = make.evaluation(span, "extraction_risk", 0.5, metadata={"fields": [entry("total", 0.9)]})
    for _ in range(2):
        writer.write(Batch((span,), (risk,)))
    assert paths(read) == ["total"]
    assert read(field_summaries)[0].count == 1


def test_fields_are_forgotten_with_their_user(answer, path, read):
    """A value of a user's document is personal data."""
    answer(entry("total", 0.9), tags={"user_id": "user-1"})
    answer(entry("due", 0.9), tags={"user_id": "user-2"})
    forget(path, read(lambda store: belongings_of(store, ("user-1",))))
    assert read(lambda store: store.execute("SELECT path FROM fields").fetchall()) == [("due",)]
