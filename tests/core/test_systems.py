"""What works on Linux works on Windows and macOS too, or says in a sentence that it cannot.

On Linux both are simulated: child processes lack what those systems lack, and keep Windows' rules
for files that are open, for their names and for lines
(`tests/support/other_system/sitecustomize.py`). On the systems themselves nothing is.
"""

import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path

import pytest

from llmeval_sdk import cli


ROOT = Path(__file__).resolve().parents[2]
SIMULATION = ROOT / "tests" / "support" / "other_system"
REAL = {"win32": "windows", "darwin": "macos"}.get(sys.platform)
SYSTEMS = (REAL,) if REAL else ("windows", "macos")
APP = """
    import llmeval_sdk as llmeval

    @llmeval.retrieval
    def pages(file):
        return [{"content": "Total due 44.82", "doc_uri": file}]

    @llmeval.workflow
    def read_invoice(file):
        pages(file)
        return {"total": "44.82"}

    for number in range(5):
        read_invoice(f"invoice {number}")
    print(llmeval.flush(timeout=50).delivered, llmeval.stats().dropped, llmeval.stats().problems)
"""
JUDGED = """
    import multiprocessing
    import os

    import llmeval_sdk as llmeval
    from llmeval_sdk.testing.judge_server import JudgeServer

    @llmeval.workflow
    def answer(question):
        llmeval.annotate(retrieved_context=[{"content": "The roof is of slate.", "doc_uri": "a"}])
        return "The roof is of slate."

    def in_a_child(number):
        answer(f"question {number}")
        return llmeval.flush(timeout=50).complete

    if __name__ == "__main__":
        with JudgeServer() as server:
            os.environ.update(
                LLMEVAL_JUDGE_MODEL="stand-in", LLMEVAL_JUDGE_BASE_URL=server.base_url,
                LLMEVAL_JUDGE_API_KEY="none", LLMEVAL_EVALUATORS="groundedness",
            )
            answer("here")
            print(llmeval.flush(timeout=50).judged)
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(in_a_child, range(2)))
            print(llmeval.flush(timeout=50).complete)  # what children left for this process
"""
OFFLINE = """
    import llmeval_sdk as llmeval
    from llmeval_sdk.offline.report import storage

    storage.MAX_ROWS_IN_MEMORY = 10
    rows = [{"request": str(n), "response": "It is slate.\\n", "retrieved_context": []} for n in range(50)]
    report = llmeval.evaluate(rows, evaluators=["groundedness_risk"])
    print([row.record.request for row in report.rows] == [str(n) for n in range(50)])
    report.save("saved.jsonl")
    again = llmeval.evaluate(rows, evaluators=["groundedness_risk"], save="run.jsonl")
    print([row.record.response for row in llmeval.Report.load("run.jsonl").rows][-1])
    whole = open("run.jsonl", "rb").read().splitlines(keepends=True)
    del again
    open("run.jsonl", "wb").write(b"".join(whole[:20]))
    resumed = llmeval.evaluate(rows, evaluators=["groundedness_risk"], save="run.jsonl", resume=True)
    print(len(resumed.rows), resumed.rows[49].record.request, resumed.rows[0].record.request)
    print(open("run.jsonl", "rb").read().count(b"\\r"))
"""


class OtherSystem:
    """Runs Python in a folder, on a simulated system."""

    def __init__(self, name, folder):
        self.folder = folder
        # What is no terminal has the encoding of the country on Windows.
        self.encoding = "cp1252" if name == "windows" and not REAL else None
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith("LLMEVAL_")
            },
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(SIMULATION))),
            "SIMULATED_SYSTEM": "" if REAL else name,
            **({"PYTHONIOENCODING": self.encoding} if self.encoding else {}),
            # A file that is opened without an encoding would be read in another one on Windows.
            "PYTHONWARNDEFAULTENCODING": "1",
            "PYTHONWARNINGS": "error::EncodingWarning:llmeval_sdk",
            "LLMEVAL_STORE": str(folder / "store" / "llmeval.db"),
        }

    def python(self, *arguments, **variables):
        return subprocess.run(
            [sys.executable, *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
            env=self.environment | variables, capture_output=True, text=True,
            encoding=self.encoding, timeout=150,
        )  # fmt: skip

    def script(self, code, **variables):
        """Run a script, which has to end well."""
        path = self.folder / "script.py"
        path.write_text(textwrap.dedent(code), "utf-8")
        ended = self.python(path, **variables)
        assert ended.returncode == 0, ended.stderr
        return ended

    def command(self, words, **variables):
        """Run ``llmeval``, which must not end in a traceback."""
        ended = self.python("-m", "llmeval_sdk", *words.split(), **variables)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode in (0, 1, 2)
        return ended


@pytest.fixture(params=SYSTEMS)
def system(request, tmp_path):
    return OtherSystem(request.param, tmp_path)


@pytest.fixture
def windows(tmp_path):
    """Give the stricter of both: Windows, unless this is a Mac."""
    return OtherSystem("windows", tmp_path)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Give the same system with the traces of an app, which the tests of a module share."""
    system = OtherSystem("windows", tmp_path_factory.mktemp("traced"))
    row = {"request": "Of what?", "response": "Slate.", "retrieved_context": [{"content": "slate"}]}
    (system.folder / "rows.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    system.script(APP)
    return system


on_windows = pytest.mark.skipif(REAL == "macos", reason="macOS has what Windows lacks")


@pytest.mark.skipif(REAL is not None, reason="nothing is simulated here")
def test_the_simulated_windows_is_strict(windows):
    """What the tests below rely on: an open file can neither be removed nor replaced there."""
    ended = windows.script(
        """
        import os
        held = open("held", "w", encoding="utf-8")
        for act in (lambda: os.unlink("held"), lambda: os.replace("held", "other"), lambda: open("a:b")):
            try:
                act()
            except OSError as error:
                print(type(error).__name__)
        file = os.open("lines", os.O_RDWR | os.O_CREAT)
        os.write(file, b"one\\n")
        os.close(file)
        print(open("lines", "rb").read())
        for name in ("fcntl", "resource"):
            try:
                __import__(name)
            except ImportError:
                print(name)
        print(hasattr(os, "pread"), hasattr(os, "fork"))
        """
    )
    assert ended.stdout.split("\n")[:-1] == [
        "PermissionError", "PermissionError", "OSError", "b'one\\r\\n'", "fcntl", "resource",
        "False False",
    ]  # fmt: skip


def test_an_app_is_traced_and_scored(system):
    """Nothing of the online path needs what only Linux has, and the commands show what it did."""
    app = system.script(APP)
    assert app.stdout.split()[1:] == ["{}", "{}"]
    assert int(app.stdout.split()[0]) >= 25
    assert app.stderr == ""
    assert "read_invoice" in system.command("traces").stdout
    assert "extraction_risk" in system.command("report").stdout
    assert "extraction_risk" in system.command("explain --last").stdout
    doctor = system.command("doctor --all --offline")
    assert doctor.returncode == 0, doctor.stdout
    assert "Nothing is broken." in doctor.stdout


def test_a_judge_runs_and_children_deliver_for_themselves(system):
    """Nobody hears of a spool that was not asked for."""
    judged = system.script(JUDGED)
    assert "'groundedness': 1" in judged.stdout
    assert "[True, True]" in judged.stdout
    assert judged.stderr == ""
    assert json.loads(system.command("report --json").stdout)


def test_data_sets_are_evaluated_saved_and_resumed(system):
    """Rows in a file are those that were written, whatever the system does with lines and places."""
    ended = system.script(OFFLINE)
    assert ended.stdout.split("\n") == ["True", "It is slate.", "", "50 49 0", "0", ""]


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        ("evaluate rows.jsonl --save run.jsonl", "saved to run.jsonl"),
        ("backup kept", "backed up"),
        ("prune --max-days 9999", "spans went"),
        ("dataset list", "no golden set"),
        ("export", "extraction_risk"),
        ("compare --by release", ""),
        ("run -- {python} script.py", "{}"),
    ],
)
def test_a_command_works(traced, words, shows):
    """Each does its work on Windows as it does here."""
    ended = traced.command(words.format(python=sys.executable))
    assert ended.returncode in ((0, 1) if words.startswith("compare") else (0,)), ended.stderr
    assert shows in ended.stdout


def test_exported_rows_are_json_of_utf_8(windows):
    """Also where the encoding of the country has no such characters, and JSON no such escapes."""
    texts = ["é", "日本", "😀", "\u2028"]
    windows.script(
        f"""
        import llmeval_sdk as llmeval

        for text in {texts!a}:
            with llmeval.workflow("answer") as span:
                span.response = text
        llmeval.flush(timeout=50)
        """
    )
    windows.encoding = "utf-8"
    rows = [json.loads(line) for line in windows.command("export").stdout.split("\n")[:-1]]
    assert sorted(row["response"] for row in rows) == sorted(texts)


@on_windows
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("agent --once --spool spool", "this system has no file locks"),
        ("label groundedness", "groundedness"),
        ("calibrate --evaluator groundedness", "groundedness"),
    ],
)
def test_what_cannot_work_is_a_sentence(traced, words, sentence):
    """A command that a system cannot run, or that has nothing to do, ends by 2 and says why."""
    ended = traced.command(words)
    assert ended.returncode == 2
    assert sentence in ended.stderr


@on_windows
def test_a_spool_that_was_asked_for_is_said_not_to_work(windows):
    """The records take the usual way, and `stats` counts that they were in no spool."""
    ended = windows.script(APP, LLMEVAL_SPOOL="spool")
    assert int(ended.stdout.split()[0]) >= 25
    assert "no file locks" in ended.stderr


def test_a_damaged_store_is_left_alone(windows):
    """Where no file can be moved that is open, scores are kept in memory as they are here."""
    (windows.folder / "store").mkdir()
    (windows.folder / "store" / "llmeval.db").write_text("no database" * 100, "utf-8")
    ended = windows.script(APP)
    assert "kept in memory only" in ended.stderr
    assert windows.command("traces").returncode == 2


def test_every_command_explains_itself(windows):
    """``--help`` of no command imports what a system lacks."""
    ended = windows.script(
        """
        from llmeval_sdk import cli

        for name in cli.commands():
            try:
                cli.main([name, "--help"])
            except SystemExit as ended:
                assert ended.code == 0, name
        """
    )
    assert ended.stdout.count("usage: llmeval") == len(cli.commands())


def test_every_module_can_be_imported(windows):
    """None needs a module that the system lacks before it is used."""
    ended = windows.script(
        """
        import importlib
        import pathlib

        import llmeval_sdk

        home = pathlib.Path(llmeval_sdk.__file__).parent
        for path in sorted(home.rglob("*.py")):
            name = ".".join(path.relative_to(home.parent).with_suffix("").parts)
            if name.endswith(("__init__", "__main__", "_boot", "sitecustomize")):
                continue
            try:
                importlib.import_module(name)
            except ImportError as error:
                if error.name in ("fcntl", "resource", "pwd", "termios", "grp"):
                    print(name, error.name)
        """
    )
    assert ended.stdout == ""


def test_the_viewer_starts(traced):
    """It serves the pages of a store that was written there."""
    server = subprocess.Popen(
        [sys.executable, "-m", "llmeval_sdk", "view", "--port", "0", "--no-open", "--json"],
        cwd=traced.folder, env=traced.environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    with server:
        try:
            said = json.loads(server.stdout.readline())
            with urllib.request.urlopen(next(iter(said.values())), timeout=30) as page:
                assert b"read_invoice" in page.read()
        finally:
            server.terminate()


@pytest.mark.plugin("demo")
def test_the_demo_runs(windows):
    """The whole of it: an app, its judges and the tables."""
    pytest.importorskip("bm25s")
    ended = windows.command("demo --limit 2 --store demo.db")
    assert ended.returncode == 0, ended.stderr
    assert "Everything is in demo.db" in ended.stdout


@on_windows
@pytest.mark.plugin("ragas", "datadog")
def test_a_plugin_refuses_what_the_system_lacks(windows):
    """A child process for Ragas, or an agent's socket that is a file, is an error that is counted."""
    ended = windows.script(
        """
        from llmeval_sdk import config
        from llmeval_sdk.errors import ExportError, JudgeError
        from llmeval_sdk.plugins.datadog.exporter import _sender
        from llmeval_sdk.plugins.ragas import runner

        address = {"model": "a-model", "base_url": "http://127.0.0.1:1"}
        print(runner.in_thread("faithfulness", address, config.from_environment()))
        asked = config.from_environment({"LLMEVAL_JUDGE_WORKER": "process"})
        print(runner.in_thread("faithfulness", address, asked))
        try:
            runner.spec_of(asked)
        except JudgeError as error:
            print(error)
        try:
            _sender("unix:///var/run/agent.socket", 1.0).post("/", b"", {})
        except ExportError as error:
            print(error)
        """
    )
    assert ended.stdout.splitlines() == [
        "True", "False",
        "this system has no sockets that are files: set LLMEVAL_JUDGE_WORKER=thread",
        "this system has no sockets that are files",
    ]  # fmt: skip
