"""Settings keep their variables, their names in `configure` and their defaults.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` accepts a change.
"""

from llmeval_sdk import config


def test_settings_keep_their_names_and_defaults(frozen):
    """A deployment that sets a variable, or an app that passes a setting, need not change."""
    table = {
        row.name: {"variables": list(row.variables), "default": repr(row.default)}
        for row in config.rows()
    }
    frozen("settings.json", dict(sorted(table.items())))
