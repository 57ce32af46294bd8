"""``llmeval compare`` shows two groups of requests, their difference and how sure it is."""

import json
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


def rows(compare, *args):
    """Return the comparison of a command, and its rows by evaluator."""
    said = json.loads(compare(*BY, *args, "--json").stdout)
    return said, {row["evaluator"]: row for row in said["compared"]}


def test_a_worse_version_is_named_with_its_interval(compare, versions):
    """Exit code 1, the difference with its interval and both counts, in words and as JSON."""
    versions.serve({"prompt_version": "v1"}, 0.05, 1_500, hours=(50, 1))
    versions.serve({"prompt_version": "v2"}, 0.30, 1_500, hours=(49, 1))
    done = compare(*BY)
    assert (done.returncode, done.stderr) == (1, "")
    assert "worse" in done.stdout
    _, by_evaluator = rows(compare)
    found = by_evaluator["groundedness"]
    assert (found["baseline"], found["version"], found["outcome"]) == ("v1", "v2", "worse")
    assert min(found["baseline_judged"], found["version_judged"]) > 650
    assert found["difference"]["low"] < -0.25 < found["difference"]["high"] < 0
    assert compare(*BY, "--baseline", "v2").returncode == 0  # v1 is better


def test_equal_versions_exit_with_0(compare, versions):
    """No difference is shown, with the interval that says how large it can be."""
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 400)
    done = compare(*BY)
    assert done.returncode == 0
    assert "no difference shown" in done.stdout
    change = rows(compare)[1]["groundedness"]["difference"]
    assert change["low"] < 0 < change["high"]


def test_the_interval_of_equal_versions_holds_0_as_often_as_promised(versions):
    """Of 200 looks at two equal versions at most 5 % and what chance allows show a difference."""
    from random import Random

    from llmeval_sdk.statistics import difference, population_mean

    missed = 0
    for seed in range(200):
        rng = Random(seed)
        sides = [[float(rng.random() > 0.1) for _ in range(300)] for _ in range(2)]
        means = [population_mean(side, [0.5] * len(side)) for side in sides]
        missed += difference(*means).is_clear
    assert missed <= 20


def test_too_few_judged_requests_decide_nothing(compare, versions):
    """Ten verdicts that all fail are no proof of a version."""
    versions.serve({"prompt_version": "v1"}, 0.0, 300, chance=1.0)
    versions.serve({"prompt_version": "v2"}, 1.0, 10, chance=1.0)
    done = compare(*BY)
    assert done.returncode == 1
    assert "fewer than 30 judged requests" in done.stdout
    assert rows(compare)[1]["groundedness"]["outcome"] == "undecided"


def test_of_several_groups_two_are_chosen_and_the_others_named(compare, versions):
    """By default the newest beside the oldest; options choose others."""
    for place, name in enumerate(("v1", "v2", "v3")):
        hours = (60 - place, 1)
        versions.serve({"prompt_version": name}, 0.1, 300, hours=hours, chance=1.0)
    said, _ = rows(compare)
    assert (said["baseline"], said["version"], said["others"]) == ("v1", "v3", ["v2"])
    assert "Not compared, as --version and --baseline can be: v2." in compare(*BY).stdout
    said, _ = rows(compare, "--baseline", "v2", "--version", "v1")
    assert (said["baseline"], said["version"]) == ("v2", "v1")


def test_lost_judgements_are_counted_beside_the_version(compare, versions):
    """A third of one version's judgements timed out: how many is said."""
    versions.serve({"prompt_version": "v1"}, 0.02, 1_000)
    versions.serve({"prompt_version": "v2"}, 0.02, 1_000, lost=0.33)
    told = " ".join(compare(*BY).stdout.split())
    assert "selected records were not scored and are taken to be like the rest" in told
    assert "groundedness: v2: " in told


UNJUDGED = {
    "lost": ({"lost": 1.0}, "v3: nothing was judged, timeout 120"),
    "modelless": ({"lost": 1.0, "why": "no_judge_model"}, "no_judge_model 120"),
    "unchosen": ({"chance": 0.0}, "v3: nothing was judged, not_escalated 120"),
    "unweighted": ({"weight": None}, "v3: no inclusion probabilities"),
}


@pytest.mark.parametrize("case", UNJUDGED)
def test_a_new_version_without_verdicts_is_shown_and_passes_no_gate(compare, versions, case):
    """It has traffic and nobody knows how good it is: a row that says why, and exit code 1."""
    served, sentence = UNJUDGED[case]
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 400)
    served = {"chance": 1.0, **served}
    versions.serve({"prompt_version": "v3"}, 0.1, 120, hours=(20, 1), **served)
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert sentence in " ".join(done.stdout.split())
    row = rows(compare)[1]["groundedness"]
    assert (row["version"], row["outcome"]) == ("v3", "undecided")


def test_old_traffic_that_nobody_judged_is_no_baseline(compare, versions):
    """The oldest version that was judged is, where nobody names another."""
    versions.serve({"prompt_version": "v0"}, 0.1, 100, hours=(60, 55), chance=0.0)
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 400)
    assert rows(compare)[0]["baseline"] in ("v1", "v2")


def test_models_prompts_and_releases_are_versions_too(compare, versions):
    """A model or prompt is that of a step of the request; a release is the tag of that name."""
    versions.serve({"release": "1.0"}, 0.1, 300, model="small")
    versions.serve({"version": "1.1"}, 0.1, 300, model="large")
    versions.connection.execute(
        "UPDATE spans SET prompt = json_object('id', 'answer', 'version', model_name)"
        " WHERE kind = 'llm'"
    )
    for by, names in (
        ("model", {"small", "large"}),
        ("release", {"1.0", "1.1"}),
        ("prompt", {"answer small", "answer large"}),
    ):
        said = json.loads(compare("--by", by, "--json").stdout)
        assert {said["baseline"], said["version"]} == names


def test_requests_without_the_tag_are_counted(compare, versions):
    versions.serve({"prompt_version": "1"}, 0.1, 300)
    versions.serve({"prompt_version": "2"}, 0.1, 300)
    versions.serve({}, 0.1, 9)
    assert "9 requests without a tag:prompt_version are left out" in compare(*BY).stdout


def test_verdicts_of_two_judges_are_never_mixed(compare, versions):
    """The judge got stricter when v2 came: nothing is compared until a period has one judge."""
    versions.serve({"prompt_version": "v1"}, 0.1, 800, hours=(48, 24), judge="1")
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.4, 800, hours=(24, 1), judge="2")
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert "the judge changed (1 and 2), and its versions are not mixed" in " ".join(
        done.stdout.split()
    )
    since = compare(*BY, "--since", "23h")
    assert since.returncode == 0, since.stdout
    assert "the judge changed" not in since.stdout


def test_versions_that_ran_one_after_the_other_are_said_to_have(compare, versions):
    versions.serve({"prompt_version": "v1"}, 0.1, 300, hours=(48, 24))
    versions.serve({"prompt_version": "v2"}, 0.1, 300, hours=(23, 1))
    assert "the two did not run at the same time" in " ".join(compare(*BY).stdout.split())


def test_a_filter_compares_requests_of_one_kind(compare, versions):
    """The second version gets more of the hard span's requests and is no worse at either."""
    for version, easy, hard in (("v1", 1_600, 400), ("v2", 400, 1_600)):
        versions.serve({"prompt_version": version}, 0.05, easy, name="easy", hours=(50, 1))
        versions.serve({"prompt_version": version}, 0.40, hard, name="hard", hours=(49, 1))
    assert compare(*BY, "--baseline", "v1").returncode == 1
    for name in ("easy", "hard"):
        assert compare(*BY, "--baseline", "v1", "--where", f"name={name}").returncode == 0


V1 = {"prompt_version": "v1"}
UNCOMPARABLE = {
    "empty": ({"count": 0}, "no request has a tag:prompt_version"),
    "one": ({}, "all requests have one tag:prompt_version, v1"),
    "untagged": ({"tags": {"team": "a"}}, "no request has a tag:prompt_version"),
    "broken": ({"tags": "{broken"}, "no request has a tag:prompt_version"),
}
UNCOMPARED = {
    "unjudged": ({"chance": 0}, "nothing was judged"),
    "unweighted": ({"weight": 0}, "no inclusion probabilities"),
    "words": ({"value_of": lambda bad: "blue"}, "categories"),
}


@pytest.mark.parametrize("case", UNCOMPARABLE)
def test_one_group_is_not_compared(compare, versions, case):
    """A sentence and exit code 1, never a figure."""
    served, sentence = UNCOMPARABLE[case]
    versions.serve(**{"tags": V1, "bad": 0.1, "count": 90, **served})
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert sentence in " ".join(done.stdout.split()).lower()


@pytest.mark.parametrize("case", UNCOMPARED)
def test_what_cannot_be_compared_is_said(compare, versions, case):
    """Two groups of which nothing can be said: a sentence and exit code 1."""
    served, sentence = UNCOMPARED[case]
    for name in ("v1", "v2"):
        versions.serve(**{"tags": {"prompt_version": name}, "bad": 0.1, "count": 90, **served})
    done = compare(*BY)
    assert done.returncode == 1, done.stdout
    assert sentence in done.stdout


def test_scores_beyond_1_are_compared_on_their_own_scale(compare, versions):
    """A judge that gives stars has a difference in stars."""
    for name, stars in (("v1", 4.0), ("v2", 2.0)):
        versions.serve(
            {"prompt_version": name}, 0.2, 300, hours=(60 if stars > 3 else 59, 1), chance=1.0,
            value_of=lambda is_bad, stars=stars: stars - is_bad,
        )  # fmt: skip
    change = rows(compare, "--baseline", "v1")[1]["groundedness"]["difference"]
    assert change["low"] < -2 < change["high"]


def test_a_selection_without_a_control_sample_is_not_compared(compare, versions):
    """Verdicts that cannot stand for the rest decide nothing."""
    for name in ("v1", "v2"):
        versions.serve({"prompt_version": name}, 0.1, 200, chance=0.2, weight=1.0)
    done = compare(*BY)
    assert done.returncode == 1
    assert "no control sample" in done.stdout


def test_what_nobody_can_compare_by_is_an_error(compare, versions):
    """Words that are no grouping, names of nothing, and values without end."""
    versions.serve({"prompt_version": "v1"}, 0.1, 90)
    for args, sentence in (
        (("--by", "colour"), "expected one of request, model, prompt"),
        ((*BY, "--evaluator", "nothing"), "no evaluator 'nothing'"),
        ((*BY, "--baseline", "v9"), "no request has tag:prompt_version 'v9'"),
        ((*BY, "--version", "v9"), "no request has tag:prompt_version 'v9'"),
    ):
        done = compare(*args)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
    for number in range(1_001):
        versions.serve({"user": str(number)}, 0.1, 1)
    assert "too many values, which are no versions" in compare("--by", "tag:user").stderr


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
    assert "v3: nothing was judged, error 120" in " ".join(done.stdout.split())


def test_a_cascade_is_one_judge_and_each_request_counts_once(compare, versions):
    """A judge model that names itself after decisions is the same judge without them."""
    serve_cascade(versions, {"prompt_version": "v1"}, 0.05)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3, decider=None, hours=(30, 29), count=20)
    done = compare(*BY, "--baseline", "v1")
    assert (done.returncode, "the judge changed" in done.stdout) == (1, False), done.stdout
    row = rows(compare, "--baseline", "v1")[1]["groundedness"]
    assert row["outcome"] == "worse"
    assert 200 < row["version_judged"] < 400
    assert row["difference"]["low"] < -0.25 < row["difference"]["high"]


def test_decisions_predict_what_the_judge_model_was_not_asked(compare, versions):
    """Their probabilities make the interval of a difference narrower."""
    serve_cascade(versions, {"prompt_version": "v1"}, 0.05)
    serve_cascade(versions, {"prompt_version": "v2"}, 0.3)

    def width():
        change = rows(compare, "--baseline", "v1")[1]["groundedness"]["difference"]
        return change["high"] - change["low"]

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


def test_a_version_that_answers_nothing_is_worse(compare, versions):
    """Its lost answers are compared as a share of their own, and no judge hides them."""
    versions.serve({"prompt_version": "a"}, 0.1, 900, chance=1.0, hours=(50, 1))
    versions.serve({"prompt_version": "b"}, 0.1, 900, chance=1.0, hours=(49, 1))
    sql = "UPDATE spans SET kind = 'workflow', request = '\"q\"', response = '\"x\"'"
    versions.connection.execute(sql)
    said = compare(*BY, "--baseline", "a")
    assert (said.returncode, "no_answer" in said.stdout) == (0, False)
    lost = "UPDATE spans SET response = NULL WHERE tags LIKE '%\"b\"%' AND seq % 2"
    versions.connection.execute(lost)
    said = compare(*BY, "--baseline", "a")
    assert said.returncode == 1
    assert "of the requests of b got no answer, which no judge could see" in " ".join(
        said.stdout.split()
    )
    row = rows(compare, "--baseline", "a")[1]["no_answer"]
    assert (row["outcome"], row["baseline_mean"]) == ("worse", 0.0)
    assert 0.4 < row["version_mean"] < 0.6
