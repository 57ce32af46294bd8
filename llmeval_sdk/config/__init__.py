"""All settings, in a table for each area, and the only place that reads the environment.

A setting is a field of its area's table. Its row says which variables set it, how their text is
read, and what it is for. `Settings` joins the tables of the core. An extension, such as Phoenix or
Ragas, has a table of its own, ``settings.of(PhoenixSettings)``, which can be deleted together with
the extension.

The table in the reference is printed from here: ``python -m llmeval_sdk.config``.
"""

from llmeval_sdk.config._resolve import (
    from_environment,
    hidden,
    in_experiment,
    openai_headers,
    read,
    source_of,
    value_of,
    variables,
)
from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._settings import AREAS, FORMER_NAMES, ROWS, Settings
from llmeval_sdk.config._table import table
from llmeval_sdk.config._texts import SCORES, price_table, prices


__all__ = [
    "AREAS", "FORMER_NAMES", "ROWS", "SCORES", "Secret", "Settings", "from_environment",
    "hidden", "in_experiment", "openai_headers", "price_table", "prices", "read", "setting",
    "source_of", "table", "value_of", "variables",
]  # fmt: skip
