"""The real viewer on a real server, over a store that the real writer filled."""

import contextlib
import functools
import shutil
from contextlib import closing, contextmanager

import pytest


pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from served import serving
from starlette.applications import Starlette
from starlette.routing import Mount
from viewer_store import Store

from llmeval_sdk import viewer
from llmeval_sdk.viewer import _guard


@pytest.fixture(autouse=True)
def _each_key_once(monkeypatch):
    """Derive the same key of a token only once, which is slow by intention."""
    monkeypatch.setattr(_guard, "pbkdf2_hmac", _derived)


_derived = functools.cache(_guard.pbkdf2_hmac)


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


@pytest.fixture(scope="module")
def chromium():
    """Return the Chromium of this machine."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no browser here: `make test-viewer` installs one"
    )
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no Chromium here: `make test-viewer` installs one")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Return a context manager for a page; leaving it checks that nothing went wrong in there."""

    @contextmanager
    def opened(*, clean=True, **options):
        context = chromium.new_context(**options)
        page, noise = context.new_page(), []
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("dialog", lambda dialog: (noise.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: None if "127.0.0.1" in request.url else noise.append(request.url),
        )
        yield page
        context.close()
        assert not clean or noise == []

    return opened
