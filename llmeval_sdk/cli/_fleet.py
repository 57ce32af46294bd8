"""What a worker of a fleet says of itself, and what `llmeval doctor --fleet` finds."""

from __future__ import annotations

from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.config.fleet import FleetSettings
from llmeval_sdk.errors import ConfigurationError


def worker_of(settings: Settings, plan: Any, *, name: str, pool: str, slots: int) -> dict[str, Any]:
    """Return the fields by which a worker says what it is and what it can judge."""
    from llmeval_sdk.fleet._message import READS, fingerprint
    from llmeval_sdk.fleet._presence import release

    key = settings.of(FleetSettings).fleet_key
    assert key is not None
    own = [each.name for each in registry.own_evaluators() if each.kind == "judge"]
    judges = dict.fromkeys(
        (*(judge.name for judge in plan.judges), *own, *registry.installed(registry.JUDGES))
    )
    model, problems = _model(plan)
    return {
        "name": name, "release": release(), "messages": sorted(READS), "judges": list(judges),
        "key": fingerprint(key), "pool": pool, "slots": slots, "model": model,
        "exporters": [exporter.name for exporter in plan.exporters], "problems": problems,
    }  # fmt: skip


def _model(plan: Any) -> tuple[str, list[str]]:
    """Return the judge model of a worker, and why it cannot be asked."""
    from llmeval_sdk.evaluation import NoModel

    try:
        model = plan.llm()
    except (ConfigurationError, ImportError) as error:
        return "", [str(error)]
    if model is None or isinstance(model, NoModel):
        return "", ["no judge model is configured: set LLMEVAL_JUDGE_MODEL"]
    return str(getattr(model, "model", "") or type(model).__name__), []
