"""Which files of the package can be deleted, what is built upon them, and how large the rest is."""

import ast
import io
import tokenize
from dataclasses import fields
from functools import cache
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "llmeval_sdk"

STORE_OF_CORE = (
    "__init__.py", "_prune.py", "_rows.py", "_schema.py", "connection.py", "encode.py", "files.py",
    "ledger.py", "losses.py", "reader.py", "reasons.py", "writer.py",
)  # fmt: skip
"""What writes the store and opens it; whatever else lies beside it only reads."""


def _all_of(folder, *, but):
    paths = sorted((PACKAGE / folder).glob("*.py"))
    return tuple(f"{folder}/{path.name}" for path in paths if path.name not in but)


PARTS = {
    "viewer": ("viewer",),
    "reading": (
        "estimates/__init__.py", "estimates/assisted.py", "estimates/calibration.py",
        "estimates/caught.py", "estimates/correction.py", "estimates/differences.py",
        "estimates/labelling.py", "estimates/mean.py", "estimates/probability.py",
        "estimates/running.py", "estimates/sequence.py", "estimates/standardised.py", "estimates/steps.py",
        "estimates/tally.py",
        *_all_of("store", but=STORE_OF_CORE),
    ),
    "cli": ("cli", "__main__.py", "config/watching.py"),
    "offline": (
        "offline", "policy/unlimited.py", "pytest_plugin.py", "config/verdicts.py", "evaluation/signing.py",
        "evaluation/verdict_file.py",
    ),
    "terminal": ("_terminal.py",),
    "atomic": ("_atomic.py",),
    "demo": ("demo",),
    "sources": ("sources", "auto.py", "_bootstrap"),
    "instrumentation": ("instrumentation", "config/instrumentation.py"),
    "extraction": (
        "extraction", "heuristics/extraction", "heuristics/_formats.py",
        "heuristics/aggregated_confidence.py",
        "heuristics/agreement.py", "judges/_extraction.py", "judges/extraction_correctness.py",
    ),
    "decisions": (
        "judges/answers.py", "judges/_cases.py", "judges/_chunk_questions.py", "judges/typed.py", "evaluation/inquiry.py",
        "evaluation/_outcomes.py",
        "evaluation/calibrations.py", "evaluation/deciding.py",
        "evaluation/decision_budget.py", "llms/decisions",
        "config/decisions.py", "policy/cascade.py", "pipeline/tier.py", "pipeline/_deciding.py",
        "pipeline/_desk.py", "pipeline/_undecided.py",
    ),
    "agents": ("agents", "heuristics/agent", "judges/agent"),
    "sessions": (
        "sessions", "heuristics/session", "judges/session", "config/sessions.py",
        "agents/conversation.py",
    ),
    "sessions-of-all-hosts": ("sessions/_hosts",),
    "fleet": ("fleet", "config/fleet.py"),
    "ground-truth": (
        "judges/correctness.py", "judges/context_sufficiency.py", "judges/context_recall.py",
        "judges/_recall_examples.py",
        "heuristics/document_recall.py", "heuristics/expected",
    ),
    "learning": ("learning", "heuristics/risk/learned.py", "config/learning.py"),
    "shared": ("config/redis_address.py", "config/shared.py", "policy/shared",
        "evaluation/shared_verdicts.py", "pipeline/sharing.py"),
    "providers": ("llms/providers", "config/providers.py", "testing/provider_server.py"),
    "serverless": ("serverless", "config/serverless.py"),
    "ragas": ("judges/ragas", "child", "llms/embeddings.py", "llms/elsewhere.py", "config/ragas.py"),
    "ids-of-people": ("redaction/identities.py", "config/identities.py"),
    "grpc": ("exporters/otel/_grpc.py", "config/grpc.py"),
    "langfuse": ("exporters/langfuse.py", "config/langfuse.py"),
    "phoenix": ("exporters/phoenix.py", "config/phoenix.py"),
    "mlflow": ("exporters/mlflow.py", "config/mlflow.py"),
    "score-apis": ("exporters/_scores.py",),
    "console": ("exporters/console.py",),
    "otel-metrics": ("exporters/otel/metrics.py",),
    "otel-app": ("exporters/otel/_app.py", "exporters/otel/json_lines.py"),
}  # fmt: skip
"""Files and folders of each part. ``ground-truth`` compares with an expected answer, which only rows
of a data set have; ``reading`` is what only looks at a store, and estimates from
it, for viewer and CLI."""

KIT = ("testing", "exporters.memory")
"""The test kit, with the exporter that keeps records for a test, is no core, but stays: the core's
own tests are written with it."""

CEILINGS = {"public names": 45, "settings": 60}


def files_of(part):
    """Return the Python files of a part."""
    for place in PARTS[part]:
        path = PACKAGE / place
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def module_of(path, root=ROOT):
    """Return a file's dotted name."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules():
    """Return the file of each module of the package."""
    return {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _parts_by_file():
    return {path: part for part in PARTS for path in files_of(part)}


@cache
def part_of(module):
    """Return the part that a module belongs to, or ``core``."""
    part = _parts_by_file().get(modules().get(module))
    if part is not None:
        return part
    is_kit = any(module.startswith(f"llmeval_sdk.{place}") for place in KIT)
    return "kit" if is_kit else "core"


@cache
def imports_of(path):
    """Return the modules of the package that a file imports, but for its types alone."""
    found = set()
    for node in _run(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("llmeval_sdk"):
            for name in node.names:
                below = f"{node.module}.{name.name}"
                found.add(below if below in modules() else node.module)
                if node.module == "llmeval_sdk" and below not in modules():
                    found.add(_home_of(name.name))
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name in modules())
    return found - {None}


def _run(tree):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _run(node)


def _home_of(name):
    import llmeval_sdk

    home = llmeval_sdk._HOME_OF.get(name)
    return f"llmeval_sdk.{home}" if home else None


def core_imports_of_parts():
    """Return each import of a part's module by a module of the core."""
    return [
        (module, imported)
        for module, path in modules().items()
        if part_of(module) == "core"
        for imported in sorted(imports_of(path))
        if part_of(imported) in PARTS
    ]


def built_upon(part):
    """Return a part with all parts that import it."""
    deleted = {part}
    while True:
        more = {
            part_of(module)
            for module, path in modules().items()
            if part_of(module) in PARTS
            and any(part_of(imported) in deleted for imported in imports_of(path))
        }
        if more <= deleted:
            return deleted
        deleted |= more


def homes():
    import llmeval_sdk

    submodules = {name: f"llmeval_sdk.{name}" for name in llmeval_sdk._MODULES}
    return {**{n: f"llmeval_sdk.{home}" for n, home in llmeval_sdk._HOME_OF.items()}, **submodules}


def code_lines(path):
    """Count the lines that hold code: no blank line, no comment and no docstring.

    A ceiling that counted those would punish whoever explains something.
    """
    text = path.read_text("utf-8")
    prose = {
        number
        for node in ast.walk(ast.parse(text))
        for statement in _statements(node)
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
        for number in range(statement.lineno, statement.end_lineno + 1)
    }
    blank = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER,
    }  # fmt: skip
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - prose)


def _statements(node):
    body = getattr(node, "body", None)
    return body if isinstance(body, list) else []


@cache
def core_figures():
    """Return how large the core is."""
    import llmeval_sdk
    from llmeval_sdk.config import Settings

    core = [path for module, path in modules().items() if part_of(module) == "core"]
    public_homes = homes()
    public = [name for name in llmeval_sdk.__all__ if part_of(public_homes.get(name, "")) == "core"]
    settings = [row for row in fields(Settings) if row.metadata]
    rows = [row for row in settings if row.metadata["form_of"] is None]
    return {
        "lines of code": sum(map(code_lines, core)),
        "public names": len(public),
        "settings": len(rows),
        "files": len(core),
        "lines with blank ones, comments and docstrings": sum(
            len(path.read_text("utf-8").splitlines()) for path in core
        ),
        "forms of settings for spans or scores alone": len(settings) - len(rows),
    }
