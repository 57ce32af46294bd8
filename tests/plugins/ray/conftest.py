"""A real Ray on loopback, small and without a dashboard; where it is not installed, tests say so."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from llmeval_sdk.testing.judge_server import JudgeServer


MISSING = None if find_spec("ray") else "Ray is not installed: make test-ray"


def pytest_collection_modifyitems(items):
    """Give Ray the time it needs to start on a busy machine; skip what needs it where it is not."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("default"))  # Ray warns of what it renames
            if MISSING:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def ray_here(tmp_path_factory):
    """The Ray of this process, with three processors on two cores: two work, one reads."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    import ray

    ray.init(
        address="local", num_cpus=3, include_dashboard=False, object_store_memory=128 << 20,
        log_to_driver=False, logging_level="error", _node_ip_address="127.0.0.1",
    )  # fmt: skip
    yield ray
    ray.shutdown()


@pytest.fixture
def judge_server():
    """The stand-in for a judge model, which counts its calls."""
    with JudgeServer() as server:
        yield server
