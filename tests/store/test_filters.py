"""One filter language selects requests, the same for every question to a store."""

import json
import sqlite3
import time

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import cli
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.filters import MAX_CONDITIONS, MAX_VALUES, Condition, Filter, read_filter
from llmeval_sdk.store.populations import populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import EvaluationScope, groups, not_run_summary
from llmeval_sdk.store.selection import Selection
from llmeval_sdk.store.span_lists import Query, listed_spans
from llmeval_sdk.store.traffic import traffic


REQUESTS = {
    # name: (tags, model, value of `quality`, value of `verdict`, thumb)
    "one": ({"tenant": "acme", "size": "10"}, "gpt-4o", 0.2, "no", True),
    "two": ({"tenant": "acme, inc", "size": "9.5"}, "gpt-4o-mini", 0.8, "yes", False),
    "three": ({"tenant": "Globex", "city": "ÉVREUX"}, "llama", None, None, None),
    "four": ({"size": "large", 'odd "tag\\': "x", "it's": "y"}, None, 0.5, "yes", None),
}
MANY = ",".join(map(str, range(MAX_VALUES + 1)))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a store with the requests above."""
    path = tmp_path_factory.mktemp("filters") / "s.db"
    llmeval.configure(store=str(path), exporters=["local"], escalations=[])
    for name, (tags, model, quality, verdict, thumb) in REQUESTS.items():
        with llmeval.workflow(
            name, tags=tags, session_id=f"chat-{name}", user_id=f"u-{name}"
        ) as span:
            if model:
                with llmeval.llm("call", model=model) as call:
                    call.annotate(metrics={"input_tokens": 10, "output_tokens": 5})
            span.annotate(request="q", response="a")
        if quality is not None:
            llmeval.submit_evaluation(label="quality", value=quality, span=span)
            llmeval.submit_evaluation(label="verdict", value=verdict, span=span)
        if thumb is not None:
            llmeval.submit_feedback(label="thumbs", value=thumb, span=span)
    with pytest.raises(LookupError), llmeval.workflow("five", tags={"tenant": "late"}):
        raise LookupError
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    return path


def selected(path, *where, until=None):
    """Return the names of the first spans of the requests that a filter selects, by both ways."""
    chosen = Selection(read_filter(where), until=until)
    with StoreReader(path, selection=chosen) as reader:
        names = {span.name for span in listed_spans(reader, Query(), 100)}
    if until is None:
        with StoreReader(path) as reader:
            query = Query(where=read_filter(where))
            assert {span.name for span in listed_spans(reader, query, 100)} == names
    return names


ALL = {"one", "two", "three", "four", "five"}


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("tag:tenant=acme", {"one"}),
        ("tag:tenant = acme ", {"one"}),
        ('tag:tenant="acme, inc"', {"two"}),
        ('tag:tenant=acme,"acme, inc",nobody', {"one", "two"}),
        ("tag:tenant!=acme", ALL - {"one"}),
        ("tag:tenant~ACME", {"one", "two"}),
        ("tag:city~É", {"three"}),
        ("tag:city~é", set()),
        ("tag:tenant!~acme", ALL - {"one", "two"}),
        ("tag:tenant", ALL - {"four"}),
        ("tag:tenant=", {"four"}),
        ("tag:tenant!=", ALL - {"four"}),
        ("tag:size>9.7", {"one"}),
        ("tag:size<=10", {"one", "two"}),
        ("tag:size=large", {"four"}),
        ("tag:it's=y", {"four"}),
        ("model=gpt-4o", {"one"}),
        ("model~gpt-4o", {"one", "two"}),
        ("model=", {"four", "five"}),
        ("user=u-one", {"one"}),
        ("session=chat-two,chat-one", {"one", "two"}),
        ("name=call", {"one", "two", "three"}),
        ("error", {"five"}),
        ("error=", ALL - {"five"}),
        ("error~lookup", {"five"}),
        ("latency<1h", ALL),
        ("latency>1h", set()),
        ("cost>1", set()),
        ("score:quality<0.5", {"one"}),
        ("score:quality=0.50", {"four"}),
        ("score:quality", {"one", "two", "four"}),
        ("score:quality=", {"three", "five"}),
        ("score:verdict=no", {"one"}),
        ("score:verdict>=1", {"two", "four"}),
        ("score:verdict!=yes", {"one", "three", "five"}),
        ("feedback:thumbs=fail", {"two"}),
        ("feedback:thumbs=1", {"one"}),
        ("feedback:thumbs", {"one", "two"}),
    ],
)
def test_a_condition_selects_the_requests_of_which_it_holds(path, where, names):
    """As a set of requests, and as a test of one request of a list."""
    assert selected(path, where) == names


@pytest.mark.parametrize("where", [(), ("tag:tenant",)])
def test_a_filter_leaves_the_times_of_a_list_alone(path, where):
    """A list until now has the requests of before, with a filter and without one."""
    with StoreReader(path) as reader:
        query = Query(where=read_filter(where), until=time.time_ns())
        assert len(listed_spans(reader, query, 9)) == (4 if where else 5)
        assert listed_spans(reader, Query(where=read_filter(where), until=1), 9) == []


def test_all_conditions_have_to_hold(path):
    """Negated ones among them."""
    assert selected(path, "model~gpt", "score:verdict!=no", "tag:size") == {"two"}


def test_a_tag_whose_name_no_path_can_hold_is_compared_too(path):
    """A quote and a backslash stand in it."""
    odd = Filter((Condition("tag", 'odd "tag\\', "=", values=("x",)),))
    with StoreReader(path, selection=Selection(odd)) as reader:
        assert [span.name for span in listed_spans(reader, Query(), 9)] == ["four"]


def test_requests_from_before_a_time_are_selected(path):
    """None began before the store did."""
    assert selected(path, until=time.time_ns()) == ALL
    assert selected(path, until=1) == set()


def test_every_reading_is_about_the_selected_requests(path):
    """Scores, judges and traffic of one request."""
    with StoreReader(path, selection=Selection(read_filter(["tag:tenant=acme"]))) as reader:
        scope = EvaluationScope()
        found = {part.name: part.rows for part in reader.read(lambda c: groups(c, scope))}
        assert found["quality"] == found["verdict"] == 1
        assert reader.counts().spans == 2
        summed = reader.read(lambda c: traffic(c, by="name"))
        assert {group.key: group.count for group in summed.groups} == {"one": 1, "call": 1}
        by_tag = reader.read(lambda c: traffic(c, by="tag:tenant"))
        assert {group.key: group.count for group in by_tag.groups} == {"acme": 1}
        assert all(each.funnel.scored <= 1 for each in populations(reader, scope))
        assert reader.read(lambda c: not_run_summary(c, scope)) == []
        (feedback,) = reader.feedback()
        assert feedback.target.span_name == "one"


def test_evaluations_of_other_spans_are_left_out_where_the_filter_names_spans(path):
    """The request is selected whole, and its scores by the name."""
    with StoreReader(path, selection=Selection(read_filter(["name=call"]))) as reader:
        assert {part.span_name for part in reader.read(lambda c: groups(c, EvaluationScope()))} <= {
            "call"
        }
        assert reader.counts().spans == 6


def test_several_connections_share_one_selection_and_its_file_goes(path):
    """Parallel readings do not look for the requests again."""
    selection = Selection(read_filter(["tag:tenant=acme"]))
    with StoreReader(path, selection=selection) as reader:
        counts = reader.read_at_once(
            [lambda c: c.execute("SELECT count(*) FROM spans").fetchone()] * 3
        )
        assert counts == [(2,)] * 3
        file = selection._file
        assert file.exists()
        assert file.parent.stat().st_mode & 0o77 == 0
    selection.close()
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected the name of a field"),
        ("modl=x", "did you mean 'model'"),
        ("tenant=acme", "did you mean 'tag:tenant'"),
        ("tga:tenant=acme", "did you mean 'tag'"),
        ("tag=acme", "as in tag:NAME"),
        ("model:gpt=1", "has no further name"),
        ("model<3", "is a text"),
        ("latency~3", "is a number"),
        ("latency", "is a number"),
        ("latency>soon", "such as 2s"),
        ("cost>", "expected a value"),
        ("score:q<x", "expected a number"),
        ("score:q<nan", "expected a number"),
        ("tag:t~", "expected a value"),
        (f"tag:t={MANY}", f"at most {MAX_VALUES:,}"),
        ("tag:t=" + "x" * 30_000, "at most 20,000 characters"),
    ],
)
def test_what_is_no_condition_is_refused_with_what_to_write(text, says):
    """The error repeats the beginning of the condition."""
    with pytest.raises(ConfigurationError, match=says) as error:
        read_filter([text])
    assert len(str(error.value)) < 400


def test_too_many_conditions_are_refused():
    """A filter is written by a person."""
    with pytest.raises(ConfigurationError, match=f"at most {MAX_CONDITIONS}"):
        read_filter(["model"] * (MAX_CONDITIONS + 1))


@pytest.mark.parametrize(
    "text",
    [
        "tag:a'); DROP TABLE spans; --=x", "tag:tenant=x'; DROP TABLE spans; --",
        "model~%' OR 1=1 --", "name='' OR ''=''", "score:q' OR 1=1 --<1", "tag:$.a[0]=1",
        'tag:"a=b"=c', "tag:\x00=\x00", "tag:é=ü", "tag:(a+)+$~aaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    ],
)  # fmt: skip
def test_sql_in_a_filter_is_text(path, text):
    """It selects what has that text: nothing."""
    assert selected(path, text) == set()
    with sqlite3.connect(path) as store:
        assert store.execute("SELECT count(*) FROM spans").fetchone()[0] > 5


def test_a_thousand_values_are_compared(path):
    """They are one argument."""
    values = ",".join(map(str, range(MAX_VALUES - 1)))
    assert selected(path, f"tag:tenant={values},acme") == {"one"}


def test_python_asks_the_same_questions(path):
    """`llmeval.open_store` takes the words of the commands."""
    with llmeval.open_store(path, where="tag:tenant", by="model", since="1h") as store:
        assert {span.name for span in store.traces()} == {"one", "two", "three", "five"}
        estimates = {(one.judge, one.group): one for one in store.estimates("quality")}
        assert estimates["quality", "gpt-4o"].estimate.mean == 0.2
        assert {group.key for group in store.traffic().groups} >= {"gpt-4o", "llama"}
        assert {one.evaluator for one in store.scores()} >= {"quality", "verdict"}
        spans = [stored.span.name for stored in store.spans()]
        assert sorted(spans) == ["call", "call", "call", "five", "one", "three", "two"]
    with llmeval.open_store(path) as store:
        assert len(store.traces()) == 5
        assert store.estimates("quality") == []
        assert store.traffic().by == "name"


@pytest.mark.parametrize(
    "options", [{"where": "tenant=a"}, {"by": "tenant"}, {"since": "soon"}, {"until": "soon"}]
)
def test_python_refuses_what_the_commands_refuse(path, options):
    """With the same words."""
    with pytest.raises(ConfigurationError, match=r"tag:|time"):
        llmeval.open_store(path, **options)


def test_what_a_filter_selects_can_be_deleted(path, tmp_path, capsys):
    """With what was said of it, and nothing else."""
    copy = tmp_path / "llmeval.db"
    with sqlite3.connect(path) as store, sqlite3.connect(copy) as to:
        store.backup(to)
    copy.chmod(0o600)
    command = ["prune", "--store", str(copy), "--where", "tag:tenant~acme"]
    assert cli.main([*command, "--dry-run"]) == 0
    assert "2 traces with 4 spans would go" in " ".join(capsys.readouterr().out.split())
    assert selected(copy) == ALL
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 4
    assert selected(copy) == ALL - {"one", "two"}
    with StoreReader(copy) as reader:
        assert len(reader.feedback()) == 0
    assert cli.main(command) == 1
    assert cli.main([*command, "--user", "u"]) == 2


IGNORED = {
    "rows of a file": ("evaluate", "rows.jsonl"),
    "named requests": ("dataset", "add", "golden", "1234abcd"),
    "chances of all fields": ("judges", "--calibrate", "--evaluator", "extraction_risk"),
}


@pytest.mark.parametrize("use", IGNORED)
def test_a_filter_that_would_choose_nothing_is_refused(path, capsys, use):
    """It never looks as if it had been followed."""
    command = [*IGNORED[use], "--store", str(path), "--where", "tag:tenant=acme"]
    assert cli.main(command) == 2
    assert "--where" in capsys.readouterr().err


def test_groups_without_scores_are_told(path, capsys):
    """An evaluator that never ran is no good result."""
    command = ["report", "--store", str(path), "--by", "tag:tenant", "--evaluator", "never"]
    assert cli.main(command) == 0
    assert "No scores match that have a mean." in capsys.readouterr().out


def test_labels_that_match_nothing_are_refused_in_groups_too(path, capsys):
    """As in the plain report."""
    command = ["report", "--store", str(path), "--by", "tag:tenant", "--labels", "nothing"]
    assert cli.main(command) == 2
    assert "nothing" in capsys.readouterr().err


def test_a_filter_by_ids_that_are_hashed_says_that_it_may_miss_some(
    tmp_path, capsys, monkeypatch, caplog
):
    """Without the key nobody can tell whose the hashes are; in Python the log says so."""
    store = tmp_path / "hashed.db"
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "k" * 32)
    llmeval.configure(store=str(store), exporters=["local"])
    with llmeval.workflow("answer", user_id="u-1"):
        pass
    assert llmeval.flush(20).complete
    llmeval.shutdown()
    command = ["traces", "--store", str(store), "--where", "user=u-1"]
    assert cli.main(command) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("LLMEVAL_HASH_IDS")
    assert cli.main(command) == 1
    assert "some requests may be missing" in capsys.readouterr().err
    for where, may_miss in (
        ("user=u-1", True),
        ("user=hmac-" + "0" * 32, False),
        ("name=x", False),
    ):
        caplog.clear()
        with llmeval.open_store(store, where=where) as opened:
            assert opened.traces() == []
        assert ("some requests may be missing" in caplog.text) is may_miss


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("tag:tenant=acme", " tag:tenant = acme ", "tag:tenant=Acme"),
        ("tag:tenant=b,a,a", "tag:tenant=a, b", "tag:tenant=a"),
        ('tag:tenant="acme, inc"', ' tag:tenant="acme, inc"', "tag:tenant=acme,inc"),
        ('tag:"a=b"=x', 'tag:"a=b"= x', "tag:a=b"),
        ("tag:tenant~AC,me", "tag:tenant~ac,ME", "tag:tenant!~ac,me"),
        ("tag:tenant", "tag:tenant!=", "tag:tenant="),
        ("latency>2s", "latency>2000ms", "latency>=2s"),
        ("cost<$0.10", "cost<0.1", "cost<0.1000000001"),
        ("score:verdict=Yes", "score:verdict=yes", "score:verdict!=yes"),
        ("user=" + "u" * 900, "user=" + "u" * 900, "user=" + "u" * 899),
    ],
)
def test_a_condition_has_one_text_however_it_is_written(one, same, other):
    """By which the draws of labels are compared with what is asked."""
    text = read_filter([one]).texts
    assert read_filter([same]).texts == text
    assert read_filter([other]).texts != text
    (short,) = text
    assert len(short) <= 200
    if len(one) < 200:
        assert read_filter([short]).texts == text


def test_the_text_of_a_condition_has_no_id_that_is_hashed_elsewhere(monkeypatch):
    """It is stored with labels."""
    plain = read_filter(["user=ada,bob"]).texts
    assert plain == {"user=ada,bob"}
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "k" * 32)
    (hashed,) = read_filter(["user=bob,ada"]).texts
    assert hashed.count("hmac-") == 2
    assert not {"ada", "bob"} & set(hashed.replace("=", ",").split(","))
    assert read_filter([hashed]).texts == {hashed}
