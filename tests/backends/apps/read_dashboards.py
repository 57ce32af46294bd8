"""Reads the dashboards of docs/dashboards by the models that Grafana and Datadog publish.

python read_dashboards.py FOLDER

Fails on a part that the models do not know. Prints, as JSON, how many panels each of them has.
"""

import json
import sys
from pathlib import Path

from datadog_api_client import Configuration
from datadog_api_client.model_utils import UnparsedObject, validate_and_convert_types
from datadog_api_client.v1.model.dashboard import Dashboard as DatadogDashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanaDashboard


def lost(given, kept, place="dashboard"):
    """Name what is given, and what the model has not kept: it does not know that field."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(kept, dict) or key not in kept:
                if value not in (None, [], {}):
                    yield f"{place}.{key}"
            else:
                yield from lost(value, kept[key], f"{place}.{key}")
    elif isinstance(given, list):
        for number, value in enumerate(given):
            yield from lost(value, kept[number], f"{place}[{number}]")
    elif given != kept:
        yield place


def grafana(text):
    """Return how many panels Grafana's model reads."""
    board = GrafanaDashboard.from_json(json.loads(text))
    kept = json.loads(JSONEncoder().encode(board))
    missing = list(lost(json.loads(text), kept))
    assert not missing, missing
    return len(board.panels)


def unparsed(value, place="dashboard"):
    """Name the parts that no model of Datadog's API fits, and the fields that it does not know."""
    if isinstance(value, UnparsedObject):
        yield place
    elif instances := getattr(value, "_composed_instances", None):  # one of several kinds
        for part in instances:
            yield from unparsed(part, place)
    elif hasattr(value, "_data_store"):
        for key, part in value._data_store.items():
            if key not in value.openapi_types and key != "value":
                yield f"{place}.{key}"
            yield from unparsed(part, f"{place}.{key}")
        if value.__dict__.get("_unparsed"):
            yield place
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from unparsed(part, f"{place}[{number}]")


def datadog(text):
    """Return how many widgets Datadog's model reads."""
    configuration = Configuration()
    board = validate_and_convert_types(
        json.loads(text), (DatadogDashboard,), ["dashboard"], True, True, configuration
    )
    missing = list(unparsed(board))
    assert not missing, missing
    return len(board.widgets)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(
        json.dumps(
            {
                "grafana": grafana((folder / "grafana.json").read_text()),
                "datadog": datadog((folder / "datadog.json").read_text()),
            }
        )
    )
