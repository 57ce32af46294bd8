"""Rows judged by a decision model: one request for each, and the judge model for the rest."""

import json

import pytest
from command_line import run_command
from decision_model import ScriptedDecisions, yes

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.model import Usage
from llmeval_sdk.offline import estimate_cost
from llmeval_sdk.testing import FakeLLM
from llmeval_sdk.testing.decision_server import DecisionServer


ROWS = [
    {
        "request": "What is the roof made of?",
        "response": "The roof is made of slate.",
        "retrieved_context": [{"content": "The roof is slate."}, {"content": "It is dry."}],
        "expected_response": "Slate.",
    },
    {
        "request": "Who built it?",
        "response": "Nobody knows.",
        "retrieved_context": [{"content": "It was built by Jan Smit."}],
    },
]
FREE = llmeval.LLMJudge("free", "{response}", output="score")


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    """Keep the verdicts of each test apart."""
    monkeypatch.setenv("LLMEVAL_STORE", str(tmp_path / "llmeval.db"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("LLMEVAL_JUDGE_MODEL", "OPENAI_API_KEY", "LLMEVAL_DECISION_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    """A server of decisions that answers like the stand-in."""
    with DecisionServer() as running:
        yield running


def evaluated(model, names, **options):
    return llmeval.evaluate(ROWS, evaluators=names, decisions=model, progress=False, **options)


def test_a_row_is_one_request():
    """All judges that can be asked typed questions are asked together."""
    model = ScriptedDecisions(rule=lambda question: yes(0.8))
    names = ["relevance_to_query", "safety", "groundedness", "chunk_relevance"]
    report = evaluated(model, names)
    assert len(model.asked) == len(ROWS)
    for row in report.rows:
        assert list(row.evaluations) == names
        assert {each.evaluator_kind for each in row.evaluations.values()} == {"decision"}
    assert report.metrics["response/llm_judged/groundedness/rating/percentage"] == 1.0


def test_what_cannot_be_asked_stays_with_the_judge_model():
    """A free score is no typed question."""
    model, llm = ScriptedDecisions(), FakeLLM({"rationale": "r", "score": 0.5})
    report = evaluated(model, ["safety", FREE], llm=llm)
    kinds = {name: each.evaluator_kind for name, each in report.rows[0].evaluations.items()}
    assert kinds == {"safety": "decision", "free": "judge"}
    assert [len(questions) for _, questions in model.asked] == [1, 1]
    with pytest.raises(ConfigurationError, match="free needs a judge model"):
        evaluated(model, ["safety", FREE])


def test_without_a_judge_model_the_judges_that_can_be_asked_run():
    """Naming a decision model is enough: the judges of an offline run are asked of it."""
    model = ScriptedDecisions()
    report = llmeval.evaluate(ROWS, decisions=model, progress=False)
    asked = {
        question.name.partition(".")[0] for _, questions in model.asked for question in questions
    }
    assert asked == {
        "relevance_to_query", "safety", "groundedness", "chunk_relevance", "correctness",
        "context_sufficiency",
    }  # fmt: skip
    assert "correctness" not in report.rows[1].evaluations


def test_the_threshold_is_that_of_the_run():
    """Given, else that of the model, else a half."""
    model = ScriptedDecisions(rule=lambda question: yes(0.7))
    values = [evaluated(model, ["safety"]).rows[0].evaluations["safety"].value]
    model.thresholds = {"safety": 0.9}
    values.append(evaluated(model, ["safety"]).rows[0].evaluations["safety"].value)
    given = evaluated(model, ["safety"], thresholds={"safety": 0.6})
    values.append(given.rows[0].evaluations["safety"].value)
    assert values == ["yes", "no", "yes"]


def test_thresholds_need_a_decision_model():
    """They would mean nothing."""
    with pytest.raises(ConfigurationError, match="--decision-model"):
        llmeval.evaluate(ROWS, thresholds={"safety": 0.9}, progress=False)


def test_many_options_are_refused_before_anything_is_asked():
    """More than any wire takes is a mistake of the judge."""
    many = llmeval.LLMJudge("many", "{response}", output=[f"c{n}" for n in range(256)])
    model = ScriptedDecisions()
    with pytest.raises(ConfigurationError, match="256 categories"):
        evaluated(model, [many])
    assert model.asked == []


def test_probabilities_are_columns():
    """Beside the ratings; where nobody said one, there is no column."""
    pytest.importorskip("pandas")
    model = ScriptedDecisions(rule=lambda question: yes(0.7))
    frame = evaluated(model, ["safety", "chunk_relevance"]).to_pandas()
    assert list(frame["response/llm_judged/safety/probability"]) == [0.7, 0.7]
    assert str(frame["retrieval/llm_judged/chunk_relevance/probability"].dtype) == "float64"
    llm = FakeLLM({"rationale": "r", "rating": "yes"})
    plain = llmeval.evaluate(ROWS, evaluators=["safety"], llm=llm, progress=False).to_pandas()
    assert not [name for name in plain if name.endswith("/probability")]


def test_a_saved_run_goes_on_where_it_stopped(tmp_path):
    """Rows that are done are taken as they are; of another model or threshold none is."""
    saved = tmp_path / "run.jsonl"
    model = ScriptedDecisions({"safety": yes(0.7)})
    options = {"save": saved, "cache": False}
    evaluated(model, ["safety"], **options)
    again = ScriptedDecisions()
    report = evaluated(again, ["safety"], resume=True, **options)
    assert again.asked == []
    assert report.rows[0].evaluations["safety"].probability == 0.7
    with pytest.raises(ConfigurationError, match="its thresholds was"):
        evaluated(again, ["safety"], resume=True, thresholds={"safety": 0.9}, **options)
    again.model = "another"
    with pytest.raises(ConfigurationError, match="its decisions was scripted-1"):
        evaluated(again, ["safety"], resume=True, **options)


def test_a_budget_in_dollars_needs_the_price():
    """The limit holds for decisions too."""
    budget = llmeval.Budget(calls_per_minute=None, usd_per_day=1.0)
    with pytest.raises(ConfigurationError, match="price of the decision model 'scripted-1'"):
        evaluated(ScriptedDecisions(), ["safety"], budget=budget)
    priced = evaluated(
        ScriptedDecisions(usage=Usage(1_000, 0, 1_000)), ["safety"], budget=budget,
        prices={"scripted-1": (0.1, 0.0)},
    )  # fmt: skip
    assert priced.judge_usage.cost_usd == pytest.approx(2 * 0.0001)


@pytest.mark.parametrize("wire", ["openai", "systemone", "logprobs"])
def test_every_wire_judges_rows(server, wire):
    """Over real HTTP; what was answered once is not asked again."""
    model = HttpDecisions(f"{wire}/any", base_url=server.base_url)
    names = ["relevance_to_query", "safety", "groundedness", "chunk_relevance", "correctness"]
    report = evaluated(model, names)
    evaluations = report.rows[0].evaluations
    assert [each.error for each in evaluations.values()] == [None] * 5
    assert all(0 <= each.probability <= 1 for each in evaluations.values())
    asked = len(server.decisions)
    if wire != "logprobs":
        assert asked == len(ROWS)
    evaluated(HttpDecisions(f"{wire}/any", base_url=server.base_url), names)
    assert len(server.decisions) == asked


def test_the_environment_names_the_model(server, monkeypatch):
    """A judge model that is passed explicitly is asked all the same."""
    monkeypatch.setenv("LLMEVAL_DECISION_MODEL", "systemone/any")
    monkeypatch.setenv("LLMEVAL_DECISION_BASE_URL", server.base_url)
    report = llmeval.evaluate(ROWS, evaluators=["safety"], progress=False)
    assert report.rows[0].evaluations["safety"].evaluator_kind == "decision"
    llm = FakeLLM({"rationale": "r", "rating": "yes"})
    report = llmeval.evaluate(ROWS, evaluators=["safety"], llm=llm, progress=False)
    assert report.rows[0].evaluations["safety"].evaluator_kind == "judge"


def test_an_estimate_asks_nobody(server):
    """It has as many requests as the run, and at least its tokens."""
    model = HttpDecisions("systemone/any", base_url=server.base_url)
    names = ["relevance_to_query", "groundedness", "chunk_relevance", "context_recall_llm"]
    prices = {"any": (0.1, 0.0)}
    estimate = estimate_cost(ROWS, evaluators=names, decisions=model, prices=prices)
    assert server.requests == []
    (cost,) = estimate.models
    assert (estimate.rows, cost.model, cost.is_decisions, cost.cached) == (2, "any", True, 0)
    report = evaluated(model, names)
    assert cost.requests == len(server.decisions) == 2
    assert cost.usage.total_tokens >= report.judge_usage.total_tokens
    assert estimate.cost_usd == pytest.approx(cost.usage.total_tokens * 0.1e-6)
    (again,) = estimate_cost(ROWS, evaluators=names, decisions=model).models
    assert (again.requests, again.cached) == (0, 8)


def test_an_estimate_knows_the_judge_model_and_what_it_cannot_know():
    """Prompts are measured without being sent; code of the app's own is named."""

    class Asked(FakeLLM):
        async def complete(self, messages, /, **options):
            raise AssertionError("nobody may be asked")

    @llmeval.judge(name="own_code")
    def own_code(record, llm):
        raise AssertionError("no code of the app's may run")

    llm = Asked({"rationale": "r", "rating": "yes"})
    estimate = estimate_cost(ROWS, evaluators=["safety", "chunk_relevance", own_code], llm=llm)
    (cost,) = estimate.models
    assert (cost.requests, cost.is_decisions) == (5, False)
    assert cost.usage.output_tokens == 5 * 200
    assert estimate.unknown == {"own_code": 2}
    assert estimate.cost_usd is None


def run(*arguments, cwd, **env):
    return run_command(
        "evaluate", *arguments, folder=cwd, env={"LLMEVAL_STORE": "llmeval.db", **env}
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def test_the_command_estimates_without_a_key(file, tmp_path):
    """Requests, tokens and dollars, by the price list."""
    done = run(file, "--estimate", "--decision-model", "openai/gpt-6-luna", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no model was asked" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("gpt-6-luna")).split()
    assert row[1:3] == ["decisions", "2"]
    assert row[-1].startswith("$0.000")
    done = run(
        file, "--estimate", "--json", "--decision-model", "openai/gpt-6-luna", cwd=tmp_path
    )  # fmt: skip
    plain = json.loads(done.stdout)
    tokens = plain["models"][0]["usage"]["total_tokens"]
    assert plain["cost_usd"] == pytest.approx(tokens * 0.1e-6)


def test_the_command_asks_a_decision_model(file, tmp_path, server):
    """One request for each row; the threshold is an option."""
    done = run(
        file, "--decision-model", "openai/any", "--threshold", "safety=1", "--json", cwd=tmp_path,
        LLMEVAL_DECISION_BASE_URL=server.base_url,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(server.decisions) == len(ROWS)
    saved = (tmp_path / "reports" / "offline-rows.jsonl").read_text()
    assert '"threshold":1.0' in saved.replace(" ", "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--threshold", "safety=2"], "a number from 0 to 1"),
        (["--threshold", "safety=0.5"], "--decision-model"),
        (["--decision-model", "opnai/x"], "openai/<model>"),
        (["--estimate", "--model", "my_app:answer"], "cannot know what --model will answer"),
    ],
)
def test_mistakes_are_told(file, tmp_path, options, says):
    """Before anything is asked."""
    done = run(file, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


def test_the_mean_probability_is_a_metric():
    """Of the rows that have one: in the report, its JSON and its page."""
    model = ScriptedDecisions({"safety": yes(0.75)})
    rows = [*ROWS, {"request": "Who?", "response": ""}]  # decided without the model
    report = llmeval.evaluate(rows, evaluators=["safety"], decisions=model, progress=False)
    path = "response/llm_judged/safety/probability/average"
    assert len(model.asked) == 2
    assert report.metrics[path] == 0.75
    assert path in str(report.to_html())


def test_without_decisions_there_is_no_mean_probability():
    """A judge model gives none."""
    judged = llmeval.evaluate(
        ROWS, evaluators=["safety"], llm=FakeLLM({"rationale": "-", "rating": "yes"}),
        progress=False,
    )  # fmt: skip
    assert not any("probability" in path for path in judged.metrics)
