"""The service behind each kind of web framework: every path is a request of that name."""

import os
from contextlib import asynccontextmanager

import service

import llmeval_sdk as llmeval


def flask():
    from flask import Flask

    app = Flask(__name__)
    app.add_url_rule("/<name>", view_func=lambda name: service.answer(name))
    return app


def django():
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(ROOT_URLCONF=__name__, SECRET_KEY="-", ALLOWED_HOSTS=["*"])
    globals()["urlpatterns"] = [
        path("<name>", lambda request, name: HttpResponse(service.answer(name)))
    ]
    return get_wsgi_application()


def fastapi():
    from fastapi import FastAPI
    from fastapi.concurrency import run_in_threadpool

    @asynccontextmanager
    async def lifespan(_):
        yield
        await run_in_threadpool(llmeval.shutdown)

    app = FastAPI(lifespan=lifespan)
    app.get("/{name}")(lambda name: service.answer(name))
    return app


app = {"flask": flask, "django": django, "fastapi": fastapi}[os.environ["FRAMEWORK"]]()
