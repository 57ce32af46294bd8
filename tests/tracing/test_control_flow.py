"""An exception by which an app steers its framework is no failure; one that says 5xx is."""

import http
import sys
import types

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traffic import unanswered
from llmeval_sdk.testing import capture


def starlette():
    """Starlette, whose exception is FastAPI's, too."""
    error = pytest.importorskip("starlette.exceptions").HTTPException
    sockets = pytest.importorskip("starlette.websockets")
    own = type("TeapotError", (error,), {})
    flow = {
        "HTTPException 404": error(404, "no such document"),
        "HTTPException 403": error(http.HTTPStatus.FORBIDDEN),
        "TeapotError 418": own(418),
        "WebSocketDisconnect": sockets.WebSocketDisconnect(1001),
    }
    return flow, [error(500), own(503)]


def django():
    """Django, whose redirects are responses."""
    missing = pytest.importorskip("django.http").Http404
    denied = pytest.importorskip("django.core.exceptions").PermissionDenied
    broken = pytest.importorskip("django.core.exceptions").ImproperlyConfigured
    return {"Http404": missing("no such document"), "PermissionDenied": denied()}, [broken()]


def flask():
    """Flask and Werkzeug, which also raise a response that the app made."""
    errors = pytest.importorskip("werkzeug.exceptions")
    utils, routing = pytest.importorskip("werkzeug.utils"), pytest.importorskip("werkzeug.routing")
    made = errors.HTTPException(response=utils.redirect("/login"))
    flow = {
        "NotFound 404": errors.NotFound(),
        "RequestRedirect 308": routing.RequestRedirect("/login"),
        "HTTPException 302": made,
    }
    unknown = errors.HTTPException()
    return flow, [errors.InternalServerError(), errors.BadGateway(), unknown]


def aiohttp():
    """The exceptions of aiohttp are responses."""
    web = pytest.importorskip("aiohttp.web")
    flow = {"HTTPFound 302": web.HTTPFound("/login"), "HTTPNotFound 404": web.HTTPNotFound()}
    return flow, [web.HTTPBadGateway()]


def sanic():
    """The exceptions of Sanic have 500 unless they say otherwise."""
    errors = pytest.importorskip("sanic.exceptions")
    return {"NotFound 404": errors.NotFound("?")}, [errors.SanicException("?")]


def litestar():
    """The exceptions of Litestar."""
    errors = pytest.importorskip("litestar.exceptions")
    return {"NotFoundException 404": errors.NotFoundException()}, [errors.HTTPException("?")]


def falcon():
    """Falcon writes a status as a text."""
    module = pytest.importorskip("falcon")
    flow = {"HTTPNotFound 404": module.HTTPNotFound(), "HTTPFound 302": module.HTTPFound("/login")}
    return flow, [module.HTTPServiceUnavailable()]


def tornado():
    """The exception of Tornado."""
    error = pytest.importorskip("tornado.web").HTTPError
    return {"HTTPError 404": error(404)}, [error(500)]


def celery():
    """What a Celery task raises to be run again, or to have no result."""
    errors = pytest.importorskip("celery.exceptions")
    flow = {"Retry": errors.Retry(), "Ignore": errors.Ignore(), "Reject": errors.Reject("?")}
    return flow, [errors.MaxRetriesExceededError(), errors.SoftTimeLimitExceeded()]


def dramatiq():
    """What a Dramatiq actor raises to be run again."""
    errors = pytest.importorskip("dramatiq.errors")
    return {"Retry": errors.Retry("?")}, [errors.RateLimitExceeded("?")]


def click():
    """What a command raises to end, which fails with a code other than 0."""
    errors = pytest.importorskip("click.exceptions")
    return {"Exit 0": errors.Exit()}, [errors.Exit(2), errors.UsageError("?")]


def typer():
    """The same for Typer."""
    module = pytest.importorskip("typer")
    return {"Exit 0": module.Exit()}, [module.Exit(1)]


def ended(error):
    """Return the span of a function that raised, which the app saw unchanged."""

    @llmeval.workflow
    def view():
        raise error

    with capture() as seen:
        with pytest.raises(type(error)) as raised:
            view()
        seen.drain()
    assert raised.value is error
    return seen.span("view")


WEB = [starlette, django, flask, aiohttp, sanic, litestar, falcon, tornado]


@pytest.mark.parametrize("make", [*WEB, celery, dramatiq, click, typer])
def test_control_flow_is_told_as_such_and_a_failure_stays_one(make):
    """The span says by which exception it ended, with its status; from 500 on it has an error."""
    flow, failures = make()
    for told, error in flow.items():
        span = ended(error)
        assert span.error is None, told
        assert span.attributes == {"control_flow": told}
    for error in failures:
        span = ended(error)
        assert span.error.type == type(error).__name__
        assert "control_flow" not in (span.attributes or {})


def imitated(monkeypatch, module, name, bases=(Exception,), **namespace):
    """Return a class that has the module and the name of a framework's."""
    cls = type(name, bases, {"__module__": module, **namespace})
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    setattr(sys.modules[module], name, cls)
    return cls


def forbidden(*_):
    """Stand for code of the app that must not run."""
    raise ZeroDivisionError


def test_a_class_is_known_by_its_module_and_name_and_none_of_its_code_runs(monkeypatch):
    """A subclass counts as its base; a class that only has the name is a failure as before."""
    predicate = imitated(monkeypatch, "celery.exceptions", "TaskPredicate")
    retry = type("Retry", (predicate,), {"__module__": "celery.exceptions"})
    assert ended(retry()).attributes == {"control_flow": "Retry"}
    own = type("Retry", (Exception,), {"__module__": "celery.exceptions"})
    assert ended(own()).error.type == "Retry"
    gone = type("HTTPException", (Exception,), {"__module__": "starlette.exceptions.gone"})
    assert ended(gone()).error.type == "HTTPException"
    base = imitated(monkeypatch, "sanic.exceptions", "SanicException", status_code=500)
    for status in (property(forbidden), None, "?", [404], float("nan"), float("inf"), -1):
        odd = type("Odd", (base,), {"status_code": status, "__getattribute__": forbidden})
        assert ended(odd()).error.type == "Odd"
    trapped = type("Trapped", (base,), {"status_code": 404, "__getattribute__": forbidden})
    assert ended(trapped()).attributes == {"control_flow": "Trapped 404"}


def test_retried_and_refused_requests_are_neither_failed_nor_without_an_answer(
    monkeypatch, tmp_path
):
    """20 retries beside 20 answers are no 50 % of failures, and no 20 lost answers."""
    predicate = imitated(monkeypatch, "celery.exceptions", "TaskPredicate")
    path = tmp_path / "s.db"
    llmeval.configure(store=str(path), exporters=["local", "memory"])
    memory.clear()

    @llmeval.workflow
    def answer(question, error):
        if error is not None:
            raise error
        return "slate"

    for number in range(20):
        assert answer(f"q{number}", None) == "slate"
        with pytest.raises(predicate):
            answer(f"q{number}", predicate())
    assert llmeval.flush(20).complete
    assert [span.error for span in memory.spans()] == [None] * 40
    with StoreReader(path) as reader:
        (counted,) = reader.read(unanswered)
    assert (counted.requests, counted.lost, counted.abstained) == (40, 0, 0)
