"""What a decorated view returns is its text or its JSON, and nothing of headers and cookies."""

import io
import json
import sys
import types

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.testing import FakeLLM, capture
from llmeval_sdk.tracing._capture import MAX_BODY, MAX_TEXT
from llmeval_sdk.tracing.internals import capture as captured


ANSWER = {"material": "slate", "year": 1932}
BODY = json.dumps(ANSWER).encode()


def starlette():
    """Return responses of Starlette, and of FastAPI, whose classes they are."""
    module = pytest.importorskip("starlette.responses")
    requests = pytest.importorskip("starlette.requests")
    cookies = {"type": "http", "headers": [(b"cookie", b"secret")]}
    return {
        "json": module.JSONResponse(ANSWER, headers={"x-key": "secret"}),
        "text": module.PlainTextResponse("Slate."),
        "untyped": module.Response("Slate."),
        "binary": module.Response(BODY, media_type="application/octet-stream"),
        "stream": module.StreamingResponse(iter(["Slate."])),
        "file": module.FileResponse("answer.txt"),
        "request": requests.Request(cookies),
    }


def django():
    """Return responses of Django."""
    settings = pytest.importorskip("django.conf").settings
    if not settings.configured:
        settings.configure()
    http, factory = pytest.importorskip("django.http"), pytest.importorskip("django.test.client")
    written = http.HttpResponse()
    written.set_cookie("session", "secret")
    written.write("Sla")
    written.write("te.")
    template = pytest.importorskip("django.template.response")
    return {
        "json": http.JsonResponse(ANSWER),
        "text": written,
        "binary": http.HttpResponse(BODY, content_type="application/pdf"),
        "stream": http.StreamingHttpResponse(iter([b"Slate."])),
        "file": http.FileResponse(io.BytesIO(b"Slate.")),
        "unrendered": template.TemplateResponse(None, "answer.html"),
        "request": factory.RequestFactory().get("/", headers={"cookie": "secret"}),
    }


def flask():
    """Return responses of Flask, which are Werkzeug's."""
    module = pytest.importorskip("flask")
    text = module.Response(["Sla", "te."], headers={"x-key": "secret"})
    text.set_cookie("session", "secret")
    app = module.Flask("app")
    with app.test_request_context("/", headers={"cookie": "secret"}):
        return {
            "json": module.jsonify(ANSWER),
            "text": text,
            "untyped": module.make_response("Slate."),
            "binary": module.Response(BODY, mimetype="image/png"),
            "stream": module.Response(iter(["Slate."])),
            "file": module.send_file(io.BytesIO(b"Slate."), mimetype="text/plain"),
            "request": module.request._get_current_object(),
        }


def aiohttp():
    """Return responses of aiohttp."""
    web = pytest.importorskip("aiohttp.web")
    return {
        "json": web.json_response(ANSWER, headers={"x-key": "secret"}),
        "text": web.Response(text="Slate."),
        "untyped": web.Response(body=b"Slate."),
        "binary": web.Response(body=BODY, content_type="image/png"),
        "stream": web.StreamResponse(),
        "file": web.FileResponse("answer.txt"),
    }


def sanic():
    """Return responses of Sanic."""
    module = pytest.importorskip("sanic.response")
    return {
        "json": module.json(ANSWER, headers={"x-key": "secret"}),
        "text": module.text("Slate."),
        "binary": module.raw(BODY),
        "stream": module.ResponseStream(print),
    }


def litestar():
    """Return responses of Litestar, which hold a value that is not written yet."""
    module = pytest.importorskip("litestar.response")
    return {
        "json": module.Response(ANSWER, headers={"x-key": "secret"}),
        "text": module.Response("Slate.", media_type="text/plain"),
        "stream": module.Stream(iter(["Slate."])),
        "file": module.File(path="answer.txt"),
        "unrendered": module.Template("answer.html"),
    }


@pytest.mark.parametrize("make", [starlette, django, flask, aiohttp, sanic, litestar])
def test_a_response_of_a_framework_is_its_text_or_json_and_all_else_is_not_read(make):
    """The same holds for each framework: no header and no cookie is captured with it."""
    for kind, response in make().items():
        if kind == "json":
            wanted = ANSWER
        elif kind in ("text", "untyped"):
            wanted = "Slate."
        else:
            wanted = f"<{type(response).__name__}, not read>"
        assert captured(response) == wanted, kind
        assert captured([response, 201]) == [wanted, 201], kind


def imitated(monkeypatch, module, name, fields, **namespace):
    """Return an object of a class that has the module and the name of a framework's class."""
    cls = type(name, (), {"__module__": module, **namespace})
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    setattr(sys.modules[module], name, cls)
    made = object.__new__(cls)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def forbidden(_):
    """Stand for code of the app that must not run."""
    raise ZeroDivisionError


def test_a_response_is_read_without_its_own_code(monkeypatch):
    """Slots and fields are read, and no property; a class of the same name is another one."""
    slots = ("_body", "body", "content_type", "headers")
    own = {"_body": BODY, "content_type": "application/json", "headers": "secret"}
    module = "sanic.response.types"
    assert captured(imitated(monkeypatch, module, "JSONResponse", own, __slots__=slots)) == ANSWER
    unfilled = {"content_type": "text/plain"}
    base = imitated(monkeypatch, module, "BaseHTTPResponse", unfilled, __slots__=slots)
    assert captured(base) == "<BaseHTTPResponse, not read>"
    module, typed = "starlette.responses", {"raw_headers": [(b"Content-Type", b"text/plain")]}
    page = imitated(monkeypatch, module, "Response", typed, body=property(forbidden))
    assert captured(page) == "<Response, not read>"
    trap = {"headers": property(forbidden), "__getattribute__": forbidden}
    page = imitated(monkeypatch, module, "Response", {**typed, "body": b"Slate."}, **trap)
    assert captured(page) == "Slate."
    unknown = type("Response", (), {"__module__": module})()
    unknown.material = "slate"
    assert captured(unknown) == {"material": "slate"}


@pytest.mark.parametrize(
    ("body", "content_type", "wanted"),
    [
        (b"\xff\xfeS", "text/plain", None),
        (b"S\x00l\x00", "text/plain; charset=utf-16", None),
        ("Grün".encode(), "text/html; charset=utf-8", "Grün"),
        (b"{'a'", "application/json", "{'a'"),
        (b"[" * 5_000, "application/json", "[" * 5_000),
        (b'{"title": "Gone"}', "Application/Problem+JSON; v=1", {"title": "Gone"}),
        (b'{"a": 1}\n{"a": 2}', "application/x-ndjson", '{"a": 1}\n{"a": 2}'),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"", "text/plain", ""),
        (None, "text/plain", None),
        (b"x" * (MAX_BODY + 1), "text/plain", None),
        (b"[1]" + b" " * 300_000, "application/json", ...),
        ([b"x", 1], "text/plain", None),
        ([b""] * 1_001, "text/plain", None),
        (bytearray(b"Slate."), "text/plain", "Slate."),
        (memoryview(b"Slate."), b"\xff", None),
        (7, "text/plain", None),
    ],
)
def test_a_body_is_text_only_where_its_type_and_its_bytes_say_so(body, content_type, wanted):
    """Whatever a view returns is bounded, and what is no text is said to be not read."""
    page = pytest.importorskip("starlette.responses").Response()
    page.body, page.raw_headers = body, [("x", "y", "z"), ("content-type", content_type)]
    seen = captured(page)
    if wanted is ...:
        assert seen.startswith("[1]")
        assert len(seen) < MAX_TEXT + 100
    else:
        assert seen == (wanted if wanted is not None or body is None else "<Response, not read>")


def test_no_judge_is_paid_for_what_a_framework_makes_of_an_answer():
    """A view is scored by the fields of its answer; of a file nothing is scored, and none judged."""
    responses = pytest.importorskip("starlette.responses")
    llm = FakeLLM()
    with capture(llm=llm, evaluators=["groundedness"], escalations=[]) as seen:
        for name, response in (
            ("plain", {"material": "slate", "year": "1932"}),
            ("view", responses.JSONResponse({"material": "slate", "year": "1932"})),
            ("file", responses.Response(b"slate, 1932", media_type="application/pdf")),
        ):

            @llmeval.workflow(name=name)
            def view(question, response=response):
                with llmeval.retrieval("search") as search:
                    search.retrieved_context = ["The roof is slate, of 1932."]
                return response

            assert view("What is the roof made of?") is response
            seen.drain()
    values = {
        name: {key: score.value for key, score in seen.scores(name).items()}
        for name in ("plain", "view", "file")
    }
    assert values["view"] == values["plain"]
    assert values["view"]["semantic_validation"] == "pass"
    assert values["view"]["groundedness"] == "yes"
    assert not {"semantic_validation", "extraction_risk", "groundedness"} & set(values["file"])
    assert len(llm.calls) == 1  # the two answers are one: the second has the verdict of the first


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_read(code):
    """Its text repeats where it leads, which may hold the code of a login."""
    utils = pytest.importorskip("werkzeug.utils")
    seen = captured(utils.redirect("https://app.example/callback?code=SECRET", code))
    assert "SECRET" not in repr(seen)
    assert "not read" in seen


@pytest.mark.parametrize("item", [b"[]", b"1", b"1.5e3", b'{"a": 1}'])
def test_a_long_body_is_not_parsed_on_the_apps_thread(item):
    """A megabyte of small values would take tens of milliseconds: it stays a text."""
    responses = pytest.importorskip("starlette.responses")
    long = b"[" + b",".join([item] * (200_000 // (len(item) + 1))) + b"]"
    short = b"[" + item + b"]"
    assert type(captured(responses.Response(long, media_type="application/json"))) is str
    assert type(captured(responses.Response(short, media_type="application/json"))) is list
