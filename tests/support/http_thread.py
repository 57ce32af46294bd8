"""Serves HTTP on a thread of its own, for far ends that cannot exist here."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def served_by(handler):
    """Have a handler answer on loopback for the block; gives the server's address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
