"""Feedback from a web page: the app signs a token for a span, and the page posts it."""
# needs: starlette, uvicorn

import json
import secrets
import threading
import time
from contextlib import closing
from http.client import HTTPConnection

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


KEY = secrets.token_urlsafe(24)  # the same on all hosts: keep it with your secrets


def answer(question: str) -> tuple[str, str]:
    """Answer, and return the token with which the page may say something of the answer."""
    with llmeval.workflow("answer", request=question) as span:
        span.response = "Slate." if "roof" in question else "I do not know."
        return span.response, llmeval.viewer.feedback_token(span, key=KEY)


def post(address: str, said: dict[str, object]) -> int:
    """Do what the script of the page does with `fetch`."""
    headers = {"content-type": "application/json"}
    with closing(HTTPConnection(address, timeout=10)) as connection:
        connection.request("POST", "/feedback", json.dumps(said), headers)
        return connection.getresponse().status


feedback = llmeval.viewer.feedback_app(key=KEY)
app = Starlette(routes=[Route("/feedback", feedback)])
# or with FastAPI: app.add_route("/feedback", feedback)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started:
    time.sleep(0.01)
address = "127.0.0.1:{1}".format(*server.servers[0].sockets[0].getsockname())

thumbs = {"What is the roof made of?": True, "What is the floor made of?": False}
tokens = {question: answer(question)[1] for question in thumbs}
llmeval.flush(timeout=10)  # the endpoint knows a span once it is delivered, usually in a second
for question, value in thumbs.items():
    print("thumbs", value, "->", post(address, {"token": tokens[question], "value": value}))

server.should_exit = True
thread.join()
feedback.close()
main(["report"])
