"""``llmeval view``: the store as web pages on this machine."""

from __future__ import annotations

import argparse
import secrets
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path
from types import FrameType

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store
from llmeval_sdk.cli.output import say, say_json
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.process import private
from llmeval_sdk.store.files import path_of


HOST = "127.0.0.1"
PORT = 8520
_TRIED = 20
_STOP_SECONDS = 3

_LEAD = """\
<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>llmeval</title><meta http-equiv="refresh" content="0; url={address}">
<p><a href="{address}">Open the viewer</a></p>
"""

_EPILOG = """\
Only this machine can open the pages, and only with the token in the printed address. To
look at a store on a remote machine, forward the port with ssh -L 8520:127.0.0.1:8520 and
open the printed address on your own machine.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "view",
        help="look at traces and scores in the browser",
        description="Serve the store as web pages on this machine: traces with their scores, "
        "scores over time, and labels of your own.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help=f"0 takes any free port (default: {PORT}, or the next free one)",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the browser")
    parser.add_argument(
        "--no-token", action="store_true", help="let every user of this machine open the pages"
    )
    parser.add_argument(
        "--metrics", action="store_true", help="show counters for Prometheus at /metrics"
    )
    parser.add_argument(
        "--reports", metavar="DIR", type=Path,
        help="the folder of saved offline reports that the page of experiments lists (default: "
        "reports beside the store, where `llmeval evaluate` saves them)",
    )  # fmt: skip
    add_json(parser, "the address and the store")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        import uvicorn
    except ImportError:
        raise missing_extra("`llmeval view`", "viewer", "uvicorn") from None
    from llmeval_sdk import viewer

    store = path_of(args.store or config.from_environment(problems=[]).store)
    token = None if args.no_token else secrets.token_urlsafe(24)
    with _listen(args.port) as listener:
        port = listener.getsockname()[1]
        names = (HOST, "localhost")
        app = viewer.app(
            store=store,
            token=token,
            open=token is None,
            metrics=args.metrics,
            reports=args.reports,
            hosts={f"{name}:{port}" for name in names},
        )
        address = f"http://{HOST}:{port}{app.first_page}" + (f"?token={token}" if token else "")
        if args.json:
            say_json({"address": address, "store": str(store)})
        else:
            say(address)
        if not args.json and not store.exists():
            say(f"There is no store at {store} yet; the page says how one comes to be.")
        sys.stdout.flush()
        opened = None if args.no_open else _open(address, secret=token is not None)
        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=_STOP_SECONDS
        )
        server = uvicorn.Server(settings)
        stop = server.handle_exit

        def handle_exit(sig: int, frame: FrameType | None) -> None:
            app.close()
            stop(sig, frame)

        server.handle_exit = handle_exit  # type: ignore[method-assign]
        try:
            server.run(sockets=[listener])
        finally:
            if opened is not None:
                opened.cleanup()
    return 0


def _open(address: str, *, secret: bool) -> tempfile.TemporaryDirectory[str] | None:
    """Open the browser; return the folder to remove when it is no longer needed.

    All users of a machine can read the command lines of its processes. So the browser is given a
    file that only its user can read, and the file leads to the address with the token.
    """
    if not secret:
        webbrowser.open(address)
        return None
    folder = tempfile.TemporaryDirectory(prefix="llmeval-view-")  # 0700
    page = Path(folder.name) / "open.html"
    private.make_file(page)
    page.write_text(_LEAD.format(address=address), encoding="utf-8")
    webbrowser.open(page.as_uri())
    return folder


def _listen(port: int | None) -> socket.socket:
    """Bind to the loopback interface; without a wish, to the first free port from `PORT` on."""
    wished = range(PORT, PORT + _TRIED) if port is None else (port,)
    for each in wished:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, each))
            listener.listen()  # whoever opens the printed address at once waits for us
        except (OSError, OverflowError) as error:
            listener.close()
            problem = error
        else:
            return listener
    raise ConfigurationError(f"port {wished[-1]} cannot be used: {problem}; choose another --port")
