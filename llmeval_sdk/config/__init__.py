"""All settings, in a table for each area, and the only place that reads the environment.

A setting is a field of its area's table. Its row says which variables set it, how their text is
read, and what it is for. `Settings` joins the tables of the core. A plugin, such as Phoenix, has a
table of its own, ``settings.of(PhoenixSettings)``.

The table in the reference is printed from here: ``python -m llmeval_sdk.config``.
"""

from llmeval_sdk.config.reading import SCORES, DefaultLimit, Secret, price_table, prices, setting
from llmeval_sdk.config.settings import (
    Settings,
    areas,
    from_environment,
    hidden,
    in_experiment,
    openai_headers,
    read,
    rows,
    source_of,
    value_of,
    variables,
)


__all__ = [
    "SCORES", "DefaultLimit", "Secret", "Settings", "areas", "from_environment",
    "hidden", "in_experiment", "openai_headers", "price_table", "prices", "read", "rows", "setting",
    "source_of", "value_of", "variables",
]  # fmt: skip
