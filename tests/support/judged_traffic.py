"""Judged traffic of a store, hour by hour, and a far end that takes the alarms it raises."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from raw_store import HOUR, RawStore


class Traffic(RawStore):
    """A store whose judged traffic has a known share of bad answers, hour by hour."""

    def hours(self, first, last, bad, *, per_hour=40, version="1", chance=0.5, **judging):
        """Fill the hours so many before now: half of the records are judged, at random.

        Of the judgements the part ``lost`` gives no verdict, for the reason ``why``. With ``tags``
        each record is in a trace of its own, whose span has them.
        """
        lost, why, tags = judging.get("lost", 0.0), judging.get("why", "error"), judging.get("tags")
        scored, not_run, spans = [], [], []
        for hour in range(first, last, -1):
            for _ in range(per_hour):
                span = f"{self.rng.getrandbits(64):016x}"
                at = self.now - hour * HOUR + self.rng.randrange(HOUR)
                trace = "ab" * 16 if tags is None else f"{self.rng.getrandbits(128):032x}"
                row = (f"{span}-g", trace, span, "answer", at)
                if tags is not None:
                    spans.append((trace, span, at, at + HOUR // 3_600, json.dumps(tags)))
                if self.rng.random() >= chance:
                    not_run.append((*row, "not_escalated"))
                elif self.rng.random() < lost:
                    not_run.append((*row, why))
                else:
                    value = "no" if self.rng.random() < bad else "yes"
                    weight = judging.get("weight", chance)
                    scored.append((*row, value, version, weight))
        self.connection.execute("BEGIN")
        self.connection.executemany(
            "INSERT INTO evaluations (id, trace_id, span_id, span_name, time_ns, value,"
            " evaluator_version, inclusion_probability, name, evaluator_kind)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'groundedness', 'judge')",
            scored,
        )
        self.connection.executemany(
            "INSERT INTO not_run (id, trace_id, span_id, span_name, time_ns, reason, evaluator)"
            " VALUES (?, ?, ?, ?, ?, ?, 'groundedness')",
            not_run,
        )
        self.connection.executemany(
            "INSERT INTO spans (trace_id, span_id, name, kind, start_ns, end_ns, tags)"
            " VALUES (?, ?, 'answer', 'workflow', ?, ?, ?)",
            spans,
        )
        self.connection.execute("COMMIT")

    def served(self, first, last):
        """Store one span in each of the hours so many before now, judged or not."""
        for hour in range(first, last, -1):
            span, at = f"{self.rng.getrandbits(64):016x}", self.now - hour * HOUR
            self.insert("spans", trace_id="ab" * 16, span_id=span, name="answer", start_ns=at)


class Hook(ThreadingHTTPServer):
    """A far end that takes messages over real HTTP, or answers with a status of trouble."""

    def __init__(self):
        self.taken, self.headers, self.answers = [], [], []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = hook.answers.pop(0) if hook.answers else 200
                if status == 200:
                    hook.taken.append(json.loads(body))
                    hook.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/hook?key=hidden-key"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
