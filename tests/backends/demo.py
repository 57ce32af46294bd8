"""Runs the demo app into Phoenix or MLflow, prints where to look, and waits until it is stopped.

python tests/backends/demo.py phoenix --backends FOLDER [options of the demo]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
import backend_servers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=["phoenix", "mlflow"])
    parser.add_argument("--backends", required=True)
    parser.add_argument("--once", action="store_true", help="end after the demo")
    options, rest = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="llmeval-demo-"))
    with getattr(backend_servers, options.backend)(options.backends, folder) as url:
        name = {"phoenix": "PHOENIX_COLLECTOR_ENDPOINT", "mlflow": "MLFLOW_TRACKING_URI"}
        environment = {
            **os.environ,
            name[options.backend]: url,
            "OTEL_SERVICE_NAME": "llmeval-demo",
        }
        command = [
            sys.executable,
            "-m",
            "llmeval_sdk",
            "demo",
            "--exporters",
            options.backend,
            *rest,
        ]
        status = subprocess.run(command, env=environment, check=False).returncode
        print(
            f"\n{options.backend} has the traces and scores: {url}   (Ctrl-C ends it)", flush=True
        )
        try:
            if not options.once and status == 0:
                sys.stdin.read()
        except KeyboardInterrupt:
            pass
    return status


if __name__ == "__main__":
    sys.exit(main())
