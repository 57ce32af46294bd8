"""What fails while the SDK is set up takes along itself and what it protects, and says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory, redaction
from llmeval_sdk.store import identities


ROOT = Path(llmeval.__file__).parent.parent
GONE = """
import os
os.mkdir("release")
os.chdir("release")
os.rmdir("../release")
"""
LOGGING = """
import logging
logging.basicConfig(format="%(message)s")
"""
CONFIGURE = """
import llmeval_sdk as llmeval
from llmeval_sdk import testing
llmeval.configure(
    evaluators=["relevance_to_query"],
    llm=testing.FakeLLM('{"rationale": "fine", "rating": "yes"}'),
)
"""
USE = """
import json, sys
import llmeval_sdk as llmeval

@llmeval.workflow
def answer(question):
    return "Slate."

assert answer("What is the roof made of?") == "Slate."
stats = llmeval.flush(30)
print(json.dumps({
    "spans": stats.spans,
    "problems": stats.problems,
    "judged": stats.judged,
    "not_run": stats.not_run,
    "delivered": {name: each.delivered for name, each in stats.exporters.items()},
    "dropped": stats.dropped,
}))
"""


@pytest.fixture
def run(tmp_path):
    """Run an app in a folder with files of its own, and return its counters and its log."""

    def run(*parts, files=None, code=0, **env):
        for name, text in {**(files or {}), "app.py": "".join(parts)}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = python(tmp_path, "app.py", **env)
        assert done.returncode == code, done.stderr
        return (json.loads(done.stdout) if code == 0 else done.stdout), done.stderr

    return run


def python(folder, *arguments, **env):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LLMEVAL_")}
    env = {**kept, "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))), **env}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def plugin(text):
    """Return the files of a package with a plugin, as if it was installed."""
    return {
        "extra.py": text,
        "extra-1.dist-info/METADATA": "Name: extra\nVersion: 1\n",
        "extra-1.dist-info/entry_points.txt": "[llmeval_sdk.plugins]\nextra = extra:Extra\n",
    }


def with_method(method, body):
    return f"""
import sys
import llmeval_sdk

class Extra(llmeval_sdk.Plugin):
    name = "extra"

    def {method}(self, *given):
        {body}
"""


@pytest.mark.parametrize("configure", ["", CONFIGURE])
def test_a_working_folder_that_was_deleted_costs_the_store_and_what_its_ledger_guards(
    run, configure
):
    """A release replaced the folder: what is recorded stays in memory, and no judge pays unchecked."""
    stats, log = run(GONE, LOGGING, configure, USE)
    assert stats["delivered"] == {"local": 1}
    assert not stats["dropped"]
    assert "llmeval.db: No such file or directory; scores are kept in memory only" in log
    assert stats["judged"] == {}
    assert bool(stats["not_run"]) is bool(configure)


def test_a_spool_in_a_deleted_working_folder_costs_itself(run):
    """Records are delivered all the same, and the log says that no spool is used."""
    stats, log = run(GONE, LOGGING, USE, LLMEVAL_SPOOL="spool")
    assert stats["delivered"] == {"local": 1}
    assert "spool: not used: spool: No such file or directory" in log


def test_an_absolute_store_needs_no_working_folder(run, tmp_path):
    """All works, judges too."""
    stats, _ = run(GONE, CONFIGURE, USE, LLMEVAL_STORE=str(tmp_path / "store.db"))
    assert stats["judged"] == {"relevance_to_query": 1}
    assert not stats["problems"]


@pytest.mark.parametrize("command", [["traces"], ["doctor", "--offline"], ["report"]])
def test_commands_in_a_deleted_folder_answer(tmp_path, command):
    """They say what they find, without a traceback."""
    text = f"{GONE}\nfrom llmeval_sdk.cli import main\nraise SystemExit(main({command!r}))"
    (tmp_path / "command.py").write_text(text)
    done = python(tmp_path, "command.py")
    assert "Traceback" not in done.stderr
    assert "no store at .llmeval" in done.stderr or "scores go to the local store" in done.stdout


def test_a_file_of_the_app_that_hides_a_module_of_python_costs_what_needs_that(run, tmp_path):
    """A calendar.py keeps the judges and scores of dates from loading; the rest runs."""
    stats, log = run(
        LOGGING,
        USE,
        files={"calendar.py": "DAYS = 7\n"},
        LLMEVAL_JUDGE_SHARE="0.2",
        LLMEVAL_JUDGE_MODEL="gpt-4o",
        LLMEVAL_EVALUATORS="abstention_risk",
    )
    assert stats["delivered"] == {"local": 1}
    assert "llmeval_sdk.judges.extraction_correctness:extraction_correctness" in stats["problems"]
    assert f"{tmp_path / 'calendar.py'} stands in the place of Python's calendar" in log
    found = python(tmp_path, "-m", "llmeval_sdk", "doctor", "--offline")
    assert f"{tmp_path / 'calendar.py'} stands in the place of Python's own module" in found.stdout


def test_a_look_for_another_projects_package_that_fails_costs_itself(run):
    """An email.py keeps Python from reading what is installed, and the worker goes on."""
    stats, _ = run(USE, files={"email.py": "TO = 'us'\n"})
    assert stats["delivered"] == {"local": 1}


def test_where_nothing_can_be_recorded_the_log_has_file_reason_and_what_follows(run, tmp_path):
    """Without SQLite there is no store: the app runs on, and the counters know it."""
    stats, log = run(LOGGING, USE, files={"sqlite3.py": "ROWS = 1\n"})
    assert stats["problems"] == {"configure": 1}
    assert stats["dropped"] == {"no_worker": 1}
    assert (
        "configure: nothing is recorded: AttributeError: module 'sqlite3' has no attribute" in log
    )
    assert f"{tmp_path / 'sqlite3.py'} stands in the place of Python's sqlite3" in log
    done = python(tmp_path, "-m", "llmeval_sdk", "traces")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


BROKEN = {
    "syntax": "def (\n",
    "exit": "raise SystemExit('no licence')\n",
    "no plugin": "Extra = 1\n",
    "tables": "import llmeval_sdk\nclass Extra(llmeval_sdk.Plugin):\n    name = 'extra'\n    exporters = None\n",
    "settings": "import llmeval_sdk\nclass Extra(llmeval_sdk.Plugin):\n    name = 'extra'\n    settings = {'Area': ':Absent'}\n",
    "prepare": with_method("prepare", "sys.exit(3)"),
    "complete": with_method("complete", "return None"),
    "default_exporters": with_method("default_exporters", "raise OSError('no')"),
}


@pytest.mark.parametrize("configure", ["", CONFIGURE])
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_left_out(run, text, configure):
    """Whatever is wrong with it, all else is recorded, and log and counters name it."""
    stats, log = run(LOGGING, configure, USE, files=plugin(text))
    assert stats["delivered"]["local"] >= 1
    assert stats["problems"]["plugin extra"] == 1
    assert "plugin 'extra' is left out: " in log
    assert stats["judged"] == ({"relevance_to_query": 1} if configure else {})


def test_a_signal_that_ends_the_app_while_a_plugin_is_loaded_ends_it(run):
    """Its handler's exit is the app's own, and no failure of the plugin."""
    handler = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    text = "import signal\nsignal.raise_signal(signal.SIGTERM)\n"
    run(handler, CONFIGURE, USE, files=plugin(text), code=7)


EXPORTER = """
import llmeval_sdk

class Full:
    def __init__(self, settings):
        raise OSError(28, "No space left on device", "/var/extra")

class Extra(llmeval_sdk.Plugin):
    name = "extra"
    exporters = {"full": ":Full"}
"""


def test_an_exporter_that_cannot_be_made_costs_itself(run):
    """The others get all records, and the log says which one has nothing, and why."""
    stats, log = run(LOGGING, USE, files=plugin(EXPORTER), LLMEVAL_EXPORTERS="full,local")
    assert stats["delivered"] == {"local": 1}
    assert stats["problems"] == {"exporter full": 1}
    assert "exporter 'full' cannot be made: OSError: [Errno 28] No space left on device" in log


def test_a_person_who_configures_an_exporter_that_cannot_be_made_is_told(run):
    """`configure()` raises its own error, with the name of the exporter and the reason."""
    watched = f"""
from llmeval_sdk.errors import ConfigurationError
try:
    {CONFIGURE.replace(chr(10), chr(10) + "    ")}
except ConfigurationError as error:
    print(error)
    raise SystemExit(3)
"""
    said, _ = run(watched, files=plugin(EXPORTER), LLMEVAL_EXPORTERS="full,local", code=3)
    assert "exporter 'full' cannot be made: OSError: [Errno 28]" in said


def test_redaction_that_cannot_be_made_takes_the_texts_and_the_judges_along(monkeypatch):
    """The request is counted and delivered, and nothing that the app wrote or named leaves."""

    def fail(names):
        if tuple(names):
            raise ImportError("no detectors")
        return ()

    monkeypatch.setattr(redaction, "detectors", fail)
    monkeypatch.setenv("LLMEVAL_REDACT", "email")
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "gpt-4o")
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "relevance_to_query")
    with llmeval.workflow("answer", request="mail a@b.org", tags={"who": "a@b.org"}) as span:
        span.response = "I mailed a@b.org."
    stats = llmeval.flush(30)
    (span,) = [each for each in memory.spans() if each.span_id == span.span_id]
    assert "a@b.org" not in repr(span)
    assert stats.not_run == {"relevance_to_query": {"not_sampled": 1}}
    assert stats.problems["redact"] == 1


def test_ids_that_cannot_be_hashed_do_not_leave(monkeypatch):
    """The trace is recorded without the ids of its session and its user."""

    def fail(self, key):
        raise ImportError("no hmac")

    monkeypatch.setattr(identities.Identities, "__init__", fail)
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "k" * 32)
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")
    with llmeval.workflow("answer", session_id="ann", tags={"user_id": "ann"}) as span:
        span.response = "Slate."
    stats = llmeval.flush(30)
    (span,) = [each for each in memory.spans() if each.span_id == span.span_id]
    assert "ann" not in repr(span)
    assert span.response == "Slate."
    assert stats.problems["hash_ids"] == 1
