"""``llmeval compare`` shows what a version changed, and what its mix of requests did."""

import json
import re
from contextlib import closing

import pytest
from raw_store import HOUR, RawStore


BY = ("--by", "tag:prompt_version")


class Versions(RawStore):
    """A store with traffic of several versions, half of it judged at random."""

    def serve(
        self, tags, bad, count, *, name="answer", hours=(48, 1), chance=0.5, judge="1", **given
    ):
        """Serve requests within the hours before now."""
        value_of = given.get("value_of", lambda is_bad: "no" if is_bad else "yes")
        self.connection.execute("BEGIN")
        for _ in range(count):
            trace, span = f"{self.rng.getrandbits(128):032x}", f"{self.rng.getrandbits(64):016x}"
            at = self.now - self.rng.randrange(hours[1] * HOUR, hours[0] * HOUR)
            text = tags if isinstance(tags, str) else json.dumps(tags)
            self.insert("spans", trace_id=trace, span_id=span, name=name, start_ns=at, tags=text)
            if given.get("model"):
                self.insert(
                    "spans", trace_id=trace, span_id=span[::-1], parent_id=span, name="ask",
                    kind="llm", model_name=given["model"], start_ns=at,
                )  # fmt: skip
            about = {
                "id": f"{span}-g",
                "trace_id": trace,
                "span_id": span,
                "span_name": name,
                "time_ns": at,
            }
            lost = self.rng.random() < given.get("lost", 0.0)
            if self.rng.random() >= chance:
                self.insert("not_run", **about, evaluator="groundedness", reason="not_escalated")
            elif lost:
                why = given.get("why", "timeout")
                self.insert("not_run", **about, evaluator="groundedness", reason=why)
            else:
                value = value_of(self.rng.random() < bad)
                self.insert(
                    "evaluations", **about, name="groundedness", evaluator_kind="judge", value=value,
                    evaluator_version=judge, inclusion_probability=given.get("weight", chance),
                )  # fmt: skip
        self.connection.execute("COMMIT")


@pytest.fixture
def versions(tmp_path):
    with closing(Versions(tmp_path / "store" / "llmeval.db", seed=8)) as store:
        yield store


@pytest.fixture
def compare(llmeval, versions):
    def run(*args):
        return llmeval("compare", "--store", versions.path, *args)

    return run


def test_a_worse_version_is_named_with_its_interval(compare, versions):
    """Exit code 1, the difference with its interval, in words and as JSON."""
    versions.serve({"prompt_version": "v1"}, 0.05, 1_500, hours=(50, 1))
    versions.serve({"prompt_version": "v2"}, 0.30, 1_500, hours=(49, 1))
    done = compare(*BY)
    assert (done.returncode, done.stderr) == (1, "")
    assert "worse" in done.stdout
    (found,) = json.loads(compare(*BY, "--json").stdout)["compared"]
    assert (found["baseline"], found["version"], found["outcome"]) == ("v1", "v2", "worse")
    interval = found["estimate"]["difference"]
    assert interval["low"] < -0.25 < interval["high"] < 0
    assert compare(*BY, "--baseline", "v2").returncode == 0  # v1 is better


def test_what_several_judges_have_in_common_is_said_once(compare, versions):
    """One note with the names that it is about, in place of one for each."""
    versions.serve({"prompt_version": "1"}, 0.1, 300)
    versions.serve({"prompt_version": "2"}, 0.1, 300)
    versions.serve({}, 0.1, 9)
    columns = {
        "evaluations": "trace_id, span_id, span_name, time_ns, evaluator_kind, value,"
        " evaluator_version, inclusion_probability",
        "not_run": "trace_id, span_id, span_name, time_ns, reason",
    }
    for table, same in columns.items():
        name = "name" if table == "evaluations" else "evaluator"
        versions.connection.execute(
            f"INSERT INTO {table} (id, {name}, {same}) SELECT id || 'c', 'correctness', {same}"
            f" FROM {table} WHERE {name} = 'groundedness'"
        )
    told = " ".join(compare(*BY).stdout.split())
    assert told.count("requests without a") == 1
    assert "correctness; groundedness: 9 requests without a" in told
    assert told.count("would show a difference of five points") == 1


def test_equal_versions_exit_with_0_and_say_how_many_more_it_takes(compare, versions):
    """No difference is shown, which is no proof that there is none."""
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 400)
    done = compare(*BY)
    assert done.returncode == 0
    assert "no difference shown" in done.stdout
    assert "judged requests, those of both versions added up, would show a" in done.stdout


def test_a_difference_that_would_have_been_seen_is_said(compare, versions):
    """With enough verdicts no difference is news: one of five points is ruled out."""
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.02, 2_500)
    done = compare(*BY)
    assert "a difference of five points would have been seen" in done.stdout
    assert "judged requests, those" not in done.stdout


def test_what_lost_judgements_may_hide_is_not_ruled_out(compare, versions):
    """A third of one version's judgements timed out: how many is said, and nothing is promised."""
    versions.serve({"prompt_version": "v1"}, 0.02, 2_500)
    versions.serve({"prompt_version": "v2"}, 0.02, 3_500, lost=0.33)
    done = compare(*BY)
    told = " ".join(done.stdout.split())
    assert "would have been seen" not in told
    assert "with so many judgements lost, a difference of five points may be hidden" in told
    assert re.search(r"3\d% of the judgements of v2 were lost \(\d+ of 1,\d+\)", told)
    (found,) = json.loads(compare(*BY, "--json").stdout)["compared"]
    assert found["baseline_lost"] == 0
    assert found["version_lost"] > 500


UNJUDGED = {
    "lost": ({"lost": 1.0}, "no verdict: all 120 judgements were lost"),
    "modelless": ({"lost": 1.0, "why": "no_judge_model"}, "no judge model was configured for 120"),
    "unchosen": ({"chance": 0.0}, "none of its 120 requests was chosen to be judged"),
    "unweighted": ({"weight": None}, "no inclusion probabilities in its 120 verdicts"),
}


@pytest.mark.parametrize("case", UNJUDGED)
def test_a_new_version_without_verdicts_is_shown_and_passes_no_gate(compare, versions, case):
    """It has traffic and nobody knows how good it is: a row that says why, and exit code 2."""
    served, sentence = UNJUDGED[case]
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 400)
    served = {"chance": 1.0, **served}
    versions.serve({"prompt_version": "v3"}, 0.1, 120, hours=(20, 1), **served)
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert sentence in " ".join(done.stdout.split())
    found = json.loads(compare(*BY, "--json").stdout)["compared"]
    assert [(row["version"], row["outcome"]) for row in found] == [
        ("v2", "no difference shown"), ("v3", "undecided"),
    ]  # fmt: skip


def test_one_judged_version_beside_one_without_verdicts(compare, versions):
    """Nothing can be compared, and the reason is more than that there is one version."""
    versions.serve({"prompt_version": "v1"}, 0.1, 200)
    versions.serve({"prompt_version": "v2"}, 0.1, 120, chance=1.0, lost=1.0)
    done = compare(*BY)
    assert done.returncode == 1
    assert "groundedness, v2: no verdict: all 120 judgements were lost." in done.stdout


def test_a_shift_of_the_mix_is_shown_and_not_blamed_on_the_version(compare, versions):
    """The second version gets most of the hard span's requests and is not worse at either."""
    for version, easy, hard in (("v1", 1_600, 400), ("v2", 400, 1_600)):
        versions.serve({"prompt_version": version}, 0.05, easy, name="easy")
        versions.serve({"prompt_version": version}, 0.40, hard, name="hard")
    done = compare(*BY)
    assert done.returncode == 0, done.stdout
    assert "no difference shown" in done.stdout
    assert "the mix differs: span hard is 80% of its requests, and 20% of v1's" in done.stdout


def test_models_and_releases_are_versions_too(compare, versions):
    """A model is that of the llm spans of the trace; a release is the tag of that name."""
    versions.serve({"release": "1.0"}, 0.1, 300, model="small")
    versions.serve({"release": "1.1"}, 0.1, 300, model="large")
    for by, names in (("model", {"small", "large"}), ("release", {"1.0", "1.1"})):
        (found,) = json.loads(compare("--by", by, "--json").stdout)["compared"]
        assert {found["baseline"], found["version"]} == names


def test_verdicts_of_two_judges_are_never_mixed(compare, versions):
    """The judge got stricter when v2 came: what it said before is left out, and that is said."""
    versions.serve({"prompt_version": "v1"}, 0.1, 800, hours=(48, 24), judge="1")
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.4, 800, hours=(24, 1), judge="2")
    done = compare(*BY)
    assert done.returncode == 0, done.stdout
    assert (
        "groundedness: the judge changed (1 and 2), and its versions are not mixed" in done.stdout
    )


def test_versions_that_ran_one_after_the_other_are_said_to_have(compare, versions):
    versions.serve({"prompt_version": "v1"}, 0.1, 300, hours=(48, 24))
    versions.serve({"prompt_version": "v2"}, 0.1, 300, hours=(23, 1))
    assert "the two did not run at the same time" in compare(*BY).stdout


V1 = {"prompt_version": "v1"}
UNCOMPARABLE = {
    "empty": ({"count": 0}, "nothing to compare"),
    "one": ({}, "all its verdicts are of one tag:prompt_version, v1"),
    "untagged": ({"tags": {"team": "a"}}, "none of its requests has a tag:prompt_version"),
    "broken": ({"tags": "{broken"}, "none of its requests has a tag:prompt_version"),
    "unjudged": ({"chance": 0}, "nothing was judged"),
    "unweighted": ({"weight": 0}, "no inclusion probabilities"),
    "scale": ({"value_of": lambda bad: 7.0}, "leave 0..1"),
    "words": ({"value_of": lambda bad: "blue"}, "categories"),
}


@pytest.mark.parametrize("case", UNCOMPARABLE)
def test_what_cannot_be_compared_is_said(compare, versions, case):
    """A sentence and exit code 2, never a figure."""
    served, sentence = UNCOMPARABLE[case]
    versions.serve(**{"tags": V1, "bad": 0.1, "count": 90, **served})
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert sentence in done.stdout


def test_a_selection_without_a_control_sample_is_not_compared(compare, versions):
    """Verdicts that cannot stand for the rest decide nothing."""
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 200, chance=0.2, weight=1.0)
    done = compare(*BY)
    assert done.returncode == 1
    assert "no control sample" in done.stdout


def test_what_nobody_can_compare_by_is_an_error(compare, versions):
    """Words that are no dimension, names of nothing, and values without end."""
    versions.serve({"prompt_version": "v1"}, 0.1, 90)
    for args, sentence in (
        (("--by", "colour"), "expected tag:NAME"),
        (("--by", 'tag:a"b'), "expected tag:NAME"),
        ((*BY, "--evaluator", "nothing"), "no evaluator 'nothing'"),
        ((*BY, "--baseline", "v9"), "no judged request has tag:prompt_version 'v9'"),
    ):
        done = compare(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
    for number in range(1_001):
        versions.serve({"user": str(number)}, 0.1, 1)
    assert "more than 1,000 values" in compare("--by", "tag:user").stderr


def serve_cascade(
    versions, tags, bad, *, hours=(48, 1), model="gpt-x", decider="small-1", fails=False, count=600
):
    """Serve requests that a decision model decides, and half of which a judge model is asked."""
    versions.connection.execute("BEGIN")
    for _ in range(count):
        trace, span = (f"{versions.rng.getrandbits(bits):0{bits // 4}x}" for bits in (128, 64))
        at = versions.now - versions.rng.randrange(hours[1] * HOUR, hours[0] * HOUR)
        versions.insert(
            "spans", trace_id=trace, span_id=span, name="answer", start_ns=at, tags=json.dumps(tags)
        )
        about = {"trace_id": trace, "span_id": span, "span_name": "answer", "time_ns": at}
        scored = {**about, "name": "groundedness", "evaluator_version": "1"}
        is_bad = versions.rng.random() < bad
        if decider:
            versions.insert(
                "evaluations", **scored, id=f"{span}-d", evaluator_kind="decision", value="yes",
                probability=0.4 if is_bad else 0.9, inclusion_probability=1.0,
                metadata=json.dumps({"model": decider}),
            )  # fmt: skip
        reason = "error" if fails else "not_escalated" if versions.rng.random() < 0.5 else None
        if reason:
            versions.insert(
                "not_run", **about, id=f"{span}-n", evaluator="groundedness", reason=reason
            )
        else:
            versions.insert(
                "evaluations", **scored, id=f"{span}-j", evaluator_kind="judge",
                value="no" if is_bad else "yes", inclusion_probability=0.5,
                metadata=json.dumps({"model": model}),
            )  # fmt: skip
    versions.connection.execute("COMMIT")


def test_a_cascade_whose_judge_model_failed_is_not_judged(compare, versions):
    """Decisions on records that the judge model lost are no verdicts: a row that says so."""
    for name in ("v1", "v2"):
        serve_cascade(versions, {"prompt_version": name}, 0.1)
    serve_cascade(versions, {"prompt_version": "v3"}, 0.1, hours=(20, 1), fails=True, count=120)
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert "no verdict: all 120 judgements were lost" in " ".join(done.stdout.split())


def test_a_cascade_is_one_judge_and_each_request_counts_once(compare, versions):
    """A judge model that names itself after decisions keeps all its hours."""
    serve_cascade(versions, {"prompt_version": "v1"}, 0.05)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3, decider=None, hours=(30, 29), count=20)
    done = compare(*BY, "--baseline", "v1")
    assert (done.returncode, "the judge changed" in done.stdout) == (1, False), done.stdout
    (row,) = json.loads(compare(*BY, "--baseline", "v1", "--json").stdout)["compared"]
    assert row["outcome"] == "worse"
    assert 200 < row["version_judged"] < 400
    difference = row["estimate"]["difference"]
    assert difference["low"] < -0.25 < difference["high"]


def test_decisions_predict_what_the_judge_model_was_not_asked(compare, versions):
    """Their probabilities make the interval of a difference narrower."""
    serve_cascade(versions, {"prompt_version": "v1"}, 0.05)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3)

    def width():
        (row,) = json.loads(compare(*BY, "--baseline", "v1", "--json").stdout)["compared"]
        return row["estimate"]["difference"]["high"] - row["estimate"]["difference"]["low"]

    assisted = width()
    versions.connection.execute("UPDATE evaluations SET probability = NULL")
    assert assisted < 0.9 * width()


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_moved_decision_model_is_not_mixed_silently(compare, versions, is_judged):
    """Before a judge model and in its place, another decision model is another version."""
    for decider, hours in (("small-1", (48, 24)), ("small-2", (23, 1))):
        for name in ("v1", "v2"):
            serve_cascade(
                versions, {"prompt_version": name}, 0.1, hours=hours, decider=decider
            )  # fmt: skip
    if not is_judged:
        versions.connection.execute("DELETE FROM not_run")
        versions.connection.execute("DELETE FROM evaluations WHERE evaluator_kind = 'judge'")
    told = " ".join(compare(*BY).stdout.split())
    before = "1, gpt-x after" if is_judged else "1,"
    assert f"the judge changed ({before} small-1 and {before} small-2)" in told


def test_a_version_that_answers_nothing_is_worse(llmeval, versions):
    """Its lost answers are compared, and no judge's difference is ruled out over the rest."""
    versions.serve({"prompt_version": "a"}, 0.1, 1_500, chance=1.0)
    versions.serve({"prompt_version": "b"}, 0.1, 1_500, chance=1.0)
    sql = "UPDATE spans SET kind = 'workflow', request = '\"q\"', response = '\"x\"'"
    versions.connection.execute(sql)
    said = llmeval("compare", "--store", versions.path, *BY)
    assert "a difference of five points would have been seen" in " ".join(said.stdout.split())
    assert "no_answer" not in said.stdout
    lost = "UPDATE spans SET response = NULL WHERE tags LIKE '%\"b\"%' AND seq % 2"
    versions.connection.execute(lost)
    said = llmeval("compare", "--store", versions.path, *BY)
    out = " ".join(said.stdout.split())
    assert said.returncode == 1
    assert "a difference of five points would have been seen" not in out
    assert "a difference of five points may be hidden" in out
    found = json.loads(llmeval("compare", "--store", versions.path, *BY, "--json").stdout)
    row = next(each for each in found["compared"] if each["evaluator"] == "no_answer")
    assert (row["outcome"], row["baseline_mean"]) == ("worse", 0.0)
    assert 0.4 < row["version_mean"] < 0.6
