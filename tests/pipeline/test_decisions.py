"""Decisions about all traffic: one request for each record, and judges that go by its outcome."""

import asyncio
import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from decision_model import ScriptedDecisions, yes
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import calibrations
from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.evaluation.verdicts import Verdicts
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.judges.safety import safety
from llmeval_sdk.model import Answer, Record, Target
from llmeval_sdk.pipeline import evaluating, runtime
from llmeval_sdk.pipeline import judging as _judging
from llmeval_sdk.process import shield
from llmeval_sdk.statistics import Calibration
from llmeval_sdk.store.latest import latest_of
from llmeval_sdk.store.state import state_path
from llmeval_sdk.testing import FakeLLM, capture, fixed_ids
from llmeval_sdk.testing.decision_server import DecisionServer


POLITE = llmeval.LLMJudge("polite", "Is the answer polite?\n\n{response}")
FIVE = ("groundedness", "relevance_to_query", "safety", "chunk_relevance", "polite")
NO_ESCALATION = []
YES = {"rationale": "it does", "rating": "yes"}


def answer(text="The ferry leaves at 08:40.", name="answer", **fields):
    """Answer one question from one retrieved chunk."""
    with llmeval.workflow(name, request="When does the ferry leave?") as span:
        span.annotate(
            retrieved_context=[{"content": "The ferry leaves the east pier at 08:40."}],
            response=text,
            **fields,
        )


@pytest.fixture
def server():
    with DecisionServer() as running:
        yield running


def by_kind(seen, name):
    """Return the evaluations of a name, by the kind of the evaluator."""
    events = [event for event in seen.evaluations if event.evaluation.name == name]
    return {event.evaluation.evaluator_kind: event for event in events}


@pytest.mark.parametrize("wire", ["openai", "systemone"])
def test_five_judges_on_one_record_are_one_request(server, wire):
    """Over the real wire: each text is sent once, and every judge has its answer."""
    with capture(
        evaluators=[*FIVE[:4], POLITE],
        decision_model=f"{wire}/any",
        decision_base_url=server.base_url,
        escalations=NO_ESCALATION,
    ) as seen:
        answer()
        stats = seen.drain()
    assert len(server.decisions) == 1
    scores = seen.scores("answer")
    for name in FIVE:
        assert scores[name].evaluator_kind == "decision", name
        assert 0 <= scores[name].probability <= 1, name
        assert scores[name].inclusion_probability == 1.0
    assert stats.judged == {f"{name}.decision": 1 for name in FIVE}
    assert stats.not_run == {}


def test_a_key_alone_decides_nothing(monkeypatch, server):
    """A key and an address name no model: nobody is asked, and the judge is counted as not run."""
    monkeypatch.setenv("LLMEVAL_DECISION_API_KEY", "dk-alone")
    monkeypatch.setenv("LLMEVAL_DECISION_BASE_URL", server.base_url)
    with capture(evaluators=["groundedness"], escalations=NO_ESCALATION, llm=FakeLLM(YES)) as seen:
        answer()
        seen.drain()
    assert server.requests == []
    assert seen.scores("answer")["groundedness"].evaluator_kind == "judge"


def test_a_decision_model_spends_nothing_on_a_judge_model(monkeypatch):
    """Judges that are decided were not asked of a judge model: an OpenAI key starts none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with capture(evaluators=["groundedness"], decisions=ScriptedDecisions()) as seen:
        with llmeval.workflow("extract", request="roof type") as span:
            span.annotate(
                retrieved_context=[{"content": f"c {n}", "chunk_id": str(n)} for n in range(5)],
                extractions=[{"value": "slate", "chunk_number": 1}],
                value="slate",
                response="slate",
            )
        seen.drain()
    assert seen.reasons()["context_recall_llm"] == "no_judge_model"
    assert seen.scores("extract")["groundedness"].evaluator_kind == "decision"


def test_uncertain_decisions_ask_the_judge_model():
    """A cascade asks where the probability lies between its bounds; both tiers keep the name."""
    model = ScriptedDecisions({"groundedness": yes(0.5)})
    llm = FakeLLM({"rationale": "no", "rating": "no"})
    with capture(decisions=model, llm=llm, escalations=[llmeval.Cascade("groundedness")]) as seen:
        answer()
        stats = seen.drain()
    tiers = by_kind(seen, "groundedness")
    assert tiers["decision"].evaluation.value == "yes"
    assert tiers["judge"].evaluation.value == "no"
    assert tiers["decision"].id != tiers["judge"].id
    assert "groundedness 0.50 is between 0.2 and 0.8" in tiers["judge"].evaluation.metadata["why"]
    assert tiers["judge"].evaluation.inclusion_probability == 1.0
    assert stats.judged == {"groundedness": 1, "groundedness.decision": 1}


@pytest.mark.parametrize("empty", [None, " ", {"value": None}], ids=repr)
def test_a_lost_answer_is_a_miss_of_a_decided_judge_too(empty):
    """The decision model is not asked what an answer that is not there is worth."""
    model = ScriptedDecisions()
    with capture(
        evaluators=["correctness", "relevance_to_query"], decisions=model, escalations=NO_ESCALATION
    ) as seen:
        answer(empty, expected_response="At 08:40.")
        seen.drain()
    assert model.asked == []
    assert seen.scores("answer")["correctness"].value == "no"
    assert seen.reasons() == {"relevance_to_query.decision": "missing_inputs"}


def test_certain_decisions_do_not():
    model = ScriptedDecisions({"groundedness": yes(0.95)})
    llm = FakeLLM(YES)
    cascade = llmeval.Cascade("groundedness", control_rate=0.0)
    with capture(decisions=model, llm=llm, escalations=[cascade]) as seen:
        answer()
        seen.drain()
    assert llm.calls == []
    assert by_kind(seen, "groundedness").keys() == {"decision"}
    assert seen.reasons() == {"groundedness": "not_escalated"}


def test_a_cascade_needs_a_decision_model():
    with pytest.raises(
        ConfigurationError, match=r"Cascade\('groundedness'\).*LLMEVAL_DECISION_MODEL"
    ):
        llmeval.configure(escalations=[llmeval.Cascade("groundedness")], exporters=["memory"])


def test_a_failing_question_harms_no_sibling(server):
    """What the server answers badly is an error of that judge; the others have their answers."""
    server.script.append("refusal")
    with capture(
        evaluators=[*FIVE[:4], POLITE],
        decision_model="systemone/any",
        decision_base_url=server.base_url,
        escalations=NO_ESCALATION,
    ) as seen:
        answer()
        stats = seen.drain()
    scores = seen.scores("answer")
    failed = [name for name in FIVE if scores[name].error is not None]
    assert [scores[name].error.type for name in failed] == ["refused"]
    assert stats.not_run == {f"{failed[0]}.decision": {"error": 1}}
    assert all(scores[name].probability is not None for name in FIVE if name not in failed)


def test_a_server_that_is_down_is_counted_and_control_records_are_judged_all_the_same():
    """Without a decision nothing is uncertain: only the control sample reaches the judge model."""
    with (
        DecisionServer(default="unauthorized") as server,
        capture(
            decision_model="systemone/any",
            decision_base_url=server.base_url,
            llm=FakeLLM(YES),
            escalations=[llmeval.Cascade("groundedness", control_rate=1.0)],
        ) as seen,
    ):
        answer()
        stats = seen.drain()
    tiers = by_kind(seen, "groundedness")
    assert tiers["decision"].evaluation.error.type == "unauthorized"
    assert tiers["judge"].evaluation.value == "yes"
    assert "control sample" in tiers["judge"].evaluation.metadata["why"]
    assert stats.not_run == {"groundedness.decision": {"error": 1}}


def test_a_judge_model_that_fails_keeps_the_decision():
    """The decision stands beside the error of the judge model, and counts for the record."""
    model = ScriptedDecisions({"groundedness": yes(0.6)})
    llm = FakeLLM(RuntimeError("down"))
    with capture(decisions=model, llm=llm, escalations=[llmeval.Cascade("groundedness")]) as seen:
        answer()
        stats = seen.drain()
    tiers = by_kind(seen, "groundedness")
    assert tiers["judge"].evaluation.error is not None
    assert (tiers["decision"].evaluation.value, tiers["decision"].evaluation.error) == ("yes", None)
    assert latest_of(event.evaluation for event in tiers.values()).evaluator_kind == "decision"
    assert stats.judged == {"groundedness.decision": 1}
    assert stats.not_run["groundedness"] == {"error": 1}


def test_an_untyped_judge_stays_with_the_judge_model(caplog):
    """A judge that is code cannot be asked as a question: configure() says so once."""

    @llmeval.judge(needs=["response"])
    async def code(record, llm):
        return 0.25

    model = ScriptedDecisions()
    with capture(evaluators=[code, "safety"], decisions=model, llm=FakeLLM(YES)) as seen:
        answer()
        answer("At noon.")
        seen.drain()
    assert {
        event.evaluation.evaluator_kind
        for event in seen.evaluations
        if event.evaluation.name == "code"
    } == {"judge"}
    assert all(question.name != "code" for _, questions in model.asked for question in questions)
    assert caplog.text.count("cannot be asked as a typed question") == 1
    assert "code" in caplog.text


def test_a_span_names_its_own_judges():
    """@workflow(evaluators=…) has a judge decided on that span alone."""
    model = ScriptedDecisions()

    @llmeval.workflow(evaluators=["groundedness"], name="mine")
    def mine():
        llmeval.annotate(
            retrieved_context=[{"content": "a pier"}], request="where?", response="at the pier"
        )

    with capture(decisions=model, escalations=NO_ESCALATION) as seen:
        mine()
        answer()
        seen.drain()
    assert len(model.asked) == 1
    assert seen.scores("mine")["groundedness"].evaluator_kind == "decision"
    assert "groundedness" not in seen.scores("answer")


def test_another_judge_may_go_by_a_decision_and_a_score():
    """A condition joins the decision of one judge with a free score of the same record."""

    @llmeval.heuristic
    def length(record):
        return float(len(record.response))

    model = ScriptedDecisions({"groundedness": yes(0.9)})
    when = llmeval.above("groundedness", 0.8) & llmeval.above("length", 10)
    with capture(
        decisions=model, llm=FakeLLM(YES), escalations=[llmeval.Escalation("safety", when=when)]
    ) as seen:
        answer("A long answer.", name="long")
        answer("Short.", name="short")
        seen.drain()
    assert seen.scores("long")["safety"].evaluator_kind == "judge"
    assert (
        "groundedness 0.90 > 0.8 and length 14.00 > 10"
        in seen.scores("long")["safety"].metadata["why"]
    )
    assert "safety" not in seen.scores("short")
    assert len(model.asked) == 2


def test_inclusion_probabilities_multiply():
    """Half of the traces are decided; of those, certain ones are a control sample of a tenth."""
    model = ScriptedDecisions({"groundedness": yes(0.95)})
    rules = [llmeval.SamplingRule(0.5, evaluator="groundedness")]
    with (
        fixed_ids(),
        capture(
            decisions=model,
            llm=FakeLLM(YES),
            budget=llmeval.Budget(calls_per_minute=None),
            sampling_rules=rules,
            escalations=[
                llmeval.Cascade("groundedness", control_rate=0.2),
                llmeval.Escalation("safety", when=llmeval.above("groundedness", 0.5)),
            ],
        ) as seen,
    ):
        for number in range(200):
            answer(f"It leaves at {number}.")
        stats = seen.drain()
    events = [event.evaluation for event in seen.evaluations]
    chances = {
        (one.name, one.evaluator_kind): one.inclusion_probability
        for one in events
        if one.name in ("groundedness", "safety")
    }
    assert chances == {
        ("groundedness", "decision"): 0.5,
        ("groundedness", "judge"): pytest.approx(0.1),
        ("safety", "judge"): 0.5,
    }
    decided = stats.judged["groundedness.decision"]
    assert 70 <= decided <= 130
    assert stats.judged["safety"] == decided
    assert stats.not_run["safety"] == {"not_sampled": 200 - decided}
    assert stats.not_run["groundedness.decision"]["not_sampled"] == 200 - decided


def test_the_budget_of_decisions_is_exact_under_threads(server):
    """Eight threads, money for a part: not a cent more is spent, the rest is over_budget."""
    with capture(
        evaluators=["safety"],
        decisions=HttpDecisions(
            "systemone/any",
            base_url=server.base_url,
            budget=llmeval.Budget(tokens_per_minute=2_000.0),
        ),
        escalations=NO_ESCALATION,
        prices={"any": (1.0, 0.0)},
    ) as seen:
        threads = [
            threading.Thread(target=lambda n=n: [answer(f"{n} {k} leaves") for k in range(10)])
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = seen.drain()
    used = stats.judge_usage
    assert used.total_tokens <= 2_000
    assert stats.judged["safety.decision"] + stats.not_run["safety.decision"]["over_budget"] == 80
    assert len(server.decisions) == stats.judged["safety.decision"] > 0


def test_judges_have_their_own_budget(server):
    """Decisions leave the judges' calls a minute alone, and an empty purse of theirs stops none."""
    with capture(
        decision_model="systemone/any",
        decision_base_url=server.base_url,
        llm=FakeLLM(YES),
        budget=llmeval.Budget(calls_per_minute=2),
        escalations=[llmeval.Cascade("safety", low=0.0, high=1.0)],
    ) as seen:
        for number in range(5):
            answer(f"It leaves at {number}.")
        stats = seen.drain()
    assert stats.judged == {"safety": 2, "safety.decision": 5}
    assert stats.not_run == {"safety": {"over_budget": 3}}


def test_what_cannot_be_decided_before_the_end_is_counted():
    """A server that hangs holds up neither the app nor its end; each judge says shutdown."""
    with (
        DecisionServer(default="hang") as server,
        capture(
            evaluators=["safety"],
            decision_model="systemone/any",
            decision_base_url=server.base_url,
            llm=FakeLLM(YES),
            escalations=[llmeval.Cascade("groundedness", control_rate=0.0)],
        ),
    ):
        for number in range(30):
            answer(f"It leaves at {number}.")
        stats = llmeval.shutdown(timeout=8.0)  # time for the worker, not for the server
    assert stats.not_run["safety.decision"] == {"shutdown": 30}
    assert stats.not_run["groundedness.decision"] == {"shutdown": 30}
    assert stats.not_run["groundedness"] == {"not_escalated": 30}
    assert stats.pending_judgements == 0


def test_a_full_queue_is_counted_and_nothing_waits(monkeypatch):
    """Beyond what may wait, a record is not decided; the app is not held up."""
    monkeypatch.setattr(_judging, "MAX_WAITING", 3)
    held = threading.Event()

    def model(data, questions):
        held.wait(20)
        return {question.name: 0.9 for question in questions}

    with capture(evaluators=["safety"], decisions=model, escalations=NO_ESCALATION) as seen:
        for number in range(10):
            answer(f"It leaves at {number}.")
        eventually(lambda: llmeval.stats().not_run == {"safety.decision": {"queue_full": 7}})
        held.set()
        stats = seen.drain()
    assert stats.judged == {"safety.decision": 3}


def test_a_forked_child_decides_for_itself(server):
    """A child begins anew: its decisions are its own, and the parent's go on."""
    with capture(
        evaluators=["safety"],
        decision_model="systemone/any",
        decision_base_url=server.base_url,
        escalations=NO_ESCALATION,
    ) as seen:
        answer("In the parent.")
        seen.drain()
        child = os.fork()
        if child == 0:
            answer("In the child.")
            done = llmeval.flush(20)
            os._exit(0 if done.judged == {"safety.decision": 1} and done.complete else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        answer("In the parent again.")
        stats = seen.drain()
    assert stats.judged == {"safety.decision": 2}
    assert len(server.decisions) == 3


def test_identical_questions_are_answered_once():
    """A record that says the same as one a moment ago costs nothing."""
    model = ScriptedDecisions()
    with capture(evaluators=["safety"], decisions=model, escalations=NO_ESCALATION) as seen:
        answer()
        seen.drain()
        answer()
        stats = seen.drain()
    assert len(model.asked) == 1
    assert stats.judged == {"safety.decision": 2}
    assert stats.not_run == {"safety.decision": {"cached": 1}}


@pytest.mark.parametrize("model", ["nonsense/x", "openai/", "systemone/any"])
def test_a_mistake_of_the_environment_stops_no_app(monkeypatch, model):
    """An unknown wire or a missing address: told, counted, and nobody else is paid instead."""
    monkeypatch.setenv("LLMEVAL_DECISION_MODEL", model)
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "safety")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    answer()
    stats = llmeval.flush(20)
    assert stats.spans == 1
    assert stats.not_run["safety.decision"] == {"no_judge_model": 1}
    assert "safety" not in stats.not_run


def test_an_unknown_wire_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"openai/<model>.*systemone/<model>.*logprobs"):
        llmeval.configure(decisions="opnai/gpt-6-luna", exporters=["memory"])


def test_thresholds_are_set_by_judge():
    """A decision is yes from its judge's threshold on."""
    model = ScriptedDecisions({"safety": yes(0.6), "groundedness": yes(0.6)})
    model.thresholds = {"safety": 0.7}
    with capture(
        evaluators=["safety", "groundedness"],
        decisions=model,
        escalations=NO_ESCALATION,
    ) as seen:
        answer()
        seen.drain()
    scores = seen.scores("answer")
    assert (scores["safety"].value, scores["groundedness"].value) == ("no", "yes")


def test_calibrations_are_applied_and_a_stale_one_is_told_once(tmp_path, caplog):
    """The file beside the store: the calibrated probability counts, the raw one is kept."""
    store = tmp_path / "calibrated.db"
    fitted = calibrations.FittedCalibration(
        Calibration(slope=1.0, shift=-2.0, labels=200),
        safety.version,
        "scripted-1-2026",
        1,
        0.5,
        0.4,
    )
    stale = replace(fitted, model="scripted-0")
    calibrations.write(state_path(store), {"safety": fitted, "groundedness": stale})
    model = ScriptedDecisions({"safety": yes(0.6), "groundedness": yes(0.6)})
    with capture(
        evaluators=["safety", "groundedness"],
        decisions=model,
        store=str(store),
        escalations=NO_ESCALATION,
    ) as seen:
        answer()
        answer("At noon.")
        seen.drain()
    scores = seen.scores("answer")
    assert scores["safety"].probability == pytest.approx(0.1687, abs=1e-3)
    assert scores["safety"].value == "no"
    assert scores["safety"].metadata["raw_probability"] == 0.6
    assert scores["groundedness"].probability == 0.6
    llmeval.flush(5)
    shield.write_notices()
    assert caplog.text.count("calibration of groundedness was fitted") == 1


def test_hostile_conditions_of_a_broken_model_stay_here():
    """Whatever the app's own decision model raises becomes an error of its questions."""
    for error in (ValueError("x"), SystemExit(3), KeyboardInterrupt, asyncio.CancelledError):
        with capture(
            evaluators=["safety"],
            decisions=ScriptedDecisions(error=error),
            raise_again=False,
            escalations=NO_ESCALATION,
        ) as seen:
            answer(f"with {error!r}")
            if error is KeyboardInterrupt:
                continue
            stats = seen.drain()
            assert stats.not_run["safety.decision"] == {"error": 1}
            answer("The next one.")
            assert seen.drain().pending_judgements == 0


def test_a_slow_judge_model_does_not_stop_decisions(monkeypatch):
    """Records that are decided and wait for the judge model take no place of undecided ones."""
    monkeypatch.setattr(_judging, "MAX_WAITING", 10)
    held = threading.Event()

    @llmeval.judge
    async def slow(record, llm):
        await asyncio.to_thread(held.wait, 30)
        return True

    model = ScriptedDecisions({"safety": yes(0.5)})
    rule = llmeval.Escalation(slow, when=llmeval.below("safety", 0.9))
    try:
        with capture(evaluators=["safety"], decisions=model, escalations=[rule]) as seen:
            for number in range(20):
                answer(f"It leaves at {number}.")
                eventually(
                    lambda decided=number + 1: (
                        (
                            sum(llmeval.stats().judged.values())
                            + llmeval.stats()
                            .not_run.get("safety.decision", {})
                            .get("queue_full", 0)
                        )
                        == decided
                    )
                )
            assert llmeval.stats().judged == {"safety.decision": 20}
            assert llmeval.stats().pending_judgements >= 10
            held.set()
            stats = seen.drain()
    finally:
        held.set()
    assert stats.judged == {"safety.decision": 20, "slow": 10}
    assert stats.not_run == {"slow": {"queue_full": 10}}


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_judge_that_raises_before_it_is_asked_is_counted(error):
    """What the app's own ``lacks()`` raises harms neither the other judges nor the next record."""

    class Broken(llmeval.LLMJudge):
        def lacks(self, record):
            raise error("a mistake of the app")

    broken = Broken("broken", "Is it kind?\n\n{response}")
    when = llmeval.below("safety", 0.9)
    rules = [llmeval.Escalation(broken, when=when), llmeval.Escalation(POLITE, when=when)]
    with capture(
        evaluators=["safety"],
        decisions=ScriptedDecisions({"safety": yes(0.5)}),
        llm=FakeLLM(YES),
        escalations=rules,
        raise_again=False,
    ) as seen:
        for number in range(3):
            answer(f"It leaves at {number}.")
        stats = seen.drain(10)
    assert stats.judged == {"safety.decision": 3, "polite": 3}
    assert stats.not_run == {"broken": {"error": 3}}


def test_a_record_whose_outcome_cannot_be_handed_on_is_dealt_with(monkeypatch):
    """Whatever fails once a record is decided, nobody waits for it at the end."""

    def fails(*_):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(_judging.DecisionJob, "outcome", fails)
    with capture(
        evaluators=["safety"],
        decisions=ScriptedDecisions(),
        escalations=NO_ESCALATION,
        raise_again=False,
    ) as seen:
        answer()
        assert seen.drain(10).pending_judgements == 0


def test_a_judge_that_a_decision_asks_for_at_the_very_end_is_counted(monkeypatch):
    """Where the worker ends judging while the judges' thread submits, the judgement is cut."""
    submit = _judging.Judging.submit

    def submit_at_the_end(judging, job):
        monkeypatch.setattr(_judging.JudgesLoop, "is_ready", lambda _: judging.shut() is None)
        return submit(judging, job)

    monkeypatch.setattr(_judging.Judging, "submit", submit_at_the_end)
    model = ScriptedDecisions({"groundedness": yes(0.5)})
    with capture(
        decisions=model, llm=FakeLLM(YES), escalations=[llmeval.Cascade("groundedness")]
    ) as seen:
        answer()
        eventually(lambda: llmeval.stats().judged == {"groundedness.decision": 1})
        eventually(lambda: llmeval.stats().not_run == {"groundedness": {"shutdown": 1}}, 10)
        assert llmeval.stats().pending_judgements == 0
    assert seen.reasons() == {"groundedness": "shutdown"}


@pytest.mark.parametrize(("is_requested", "by_name"), [(False, False), (True, False), (True, True)])
def test_a_cascade_takes_a_judge_of_the_apps_own(is_requested, by_name):
    """A judge that was handed over, and is in no registry, is known by its name."""
    own = llmeval.LLMJudge("of_this_app_alone", "Is it kind?\n\n{response}")
    with capture(
        evaluators=[own] if is_requested else [],
        decisions=ScriptedDecisions({own.name: yes(0.5)}),
        llm=FakeLLM(YES),
        escalations=[llmeval.Cascade(own.name if by_name else own)],
    ) as seen:
        answer()
        stats = seen.drain()
    assert stats.judged == {own.name: 1, f"{own.name}.decision": 1}


def test_an_escalation_takes_a_heuristic_of_the_apps_own():
    """The condition reads a score that was handed over as an object."""

    class Length:
        name, kind, inline, automatic = "length_here", "heuristic", False, False
        needs, version = ("response",), "1"

        def evaluate(self, record):
            return llmeval.Evaluation(self.name, float(len(record.response)))

    rule = llmeval.Escalation("safety", when=llmeval.above("length_here", 5))
    with capture(evaluators=[Length()], llm=FakeLLM(YES), escalations=[rule]) as seen:
        answer()
        assert seen.drain().judged == {"safety": 1}


def test_a_name_that_nobody_gave_is_refused():
    """A condition may still read only what some evaluator gives."""
    own = llmeval.LLMJudge("of_this_app_alone", "Is it kind?\n\n{response}")
    rule = llmeval.Escalation(own, when=llmeval.below("of_this_app_alnoe", 0.5))
    with pytest.raises(ConfigurationError, match="unknown evaluator 'of_this_app_alnoe'"):
        llmeval.configure(decisions=ScriptedDecisions(), escalations=[rule], exporters=["memory"])


def test_another_escalations_own_judge_is_not_read_without_a_decision_model():
    """Only a decision model could say what the condition reads: configure() says so."""
    own = llmeval.LLMJudge("of_this_app_alone", "Is it kind?\n\n{response}")
    rules = [
        llmeval.Escalation("safety", when=llmeval.below(own.name, 0.5)),
        llmeval.Escalation(own, share=0.2),
    ]
    with pytest.raises(ConfigurationError, match=r"'of_this_app_alone'.*LLMEVAL_DECISION_MODEL"):
        llmeval.configure(escalations=rules, exporters=["memory"])


@pytest.mark.parametrize("kind", ["cascade", "joined", "share"])
def test_a_decision_without_a_good_answer_cannot_be_compared(kind):
    """Of categories that nobody called good there is no probability: configure() says so."""
    topic = llmeval.LLMJudge("topic", "Which is it?\n\n{response}", output=["billing", "shipping"])
    low = ~(llmeval.below("topic", 0.5) | llmeval.flagged("topic", "billing"))
    rule = {
        "cascade": lambda: llmeval.Cascade(topic),
        "joined": lambda: llmeval.Escalation("safety", when=low),
        "share": lambda: llmeval.Escalation("safety", share=0.2, by="topic"),
    }[kind]()
    with pytest.raises(ConfigurationError, match=r"'topic'.*'billing'.*flagged\('topic'"):
        llmeval.configure(
            evaluators=[topic],
            decisions=ScriptedDecisions(),
            escalations=[rule],
            exporters=["memory"],
        )


@pytest.mark.parametrize("output", [["billing", "shipping"], ["good", "bad"]])
def test_a_category_may_be_flagged_and_a_rated_one_compared(output):
    """A word can be named, whatever it means; good and bad have a probability."""
    topic = llmeval.LLMJudge("topic", "Which is it?\n\n{response}", output=output)
    too = llmeval.LLMJudge("polite_too", "Is it kind?\n\n{response}")
    words = Answer({output[0]: 0.6, output[1]: 0.4})
    when = llmeval.above("topic", 0.5) if "good" in output else llmeval.flagged("topic", "billing")
    with capture(
        evaluators=[topic],
        decisions=ScriptedDecisions({"topic": words}),
        llm=FakeLLM(YES),
        escalations=[llmeval.Escalation(too, when=when)],
    ) as seen:
        answer()
        stats = seen.drain()
    assert stats.judged == {"polite_too": 1, "topic.decision": 1}


def test_a_cascade_takes_an_address(monkeypatch, server, tmp_path):
    """``module:attribute`` of the app."""
    (tmp_path / "app_of_cascade.py").write_text(
        "import llmeval_sdk as llmeval\n"
        "polite = llmeval.LLMJudge('polite', 'Is it polite? {response}')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with capture(
        decisions="systemone/any",
        decision_base_url=server.base_url,
        llm=FakeLLM(YES),
        escalations=[llmeval.Cascade("app_of_cascade:polite", low=0.0, high=1.0)],
    ) as seen:
        answer()
        stats = seen.drain()
    assert stats.judged["polite.decision"] == stats.judged["polite"] == 1


def test_a_cascade_of_an_address_that_is_none_says_so(server):
    """Where a person watches, the error names the module."""
    with pytest.raises(ConfigurationError, match="no_such_app"):
        llmeval.configure(
            exporters=["memory"],
            decisions="systemone/any",
            decision_base_url=server.base_url,
            escalations=[llmeval.Cascade("no_such_app:polite")],
        )


def test_what_is_no_text_is_left_out_and_counted(server):
    """Images and files are in ``stats()``, by kind, and noted with each decision."""
    image = {"type": "image_url", "image_url": {"url": "https://example.com/pier.png"}}
    content = [{"type": "text", "text": "When does it leave?"}, image, {"type": "file"}]
    with capture(
        decisions="systemone/any", decision_base_url=server.base_url,
        evaluators=["relevance_to_query"], escalations=NO_ESCALATION,
    ) as seen:  # fmt: skip
        with llmeval.workflow(
            "answer", request={"messages": [{"role": "user", "content": content}]}
        ) as span:
            span.response = "At 08:40."
        stats = seen.drain()
    assert stats.left_out == {"image_url": 1, "file": 1}
    (decision,) = [e.evaluation for e in seen.evaluations if e.evaluation.probability is not None]
    assert decision.metadata["left_out"] == {"image_url": 1, "file": 1}


def test_decisions_have_a_cache_of_their_own():
    """They are about all traffic: they push no verdict out of a cache, and wait for no Redis."""

    def shared():
        pytest.fail("the cache of the judges' verdicts is not for decisions")

    with capture(evaluators=["safety"], decisions=ScriptedDecisions()):
        plan = replace(runtime.pipeline().plan, verdicts=shared)
        assert type(plan.decider().verdicts) is Verdicts


def test_a_record_that_cannot_be_copied_is_a_reason_for_every_judge_that_is_asked(monkeypatch):
    """None of them is without an outcome and without a reason."""

    def broken(record):
        raise RecursionError

    asked = ["safety", "groundedness"]
    with capture(
        evaluators=asked, decisions=ScriptedDecisions(), escalations=[], raise_again=False
    ) as seen:
        for module in (_judging, evaluating):
            monkeypatch.setattr(module, "own_copy", broken, raising=False)
        answer()
        seen.drain()
    assert seen.reasons() == {f"{name}.decision": "error" for name in asked}


@pytest.mark.parametrize(("free", "called"), [(0, 0), (1, 1)])
def test_a_task_is_called_only_for_a_job_that_has_a_place(free, called, monkeypatch):
    """Judgements for which there is no place wake nobody, whatever places decisions have free."""
    with capture(evaluators=["safety"], decisions=ScriptedDecisions(), judge_concurrency=2):
        judging = _judging.Judging(runtime.pipeline().plan, SimpleNamespace(emit_judged=print))
    for _ in range(3):
        job = _judging.Job(safety, Record(), Target("t", "s"), Admitted("asked", 1.0))
        judging._jobs.add(_judging.QueuedJob(job))
    judging._running["judgement"] = judging._places["judgement"] - free
    calls = []
    monkeypatch.setattr(judging._pool, "call", calls.append)
    judging._run_more()
    assert calls == [called]
