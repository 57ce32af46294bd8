"""A page in headless Chromium, spoken to over its debugging pipe: read it, click, take a picture."""

import base64
import json
import os
import subprocess
from contextlib import contextmanager
from itertools import count
from time import monotonic, sleep


class Page:
    """One page; commands are answered one after the other."""

    def __init__(self, url, reading, writing):
        self._reading, self._writing = reading, writing
        self._numbers = count(1)
        self._session = None
        target = self._ask("Target.createTarget", url=url)["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]

    def _ask(self, method, **params):
        number = next(self._numbers)
        about = {"sessionId": self._session} if self._session else {}
        told = json.dumps({"id": number, "method": method, "params": params, **about})
        self._writing.write(told.encode() + b"\0")
        self._writing.flush()
        while True:
            answer = b""
            while (byte := self._reading.read(1)) != b"\0":
                assert byte, "the browser is gone"
                answer += byte
            found = json.loads(answer)
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]

    def run(self, script):
        """Run a script in the page and return what it gives."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    def shows(self, *words, within=60):
        """Wait until all these words can be read on the page."""
        end = monotonic() + within
        while True:
            text = self.run("document.body ? document.body.innerText : ''") or ""
            missing = [word for word in words if word not in text]
            if not missing:
                return
            assert monotonic() < end, f"{missing} not in: {text[:2_000]}"
            sleep(0.2)

    def click(self, label):
        """Click the button with this label, where there is one; says whether there was."""
        return self.run(
            "(() => { const found = [...document.querySelectorAll('button')]"
            f".find(each => each.innerText.trim() === {json.dumps(label)});"
            " if (found) found.click(); return !!found })()"
        )

    def picture(self, path):
        """Write what can be seen as a PNG."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))


@contextmanager
def page(url, profile, binary="chromium"):
    """Open a page in a browser of its own, for the block."""
    for_it, writing = os.pipe()
    reading, of_it = os.pipe()
    command = [
        binary, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
        "--disable-background-networking", "--window-size=1800,1100", f"--user-data-dir={profile}",
        "--remote-debugging-pipe",
    ]  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{for_it} 4>&{of_it}', "bash", *command],
        pass_fds=(for_it, of_it), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(for_it)
    os.close(of_it)
    try:
        with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:
            yield Page(url, source, sink)
    finally:
        process.terminate()
        process.wait(20)
