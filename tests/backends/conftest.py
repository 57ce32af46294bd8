"""Real backends on loopback, from the environments that ``make test-backends`` builds.

``BACKENDS`` names the folder with one environment each; without it these tests are skipped, since
Phoenix and MLflow take minutes and gigabytes to install.
"""

import os
import shutil
from pathlib import Path

import backend_servers as servers
import browser
import pytest
from langfuse_server import langfuse_by_its_package


BACKENDS = os.environ.get("BACKENDS", "")


def pytest_collection_modifyitems(items):
    """Skip all of this folder where nothing is installed."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))
            if not BACKENDS:
                item.add_marker(pytest.mark.skip(reason="needs `make test-backends`"))


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory):
    """Run Phoenix; gives its address."""
    with servers.phoenix(BACKENDS, tmp_path_factory.mktemp("phoenix")) as url:
        yield url


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory):
    """Run an MLflow server; gives its address."""
    with servers.mlflow(BACKENDS, tmp_path_factory.mktemp("mlflow")) as url:
        yield url


@pytest.fixture
def langfuse():
    """Run Langfuse's stand-in with the models of its own package; gives its address and its books."""
    python = Path(BACKENDS, "langfuse", "bin", "python").absolute()
    with langfuse_by_its_package(python) as (url, ask):
        yield url, ask


@pytest.fixture(scope="session")
def test_agent(tmp_path_factory):
    """Run ddapm-test-agent; gives the address of its OTLP port."""
    with servers.otlp_agent(BACKENDS, tmp_path_factory.mktemp("agent")) as url:
        yield url


@pytest.fixture
def screenshot(tmp_path):
    """Return a function that keeps a picture of a page that shows certain words."""

    def take(url, name, *words):
        if shutil.which("chromium") is None:
            pytest.skip("chromium is not installed")
        artifacts = Path("artifacts")
        artifacts.mkdir(exist_ok=True)
        with browser.page(url, tmp_path / "profile") as page:
            page.shows(*words)
            while page.click("Got it"):  # what is new, told over the page
                page.shows(*words)
            page.picture(artifacts / f"{name}.png")

    return take
