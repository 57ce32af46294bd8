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
    Contender("phoenix", "arize-phoenix-otel 0.17.2", ("arize-phoenix-otel==0.17.2",)),
    Contender("langsmith", "langsmith 0.14.17", ("langsmith==0.14.17",)),
    Contender("opik", "opik 2.2.122", ("opik==2.2.122",)),
    Contender("braintrust", "braintrust 0.48.1", ("braintrust==0.48.1",)),
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


def installed_mb(contender):
    """Return the megabytes of what was installed, without pip and bytecode, which all have."""
    folder = FOLDER / contender.adapter / "lib"
    sizes = (
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not {"pip", "setuptools", "_distutils_hack"} & set(path.parts)
    )
    size = sum(sizes)
    if contender.adapter == "ours":  # it is installed from this folder
        size += sum(
            path.stat().st_size
            for path in (ROOT / "llmeval_sdk").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        )
    return size / 1e6
