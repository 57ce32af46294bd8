"""A model server in OpenAI's manner whose answers a test decides: texts and tool calls.

It speaks chat completions, whole and streamed, and the Responses API, whole.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count


def calls(*made):
    """Return an answer that calls tools: each is ``(name, arguments)``."""
    return {"tool_calls": list(made)}


def support(body):
    """Play an agent that looks up two orders at once, tries a refund twice, and then answers."""
    results = [one for one in body["messages"] if one["role"] == "tool"]
    if not results:
        return calls(("get_order", {"order_id": "A17"}), ("get_order", {"order_id": "B22"}))
    if len(results) < 4:
        return calls(("refund", {"order_id": "A17", "amount": 900}))
    return "Order A17 is shipped, so I could not refund it."


def order_agent(body):
    """Play an agent that looks the order up and answers: that of the pages of frameworks."""
    if any(turn["role"] == "tool" for turn in body["messages"]):
        return "Order A17 is shipped."
    return calls(("get_order", {"order_id": "A17"}))


def roof_reader(_):
    """Play a model that reads what it is given."""
    return "It is made of slate."


@contextmanager
def scripted_model(script):
    """Serve a model for the block; gives its address. ``script`` answers the body of a request."""
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/responses"):
                message = _message(script({"messages": list(_turns(body))}), numbers)
                self._send("application/json", json.dumps(_response(message)).encode())
                return
            message = _message(script(body), numbers)
            if body.get("stream"):
                self._send("text/event-stream", "".join(_events(message)).encode())
            else:
                self._send("application/json", json.dumps(_completion(message)).encode())

        def _send(self, kind, payload):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _message(answer, numbers):
    if isinstance(answer, str):
        return {"role": "assistant", "content": answer}
    made = [
        {
            "id": f"call_{next(numbers)}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for name, arguments in answer["tool_calls"]
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def _turns(body):
    """Write the items of the Responses API as chat messages."""
    yield {"role": "system", "content": body.get("instructions")}
    items = body["input"] if isinstance(body["input"], list) else [body["input"]]
    for item in items:
        kind = item.get("type")
        role = "tool" if kind == "function_call_output" else item.get("role", "assistant")
        yield {"role": role, "content": item.get("output", item.get("content"))}


def _response(message):
    text = {"type": "output_text", "text": message["content"], "annotations": []}
    said = {
        "type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text],
    }  # fmt: skip
    made = [
        {
            "type": "function_call",
            "id": f"f_{call['id']}",
            "call_id": call["id"],
            "status": "completed",
            **call["function"],
        }
        for call in message.get("tool_calls", ())
    ]
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    return {
        "id": "r1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed",
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
        "top_p": 1.0, "output": made or [said],
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, **details,
                  "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip


_ABOUT = {"id": "chat-1", "created": 1, "model": "scripted"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def _completion(message):
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**_ABOUT, "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def _events(message):
    made = [{**call, "index": at} for at, call in enumerate(message.get("tool_calls", ()))]
    for delta in (
        {"role": "assistant", "content": ""},
        *({"content": word} for word in _words(message["content"] or "")),
        *({"tool_calls": [call]} for call in made),
    ):
        yield _event([{"index": 0, "delta": delta, "finish_reason": None}])
    reason = "tool_calls" if made else "stop"
    yield _event([{"index": 0, "delta": {}, "finish_reason": reason}])
    yield _event([], usage=_USAGE)
    yield "data: [DONE]\n\n"


def _event(choices, **more):
    body = {**_ABOUT, "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(body)}\n\n"


def _words(text):
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:]
