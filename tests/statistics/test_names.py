"""`llmeval_sdk.statistics` gives its functions, whatever was imported first."""

from importlib import import_module
from pkgutil import iter_modules

from llmeval_sdk import statistics


def test_no_name_is_also_a_module():
    """A submodule of that name would take its place once somebody imports it."""
    assert {module.name for module in iter_modules(statistics.__path__)}.isdisjoint(
        statistics.__all__
    )
    for module in iter_modules(statistics.__path__):
        import_module(f"{statistics.__name__}.{module.name}")
    assert all(callable(getattr(statistics, name)) for name in statistics.__all__)
