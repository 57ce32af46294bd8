"""A session of two agent runs, read back from each backend's own API: runs, steps and the session."""

import base64

import pytest
from backend_servers import eventually, fetch

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM


GOOD = '{"rationale": "fine", "steps": [], "rating": "yes"}'


@pytest.fixture
def conversation(tmp_path):
    """Talk to an agent twice, and wait until the session is judged; returns the ids of spans."""

    @llmeval.tool
    def get_order(order_id):
        ids["tool"] = llmeval.current_span().span_id
        return {"status": "shipped"}

    @llmeval.agent
    def support(question):
        ids["agent"] = llmeval.current_span().span_id
        ids["trace"] = llmeval.current_span().trace_id
        get_order("A17")
        return "It is shipped."

    ids = {}

    def talk(**settings):
        llmeval.configure(
            evaluators=["goal_reached"], escalations=[], llm=FakeLLM(GOOD), session_idle=0.5,
            store=str(tmp_path / "store.db"), **settings,
        )  # fmt: skip
        for question in ("Where is order A17?", "Are you sure?"):
            with llmeval.annotation_context(session_id="chat-7"):
                support(question)
        eventually(lambda: runtime.stats().judged.get("goal_reached"))
        stats = runtime.flush(60)
        (account,) = stats.exporters.values()
        assert account.delivered == account.created, account
        return ids

    return talk


def test_phoenix_shows_the_run_its_tools_and_the_verdict_on_the_session(phoenix, conversation):
    """Spans of agents and tools, scores on the agent's, and annotations of the session."""
    ids = conversation(exporters=["phoenix"], phoenix_endpoint=phoenix, phoenix_project="agents")
    project = f"{phoenix}/v1/projects/agents"

    def arrived():
        spans = fetch(f"{project}/spans?limit=100")["data"]
        return {
            s["context"]["span_id"]: s for s in spans if s["context"]["span_id"] in ids.values()
        }

    spans = eventually(lambda: len(arrived()) == 2 and arrived())
    assert spans[ids["agent"]]["span_kind"] == "AGENT"
    assert spans[ids["tool"]]["span_kind"] == "TOOL"
    assert spans[ids["agent"]]["attributes"]["session.id"] == "chat-7"

    def annotations(what):
        data = fetch(f"{project}/{what}&limit=100")["data"]
        return {each["name"]: each for each in data}

    of_session = eventually(
        lambda: (
            {"goal_reached", "turn_count"}
            <= {*(told := annotations("session_annotations?session_ids=chat-7"))}
            and told
        )
    )
    assert of_session["goal_reached"]["result"]["label"] == "yes"
    assert of_session["goal_reached"]["identifier"].endswith(":period-1")
    assert of_session["turn_count"]["result"]["score"] == 2.0
    of_agent = annotations(f"span_annotations?span_ids={ids['agent']}")
    assert "run_faults" in of_agent
    assert "goal_reached" not in of_agent


def test_mlflow_shows_the_run_its_tools_and_the_verdict_on_the_session(mlflow, conversation):
    """As feedback on the session's last trace, marked with the session, as MLflow's own is."""
    ids = conversation(exporters=["mlflow"], mlflow_uri=mlflow, mlflow_experiment="agents")
    trace = f"tr-{ids['trace']}"
    info = fetch(f"{mlflow}/api/3.0/mlflow/traces/{trace}")["trace"]["trace_info"]
    assert info["trace_metadata"]["mlflow.trace.session"] == "chat-7"
    told = {each["assessment_name"]: each for each in info["assessments"]}
    goal = told["goal_reached"]
    assert goal["feedback"]["value"] == "yes"
    assert goal["metadata"]["mlflow.trace.session"] == "chat-7"
    assert not goal.get("span_id")
    assert told["run_faults"]["span_id"] == ids["agent"]
    spans = fetch(f"{mlflow}/api/3.0/mlflow/traces/get?trace_id={trace}&allow_partial=true")
    types = {
        a["value"]["string_value"]
        for span in spans["trace"]["spans"]
        for a in span["attributes"]
        if a["key"] == "mlflow.spanType"
    }
    assert types == {"AGENT", "TOOL"}


def test_a_receiver_of_otlp_gets_events_on_the_agents_and_the_tools_span(test_agent, conversation):
    """By the conventions: the operation, the conversation, and the span that each event is about."""
    ids = conversation(exporters=["otlp"], otlp_endpoint=test_agent)
    spans = parts(fetch(f"{test_agent}/test/session/traces"), "spans")
    named = {hexed(span["span_id"]): span for span in spans}
    agent, tool = named[ids["agent"]], named[ids["tool"]]
    assert (agent["name"], tool["name"]) == ("invoke_agent support", "execute_tool get_order")
    assert told(agent)["gen_ai.operation.name"] == "invoke_agent"
    assert told(agent)["gen_ai.agent.name"] == "support"
    assert told(agent)["gen_ai.conversation.id"] == "chat-7"
    assert told(tool)["gen_ai.operation.name"] == "execute_tool"
    assert told(tool)["gen_ai.tool.call.arguments"] == "A17"
    events = parts(fetch(f"{test_agent}/test/session/logs"), "logs")
    about = {told(e)["gen_ai.evaluation.name"]: e for e in events if e["event_name"] == EVENT}
    assert hexed(about["run_faults"]["span_id"]) in named
    assert "gen_ai.conversation.id" not in told(about["run_faults"])
    goal = about["goal_reached"]
    assert hexed(goal["span_id"]) == ids["agent"]
    assert told(goal)["gen_ai.conversation.id"] == "chat-7"
    assert told(goal)["gen_ai.evaluation.score.label"] == "yes"


EVENT = "gen_ai.evaluation.result"


def parts(requests, what):
    """Return all records of a kind in what arrived."""
    of = {"spans": ("resource_spans", "scope_spans", "spans"),
          "logs": ("resource_logs", "scope_logs", "log_records")}[what]  # fmt: skip
    resource, scope, record = of
    return [
        one
        for request in requests
        for each in request[resource]
        for group in each[scope]
        for one in group[record]
    ]


def told(record):
    """Return the attributes of a span or an event."""
    return {each["key"]: next(iter(each["value"].values())) for each in record["attributes"]}


def hexed(number):
    """Return an id as we write it; it arrives as base64."""
    return base64.b64decode(number).hex()
