"""The real viewer on a real server, over a store that the real writer filled."""

import contextlib
from contextlib import closing

import pytest


pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from served import serving
from starlette.applications import Starlette
from starlette.routing import Mount
from viewer_store import Store

from llmeval_sdk import viewer


@pytest.fixture
def store(tmp_path):
    with closing(Store(tmp_path / "own" / "llmeval.db")) as found:
        yield found


@pytest.fixture
def serve(store):
    """Return a function that serves the store with the options of `viewer.app`."""
    with contextlib.ExitStack() as stack:

        def start(*, mounted=None, **options):
            app = viewer.app(**{"store": store.path, "open": "token" not in options, **options})
            stack.callback(app.close)
            if mounted is not None:
                app = Starlette(routes=[Mount(mounted, app)])
            return stack.enter_context(serving(app, mounted or ""))

        yield start


@pytest.fixture
def site(serve):
    return serve()
