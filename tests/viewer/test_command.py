"""`llmeval view` prints an address that works, and says what is missing."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from llmeval_sdk import cli, viewer
from llmeval_sdk.errors import MissingExtraError


@contextmanager
def viewing(*args):
    """Run the command; gives what it prints first and the process, which must end cleanly."""
    command = [sys.executable, "-m", "llmeval_sdk", "view", "--no-open", *map(str, args)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        yield process.stdout.readline().strip(), process
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert "Traceback" not in errors
        assert "Cancel" not in errors
    finally:
        process.kill()
        process.communicate()


def fetch(address):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_printed_address_shows_the_traces(store):
    """It is on the loopback interface, holds a token, and works as soon as it is printed."""
    store.trace("seen in the browser")
    with viewing("--store", store.path, "--port", "0") as (address, _):
        assert urlsplit(address).hostname == "127.0.0.1"
        assert len(urlsplit(address).query) > 30
        assert fetch(address)[0] == 200
        assert "seen in the browser" in fetch(address)[1]
        assert fetch(address.partition("?")[0])[0] == 403


def test_it_stops_at_once_with_a_page_open(store):
    """Interrupting it does not wait for a browser, and prints no traceback."""
    store.trace()
    with viewing("--store", store.path, "--port", "0", "--no-token") as (address, _):
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        connection.request("GET", "/events?state=none")
        assert connection.getresponse().readline().startswith(b"retry")
    connection.close()


def test_without_a_store_it_says_how_one_comes_to_be(tmp_path):
    """The command tells, and so does the page."""
    missing = tmp_path / "none.db"
    with viewing("--store", missing, "--port", "0", "--no-token") as (address, process):
        assert str(missing) in process.stdout.readline()
        status, text = fetch(address)
    assert status == 200
    assert "llmeval demo" in text
    assert not missing.exists()


def test_the_token_is_in_no_command_line(store, tmp_path):
    """The browser is given a file of the user's own, which leads to the address and then goes."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {seen}.part\n'
        f'stat -c %a "${{1#file://}}" >> {seen}.part\n'
        f'cat "${{1#file://}}" >> {seen}.part\nmv {seen}.part {seen}\n'
    )
    browser.chmod(0o755)
    command = [sys.executable, "-m", "llmeval_sdk", "view", "--port=0", "--store", str(store.path)]
    env = {**os.environ, "BROWSER": str(browser)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        address = process.stdout.readline().strip()
        deadline = time.monotonic() + 60
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        argument, mode, *page = seen.read_text().splitlines()
        token = address.partition("token=")[2]
        assert token not in argument
        assert argument.startswith("file://")
        assert mode == "600"
        assert address in "".join(page)
        assert fetch(address)[0] == 200  # from now on, the server itself takes the signal
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert not Path(argument.removeprefix("file://")).exists()


def test_a_taken_port_is_said_so(store, capsys):
    """A wished port that is in use is an error with a way out; without a wish the next is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = cli.main(["view", "--no-open", "--store", str(store.path), "--port", str(port)])
    assert code == 2
    assert "--port" in capsys.readouterr().err


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    """Whoever has not installed the extra is told to."""
    for name in [each for each in sys.modules if each.startswith("llmeval_sdk.viewer._")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(MissingExtraError, match=r"llmeval-inprocess\[viewer\]"):
        viewer.app(open=True)
