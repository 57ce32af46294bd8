"""A real Prometheus on loopback that scrapes one address once a second."""

import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from backend_servers import free_port


SERVER = shutil.which("prometheus")
WHY_SKIPPED = (
    "prometheus IS NOT INSTALLED, so no query of the dashboard is run: apt-get install prometheus"
)


class Prometheus:
    """The HTTP API of a server that runs."""

    def __init__(self, port):
        self._address = f"http://127.0.0.1:{port}"

    def is_ready(self):
        try:
            with urlopen(f"{self._address}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (URLError, OSError):
            return False

    def query(self, expression):
        """Return the series of an instant query, as pairs of labels and value."""
        with urlopen(
            f"{self._address}/api/v1/query?{urlencode({'query': expression})}", timeout=20
        ) as answer:
            found = json.load(answer)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def eventually(self, expression, is_there, seconds=60):
        """Wait until a query's series meet a condition."""
        deadline = time.monotonic() + seconds
        while not is_there(series := self.query(expression)):
            assert time.monotonic() < deadline, f"{expression}: {series}"
            time.sleep(0.2)  # until the next scrape
        return series


@contextmanager
def running_prometheus(folder, target):
    """Run a server that scrapes ``/metrics`` of a target, as the documentation sets it up."""
    port = free_port()
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "llmeval", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))  # JSON is YAML
    command = [
        SERVER, f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            server, deadline = Prometheus(port), time.monotonic() + 60
            while not server.is_ready():
                assert process.poll() is None, (folder / "prometheus.log").read_text()
                assert time.monotonic() < deadline, "prometheus did not start"
                time.sleep(0.1)  # until it listens
            yield server
        finally:
            process.terminate()
            process.wait(30)
