"""All settings, in a table for each area, and the only place that reads the environment.

A setting is an attribute of its area's table. Its row says which variables set it, how its value
is read, what it is when a variable cannot be read, and what it is for. `Settings` joins the tables
of the core. A plugin, such as Phoenix, has a table of its own, ``settings.of(PhoenixSettings)``.

The table in the reference is printed from here: ``python -m llmeval_sdk.config``.
"""

from llmeval_sdk.config.reading import (
    IDS,
    JUDGES,
    SCORES,
    DefaultLimit,
    Row,
    Secret,
    Table,
    price_table,
    prices,
    setting,
)
from llmeval_sdk.config.settings import (
    Settings,
    areas,
    from_environment,
    hidden,
    in_experiment,
    openai_headers,
    read,
    rows,
    snapshot,
    source_of,
    value_of,
    variables,
)


__all__ = [
    "IDS", "JUDGES", "SCORES", "DefaultLimit", "Row", "Secret", "Settings", "Table", "areas",
    "from_environment",
    "hidden", "in_experiment", "openai_headers", "price_table", "prices", "read", "rows", "setting",
    "snapshot", "source_of", "value_of", "variables",
]  # fmt: skip
