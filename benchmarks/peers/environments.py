"""The peers, what is installed for each, and where."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-peers"


class Contender(NamedTuple):
    """One column of the comparison."""

    adapter: str
    title: str
    packages: tuple[str, ...]
    scores: bool = False
    """Whether it can score in the app's process."""


CONTENDERS = (
    Contender("nothing", "no SDK", (), scores=True),
    Contender("ours", "llmeval_sdk", ("-c", "constraints.txt", "-e", "."), scores=True),
    Contender(
        "otel",
        "opentelemetry-sdk 1.45.2",
        ("opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2"),
    ),
    Contender("datadog", "ddtrace 4.16.0", ("ddtrace==4.16.0",)),
    Contender("langfuse", "langfuse 5.0.4", ("langfuse==5.0.4",)),
    Contender(
        "pydantic",
        "pydantic-evals 2.62.0, logfire 5.2.0",
        ("pydantic-evals==2.62.0", "logfire==5.2.0"),
        scores=True,
    ),
)


def python_of(contender):
    """Return the interpreter of a contender's environment, which is made if it is not there."""
    folder = FOLDER / contender.adapter
    python = folder / "bin" / "python"
    wanted = "\n".join(contender.packages)
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != wanted:
        print(f"installing {contender.title} into {folder.relative_to(ROOT)}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        if contender.packages:
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*command, *contender.packages], cwd=ROOT, check=True)
        ready.write_text(wanted)
    return str(python)
