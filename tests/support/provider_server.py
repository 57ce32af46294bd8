"""Speaks the wires of OpenAI and Anthropic over real HTTP: plain, streamed, with tools, broken off."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


ANSWER = "Slate."
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"roof": 7}'},
}


class Provider:
    """What the server answers with; a test changes it."""

    def __init__(self, port):
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.root_url = f"http://127.0.0.1:{port}"
        self.requests = []
        self.answer = ANSWER
        self.usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        self.calls_tool = False
        self.status = 200
        self.breaks_after = None
        """After how many parts of a stream the connection is cut."""

    def chat(self, body):
        message = {"role": "assistant", "content": self.answer}
        if self.calls_tool:
            message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        if not body.get("stream"):
            return {
                "id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2026",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                **({"usage": self.usage} if self.usage else {}),
            }  # fmt: skip
        parts = [{"role": "assistant"}, *({"content": part} for part in self.pieces())]
        if self.calls_tool:
            parts = [{"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}]
        about = {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o-2026",
        }
        chunks = [{**about, "choices": [{"index": 0, "delta": part}]} for part in parts]
        if (body.get("stream_options") or {}).get("include_usage") and self.usage:
            chunks.append({**about, "choices": [], "usage": self.usage})
        return [("", chunk) for chunk in chunks]

    def pieces(self):
        return [self.answer[:2], self.answer[2:]]

    def responses(self, body):
        text = {"type": "output_text", "text": self.answer, "annotations": []}
        item = {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
        usage = {
            "input_tokens": 5, "output_tokens": 2, "total_tokens": 7,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 1},
        }  # fmt: skip
        whole = {
            "id": "r1", "object": "response", "created_at": 1, "model": "gpt-4o-2026",
            "status": "completed", "output": [item], "usage": usage, "tools": [],
            "parallel_tool_calls": False, "tool_choice": "auto", "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {},
        }  # fmt: skip
        if not body.get("stream"):
            return whole
        place = {"item_id": "m1", "output_index": 0, "content_index": 0, "logprobs": []}
        empty = {**item, "content": [], "status": "in_progress"}
        started = {**whole, "output": [], "usage": None, "status": "in_progress"}
        events = [
            {"type": "response.created", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": empty},
            {"type": "response.content_part.added", **place, "part": {**text, "text": ""}},
            {"type": "response.output_text.delta", **place, "delta": self.answer},
            {"type": "response.output_text.done", **place, "text": self.answer},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return [
            (event["type"], {**event, "sequence_number": number})
            for number, event in enumerate(events)
        ]

    def messages(self, body):
        whole = {
            "id": "a1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [{"type": "text", "text": self.answer}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 2},
        }  # fmt: skip
        if not body.get("stream"):
            return whole
        delta = {"type": "text_delta", "text": self.answer}
        events = [
            {"type": "message_start", "message": {**whole, "content": []}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]

    def reply(self, path, body):
        if self.status != 200:
            return {"error": {"message": "no", "type": "server_error"}}
        if path.endswith("/chat/completions"):
            return self.chat(body)
        if path.endswith("/responses"):
            return self.responses(body)
        if path.endswith("/messages"):
            return self.messages(body)
        vector = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return {"object": "list", "model": body["model"], "data": [vector], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        provider = self.server.provider
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        provider.requests.append((self.path, body))
        reply = provider.reply(self.path, body)
        self.send_response(provider.status)
        if isinstance(reply, dict):
            text = json.dumps(reply).encode()
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, (event, data) in enumerate(reply):
            if number == provider.breaks_after:
                self.close_connection = True
                return
            self._send((f"event: {event}\n" if event else "") + f"data: {json.dumps(data)}\n\n")
        self._send("data: [DONE]\n\n" if not reply[0][0] else "")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, text):
        if text:
            self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
            self.wfile.flush()

    def log_message(self, *_):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Keep quiet about clients that hang up."""


@contextmanager
def running_provider():
    """Serve until the block ends; gives the `Provider`."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.provider = Provider(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.provider
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
