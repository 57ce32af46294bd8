"""Rules by group: for whom a rule holds, and a share for each tenant."""

import random
from collections import Counter

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation, JudgeGate
from llmeval_sdk.evaluation.groups import MAX_GROUPS
from llmeval_sdk.evaluation.json_rules import parse_rules
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.sampling import SamplingRule, SamplingRules
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.statistics.mean import population_mean


@llmeval.judge(name="checked_by_group")
def checked(record: Record, llm: llmeval.LLM) -> bool:
    return bool(record.response)


def record(number, tenant=None, **tags):
    tags |= {"tenant": tenant} if tenant else {}
    return Record(
        response="a", trace_id=f"{number:032x}", span_id=f"{number:016x}", span_name="answer",
        tags=tags,
    )  # fmt: skip


def test_a_sampling_rule_is_about_the_tags_that_it_names():
    """The first rule that matches wins, as ever."""
    rules = SamplingRules.of(
        [
            SamplingRule(1.0, where={"tag:tenant": "acme"}),
            SamplingRule(0.5, where={"tag:tenant": ["globex", "initech"], "user": "u1"}),
            SamplingRule(0.0),
        ]
    )
    assert rules.rate("any", record(1, "acme")) == 1.0
    assert rules.rate("any", record(1, "globex", user_id="u1")) == 0.5
    assert rules.rate("any", record(1, "globex")) == 0.0
    assert rules.rate("any", record(1)) == 0.0


def test_the_environment_says_it_as_json():
    """A bad condition counts as rate 0 for whatever it could have meant."""
    rules = parse_rules('[{"sample_rate": 0.2, "where": {"tag:tenant": "acme"}}]')
    assert rules.problems == ()
    assert [rules.rate("j", record(1, tenant)) for tenant in ("acme", "other")] == [0.2, 1.0]
    broken = parse_rules('[{"sample_rate": 0.2, "where": {"tenant": "acme"}}]')
    assert "tag:KEY" in broken.problems[0]
    assert broken.rate("j", record(1, "other")) == 0.0


@pytest.mark.parametrize(
    "where", ["acme", {}, {"tenant": "a"}, {"tag:": "a"}, {"tag:t": 7}, {1: "a"}]
)
def test_what_is_no_condition_is_refused(where):
    """With what to write instead."""
    for make in (
        lambda: SamplingRule(0.5, where=where),
        lambda: Escalation("safety", share=0.2, where=where),
    ):
        with pytest.raises(ConfigurationError, match="tag:"):
            make()


def test_per_divides_a_share():
    """A condition on scores has nothing to divide."""
    with pytest.raises(ConfigurationError, match="share="):
        Escalation("safety", when=llmeval.below("quality", 0.5), per="tag:tenant")
    with pytest.raises(ConfigurationError, match="tag:KEY"):
        Escalation("safety", share=0.2, per="tenant")


def stream(tenants, count, seed=1):
    """Yield records of tenants of very different size, with a risk and whether they are bad."""
    chance = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(tenants))]
    for number in range(count):
        (tenant,) = chance.choices(tenants, weights)
        base = 0.1 + 0.8 * (tenants.index(tenant) % 5) / 5  # some tenants look riskier than others
        risk = min(1.0, max(0.0, chance.gauss(base, 0.15)))
        yield record(number + seed * 1_000_000, tenant), tenant, risk, chance.random() < 0.3 * risk


def judged(escalation, tenants, count, seed=1):
    gate = JudgeGate(escalations=[escalation])
    for each, tenant, risk, is_bad in stream(tenants, count, seed):
        scores = {"groundedness_risk": Evaluation("groundedness_risk", risk)}
        decided = gate.decide(checked, each, scores)
        chance = decided.probability if isinstance(decided, Admitted) else None
        yield tenant, is_bad, chance


def test_each_tenant_has_a_share_of_its_own():
    """One share for all is spent on those that look riskiest; a share of each is not."""
    tenants = [f"t{n}" for n in range(5)]
    shares = {}
    for per in (None, "tag:tenant"):
        seen, chosen = Counter(), Counter()
        escalation = Escalation("checked_by_group", share=0.2, per=per)
        for tenant, _, chance in judged(escalation, tenants, 12_000):
            seen[tenant] += 1
            chosen[tenant] += chance is not None
        shares[per] = [chosen[tenant] / seen[tenant] for tenant in tenants]
    assert max(shares[None]) > 0.5
    assert all(0.17 < share < 0.23 for share in shares["tag:tenant"])


def test_estimates_by_tenant_and_over_all_are_unbiased():
    """Forty tenants of very different size, each with a share of its own; fifteen runs."""
    tenants = [f"t{n}" for n in range(40)]
    escalation = Escalation("checked_by_group", share=0.25, per="tag:tenant")
    errors, inside, estimated = [], 0, 0
    for seed in range(15):
        truth, values, chances = {}, {}, {}
        for tenant, is_bad, chance in judged(escalation, tenants, 4_000, seed):
            for name in (tenant, "all"):
                truth.setdefault(name, []).append(is_bad)
                if chance is not None:
                    values.setdefault(name, []).append(float(is_bad))
                    chances.setdefault(name, []).append(chance)
        for name, outcomes in truth.items():
            estimate = population_mean(values.get(name, []), chances.get(name, []))
            if estimate is None or len(values[name]) < 10:
                continue
            actual = sum(outcomes) / len(outcomes)
            estimated += 1
            inside += estimate.low <= actual <= estimate.high
            if name == "all":
                errors.append(estimate.mean - actual)
    assert abs(sum(errors) / len(errors)) < 0.006
    assert inside / estimated > 0.93


def test_more_tenants_than_are_told_apart_share_one_state():
    """Ten thousand of them take no more memory than two hundred."""
    gate = JudgeGate(escalations=[Escalation("checked_by_group", share=0.2, per="tag:tenant")])
    chosen = 0
    for number in range(10_000):
        scores = {"groundedness_risk": Evaluation("groundedness_risk", random.random())}
        decided = gate.decide(checked, record(number, f"tenant-{number}"), scores)
        chosen += isinstance(decided, Admitted)
    assert len(gate._of_groups) == MAX_GROUPS + 1
    assert 0.15 < chosen / 10_000 < 0.25


def test_an_escalation_is_about_the_tenants_that_it_names():
    """Other records are not told as passed over, unless the span names the judge itself."""
    escalation = Escalation("checked_by_group", share=1.0, where={"tag:tenant": "acme"})
    with llmeval.testing.capture(
        escalations=[escalation], llm=llmeval.testing.FakeLLM("yes")
    ) as seen:
        for number, tenant in enumerate(("acme", "globex", "acme")):
            with llmeval.workflow(
                "answer", tags={"tenant": tenant}, request=f"question {number}"
            ) as span:
                span.response = "a"
        stats = seen.drain()
    assert stats.judged == {"checked_by_group": 2}
    assert not stats.not_run


def test_rules_read_the_tags_of_a_context():
    """`annotation_context` gives them to all spans inside."""
    rule = SamplingRule(0.0, where={"tag:tenant": "quiet"})
    with llmeval.testing.capture(
        evaluators=[checked], sampling_rules=[rule], llm=llmeval.testing.FakeLLM("yes")
    ) as seen:
        for tenant in ("quiet", "loud"):
            with (
                llmeval.annotation_context(tags={"tenant": tenant}),
                llmeval.workflow("answer", request="q") as span,
            ):
                span.response = "a"
        stats = seen.drain()
    assert stats.judged == {"checked_by_group": 1}
    assert stats.not_run["checked_by_group"] == {"not_sampled": 1}


ANSWER = '{"rationale": "It answers.", "rating": "yes"}'
CLOCK = 1_700_000_000.0


def limiter(*groups, now=lambda: CLOCK, **limits):
    limits = {"calls_per_minute": None, "usd_per_day": None, **limits}
    return BudgetLimiter(Budget(**limits, groups=groups), clock=now)


def granted(limiter, tenant, *, usd=0.1, calls=1):
    tags = {"tenant": tenant} if tenant else {}
    reserved = limiter.reserve("polite", usd=usd, calls=calls, tokens=10, tags=tags)
    return isinstance(reserved, Reservation)


def test_each_tenant_has_a_budget_of_its_own():
    """One that has spent its own leaves that of the others alone; those without a tag share one."""
    keeper = limiter(Budget(calls_per_minute=2, usd_per_day=None, per="tag:tenant"))
    for tenant in ("acme", "globex", None):
        assert [granted(keeper, tenant) for _ in range(3)] == [True, True, False]
    refused = keeper.reserve("polite", tags={"tenant": "acme"})
    assert "tag:tenant=acme: 2 calls a minute are used up" in refused.detail


def test_a_budget_of_a_group_is_inside_that_of_all():
    """And a tenant that is named has a further limit."""
    keeper = limiter(
        Budget(calls_per_minute=None, usd_per_day=0.5, per="tag:tenant"),
        Budget(calls_per_minute=None, usd_per_day=0.2, where={"tag:tenant": "acme"}),
        usd_per_day=0.9,
    )
    assert sum(granted(keeper, "acme") for _ in range(9)) == 2
    assert sum(granted(keeper, "globex") for _ in range(9)) == 5
    assert sum(granted(keeper, "initech") for _ in range(9)) == 2


@pytest.mark.parametrize(
    ("group", "named"),
    [
        ({"per": "tag:tenant"}, "tag:tenant=acme"),
        ({"where": {"tag:tenant": ["b", "acme"]}}, "where tag:tenant=acme|b"),
        (
            {"where": {"tag:tenant": "acme", "tag:tier": "gold"}, "per": "user"},
            "where tag:tenant=acme and tag:tier=gold, user=u1",
        ),
    ],
)
def test_a_refusal_names_the_group_whose_limit_it_is(group, named):
    """Whoever reads it knows for whom to raise which limit."""
    keeper = limiter(Budget(calls_per_minute=0, usd_per_day=None, **group))
    refused = keeper.reserve("any", tags={"tenant": "acme", "tier": "gold", "user_id": "u1"})
    assert refused.detail == f"{named}: 0 calls a minute are used up"


def test_a_larger_budget_of_one_tenant_does_not_lift_that_of_each():
    """Each of the limits counts by itself."""
    keeper = limiter(
        Budget(calls_per_minute=2, usd_per_day=None, per="tag:tenant"),
        Budget(calls_per_minute=9, usd_per_day=None, where={"tag:tenant": "acme"}),
    )
    assert sum(granted(keeper, "acme") for _ in range(9)) == 2


def test_what_was_not_used_is_given_back_to_the_tenant():
    """As in every budget."""
    keeper = limiter(Budget(calls_per_minute=None, usd_per_day=0.5, per="tag:tenant"))
    first = keeper.reserve("polite", usd=0.5, tags={"tenant": "acme"})
    assert not granted(keeper, "acme")
    keeper.settle(first, usd=0.1)
    assert granted(keeper, "acme", usd=0.4)


def test_hundreds_of_tenants_have_two_hundred_accounts_and_one_more():
    """The rest shares a budget, and yesterday's tenants make way for today's."""
    now = [CLOCK]
    keeper = limiter(
        Budget(calls_per_minute=None, usd_per_day=0.1, per="tag:tenant"), now=lambda: now[0]
    )
    granted_to = [granted(keeper, f"t{number}") for number in range(400)]
    assert sum(granted_to) == MAX_GROUPS + 1
    assert len(keeper._ledger._text) < 50_000
    now[0] += 2 * 86_400
    assert sum(granted(keeper, f"later{number}") for number in range(400)) == MAX_GROUPS + 1


def test_a_tenant_keeps_its_limit_however_many_come_after_it():
    """Neither does a busy account make way for a new one, nor is its tenant sent to another."""
    keeper = limiter(Budget(calls_per_minute=2, usd_per_day=None, per="tag:tenant"))
    assert granted(keeper, "first", usd=0.0)
    assert granted(keeper, "first", usd=0.0)
    for number in range(MAX_GROUPS):
        assert granted(keeper, f"t{number}", usd=0.0)
    assert not granted(keeper, "first", usd=0.0)


def test_what_tenants_without_an_account_spent_together_is_kept():
    """The account that they share holds their bills, as any other does."""
    keeper = limiter(Budget(calls_per_minute=None, usd_per_day=0.1, per="tag:tenant"))
    assert all(granted(keeper, f"t{number}") for number in range(MAX_GROUPS))
    keeper.settle(keeper.reserve("any", usd=0.1, tags={"tenant": "one more"}), usd=0.1)
    assert not granted(keeper, "yet another")


def test_of_exactly_two_hundred_accounts_those_of_two_days_ago_make_way():
    """A new tenant then has an account of its own, and so has the next."""
    now = [CLOCK]
    budget = Budget(calls_per_minute=1, usd_per_day=None, per="tag:tenant")
    keeper = limiter(budget, now=lambda: now[0])
    assert all(granted(keeper, f"t{number}", usd=0.0) for number in range(MAX_GROUPS))
    now[0] += 2 * 86_400
    for tenant in ("new", "newer"):
        assert granted(keeper, tenant, usd=0.0)
        assert keeper.used(f"tag:tenant={tenant}").calls == 1


REFUSED = {
    "no group": lambda: Budget(groups=[Budget()]),
    "no budget": lambda: Budget(groups=["acme"]),
    "no tag to divide by": lambda: Budget(per="tenant"),
    "no tag to choose by": lambda: Budget(where={"tenant": "acme"}),
    "not inside another": lambda: BudgetLimiter(Budget(per="tag:tenant")),
    "the same requests twice": lambda: Budget(
        groups=[Budget(per="tag:t"), Budget(per="tag:t", usd_per_day=1)]
    ),
    "judges inside": lambda: Budget(groups=[Budget(per="tag:t", judges={"safety": Budget()})]),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_budget_that_makes_no_sense_is_refused(mistake):
    """With what to write instead."""
    with pytest.raises(ConfigurationError, match=r"per=|tag:KEY"):
        REFUSED[mistake]()


def test_judges_spend_the_budget_of_the_tenant_that_they_judge():
    """The tags of the judged span go with the judgement to its model."""
    budget = Budget(
        calls_per_minute=None, usd_per_day=None,
        groups=[Budget(calls_per_minute=2, usd_per_day=None, per="tag:tenant")],
    )  # fmt: skip
    with llmeval.testing.capture(
        evaluators=["relevance_to_query"], llm=llmeval.testing.FakeLLM(ANSWER), budget=budget
    ) as seen:
        for tenant in ("acme",) * 4 + ("globex",):
            with llmeval.workflow(
                "answer", tags={"tenant": tenant}, request=f"q {random.random()}"
            ):
                llmeval.annotate(response="a")
        stats = seen.drain()
    assert stats.judged == {"relevance_to_query": 3}
    assert stats.not_run["relevance_to_query"] == {"over_budget": 2}


def test_the_environment_gives_each_tenant_a_budget(monkeypatch):
    """The same limits as in code, beside those of all judges."""
    monkeypatch.setenv(
        "LLMEVAL_BUDGET_GROUPS",
        '[{"calls_per_minute": 2, "usd_per_day": null, "per": "tag:tenant"}]',
    )
    assert judged_of(tenants=("acme",) * 4 + ("globex",)) == (3, {"over_budget": 2})


def test_no_judge_pays_while_a_limit_of_the_environment_cannot_be_read(monkeypatch):
    """The limit that was meant would be missing, so nothing is spent until it is mended."""
    monkeypatch.setenv("LLMEVAL_BUDGET_GROUPS", '[{"usd_per_dai": 0.5, "per": "tag:tenant"}]')
    assert judged_of(tenants=("acme",)) == (0, {"over_budget": 1})


def test_the_environment_says_whose_requests_a_judge_sees(monkeypatch):
    """An escalation there is about the tenants that it names."""
    monkeypatch.setenv(
        "LLMEVAL_ESCALATIONS",
        '[{"judge": "relevance_to_query", "share": 1.0, "where": {"tag:tenant": "acme"}}]',
    )
    tenants = ("acme", "globex", "acme")
    assert judged_of(tenants=tenants, evaluators=[]) == (2, {})


def test_a_misspelt_escalation_of_the_environment_spends_nothing(monkeypatch):
    """Its judge, which other rules may ask for, does not run on everything instead."""
    monkeypatch.setenv("LLMEVAL_ESCALATIONS", '[{"judge": "relevance_to_query", "shar": 0.1}]')
    assert judged_of(tenants=("acme",)) == (0, {"not_sampled": 1})


def judged_of(*, tenants, evaluators=("relevance_to_query",)):
    """Return how many requests were judged, and why the others were not."""
    with llmeval.testing.capture(
        evaluators=evaluators, llm=llmeval.testing.FakeLLM(ANSWER)
    ) as seen:
        for tenant in tenants:
            with llmeval.workflow(
                "answer", tags={"tenant": tenant}, request=f"q {random.random()}"
            ):
                llmeval.annotate(response="a", retrieved_context=["a passage"])
        stats = seen.drain()
    judge = "relevance_to_query"
    return stats.judged.get(judge, 0), stats.not_run.get(judge, {})
