"""`llmeval_sdk.estimates` gives its functions, whatever was imported first."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from llmeval_sdk import estimates


@pytest.mark.part("reading")
def test_no_name_is_also_a_module():
    """A submodule of that name would take its place once somebody imports it."""
    assert {module.name for module in iter_modules(estimates.__path__)}.isdisjoint(
        estimates.__all__
    )
    for module in iter_modules(estimates.__path__):
        import_module(f"{estimates.__name__}.{module.name}")
    assert all(callable(getattr(estimates, name)) for name in estimates.__all__)
