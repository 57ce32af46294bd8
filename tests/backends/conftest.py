"""Real backends on loopback, from the environments that ``make test-backends`` builds.

``BACKENDS`` names the folder with one environment each; without it these tests are skipped, since
Phoenix and MLflow take minutes and gigabytes to install.
"""

import os
import subprocess
from pathlib import Path

import backend_servers as servers
import pytest


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


@pytest.fixture(scope="session")
def test_agent(tmp_path_factory):
    """Run ddapm-test-agent; gives the address of its OTLP port."""
    with servers.otlp_agent(BACKENDS, tmp_path_factory.mktemp("agent")) as url:
        yield url


@pytest.fixture
def screenshot():
    """Return a function that keeps a picture of a page, where Chromium is installed."""

    def take(url, name, wait=15_000):
        artifacts = Path("artifacts")
        artifacts.mkdir(exist_ok=True)
        picture = artifacts / f"{name}.png"
        picture.unlink(missing_ok=True)
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--window-size=1800,1100", "--hide-scrollbars",
            f"--virtual-time-budget={wait}", f"--screenshot={picture}", url,
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=90, check=True)
        except FileNotFoundError:
            pytest.skip("chromium is not installed")
        assert picture.stat().st_size > 20_000

    return take
