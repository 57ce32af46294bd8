"""Old traces go, whole, and only those."""

import json
import re
import sqlite3
import time
from contextlib import closing

import pytest
from store_fixtures import Make

import llmeval_sdk as sdk
from llmeval_sdk.evaluation.verdicts import VerdictFile, verdict_path
from llmeval_sdk.offline import GoldenSet
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing import FakeLLM


DAY = 86_400_000_000_000


@pytest.fixture
def aged(store):
    """Two traces of ten days ago, with scores, and one of today."""
    now = time.time_ns()
    for number, age in enumerate((10, 10, 0)):
        span = store.span(f"{number:016x}", start_ns=now - age * DAY, trace_id=f"{number:032x}")
        store.evaluation(span, "precision", 0.5)
    return store


def test_what_is_too_old_goes_with_its_scores(llmeval, aged):
    """What is left is what is younger, and the command says how much went."""
    done = llmeval("prune", "--store", aged.path, "--max-days", "7")
    assert done.returncode == 0, done.stderr
    assert "2 of 3 spans went" in done.stdout
    with StoreReader(aged.path) as reader:
        counts = reader.counts()
        assert (counts.spans, counts.evaluations) == (1, 1)
        assert reader.span(f"{2:016x}") is not None


def test_a_dry_run_deletes_nothing(llmeval, aged):
    """It says what would go."""
    done = llmeval("prune", "--store", aged.path, "--max-days", "7", "--dry-run")
    assert "older than 7 days: 2 of 3 spans" in done.stdout
    with StoreReader(aged.path) as reader:
        assert reader.counts().spans == 3


def test_a_store_shrinks_to_the_size_that_was_asked_for(llmeval, store):
    """The oldest go until the rest fits, and the file gives the space back."""
    with store.at_once():
        for number in range(1_500):
            store.span(f"{number:016x}", trace_id=f"{number:032x}", request=Make().text(4_000),
                       start_ns=time.time_ns())  # fmt: skip
    store.writer.close()
    before = store.path.stat().st_size
    done = llmeval("prune", "--store", store.path, "--max-size", "2MB")
    assert done.returncode == 0, done.stderr
    assert store.path.stat().st_size < before / 2
    with StoreReader(store.path) as reader:
        assert 0 < reader.counts().spans < 500
        assert reader.span(f"{1_499:016x}") is not None
        assert reader.span(f"{0:016x}") is None


def test_a_store_shrinks_while_somebody_looks_at_it(process, store):
    """An open viewer keeps no space from the disk, and the command says what is left of it."""
    with store.at_once():
        for number in range(1_500):
            store.span(f"{number:016x}", trace_id=f"{number:032x}", request=Make().text(4_000),
                       start_ns=time.time_ns())  # fmt: skip
    store.writer.close()
    before = store.path.stat().st_size
    with StoreReader(store.path) as reader:
        assert reader.counts().spans == 1_500
        done = process("prune", "--store", store.path, "--max-size", "2MB")
        log = store.path.with_name(f"{store.path.name}-wal")
        assert store.path.stat().st_size + log.stat().st_size < before / 2, done.stdout
        assert reader.counts().spans < 500


@pytest.mark.parametrize("option", [("--max-days", "0"), ("--max-size", "much")])
def test_a_wrong_bound_is_explained(llmeval, aged, option):
    """The message shows what is expected."""
    done = llmeval("prune", "--store", aged.path, *option)
    assert done.returncode == 2
    assert option[1] in done.stderr


def test_all_of_a_user_goes_and_nothing_else(llmeval, store):
    """Traces of which any span has the user go with scores and feedback; no text of them is left."""
    for number in (1, 2, 3):
        user = "user-17" if number < 3 else "user-4"
        span = store.span(
            f"{2 * number - 1:016x}", trace_id=f"{number:032x}", tags={"user_id": user},
            request=f"the secret of {user}",
        )  # fmt: skip
        store.span(f"{2 * number:016x}", trace_id=f"{number:032x}", parent_id=span.span_id)
        store.evaluation(span, "precision", 0.5)
        store.feedback(number, "thumbs", True)
    asked = llmeval("prune", "--store", store.path, "--user", "user-17", "--dry-run")
    assert "2 traces with 4 spans of that user would go" in asked.stdout
    done = llmeval("prune", "--store", store.path, "--user", "user-17")
    assert done.returncode == 0, done.stderr
    assert "2 traces with 4 spans of that user went" in done.stdout
    assert "Datadog" in done.stdout
    with StoreReader(store.path) as reader:
        counts = reader.counts()
        assert (counts.spans, counts.evaluations, counts.feedback) == (2, 1, 1)
    assert b"the secret of user-17" not in store.path.read_bytes()
    assert b"the secret of user-4" in store.path.read_bytes()


def test_a_deletion_that_finds_nobody_fails_and_says_where_it_looked(llmeval, store):
    """A script must not take it for done."""
    store.span("1", tags={"user_id": "user-4"})
    done = llmeval("prune", "--store", store.path, "--user", "user-17")
    assert done.returncode == 1
    assert str(store.path) in done.stdout.replace("\n", "")
    assert "no span has user_id user-17" in done.stdout
    assert "rows of golden sets" in done.stdout.replace("\n", " ")
    as_json = llmeval("prune", "--store", store.path, "--user", "user-17", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["removed"]) == (1, 0)


@pytest.mark.plugin("sessions")
def test_the_files_beside_the_store_forget_a_user_too(llmeval, tmp_path):
    """Open sessions, golden sets, and kept verdicts; others' stay."""
    path = tmp_path / "traces.db"
    sdk.configure(
        exporters=["local"], store=str(path), evaluators=["turn_count"], escalations=[],
        session_idle=3600.0,
    )  # fmt: skip
    for user in ("ann", "bob"):
        with sdk.annotation_context(user_id=user, session_id=f"chat of {user}"):
            with sdk.workflow("answer", request=f"the secret of {user}") as span:
                span.response = f"told to {user}"
    assert sdk.flush(20).complete
    sdk.shutdown()
    folder = tmp_path / "datasets"
    with StoreReader(path) as reader:
        ids = [row[0] for row in reader.read(lambda db: db.execute("SELECT span_id FROM spans"))]
    golden = GoldenSet("answers", folder=folder)
    golden.add(ids[0], store=path)
    golden.add(ids[1], store=path)
    keep_verdict(b"1", 1.0, "the secret of ann")
    for option in (["--dry-run"], []):
        done = llmeval("prune", "--store", path, "--user", "ann", *option)
        assert done.returncode == 0, done.stderr
        for part in ("1 trace ", "1 turn of open", " of golden sets", "1 cached verdict"):
            assert part in done.stdout
    texts = b"".join(
        file.read_bytes()
        for file in tmp_path.rglob("*")
        if file.is_file() and "-wal" not in file.name
    )
    assert b"the secret of ann" not in texts
    assert texts.count(b"the secret of bob") >= 3
    assert len(GoldenSet("answers", folder=folder)) == 1


@pytest.mark.plugin("sessions")
def test_one_thing_that_is_remembered_begins_anew(llmeval, tmp_path):
    """The rest of the file of state stays, and so does the store."""
    path = tmp_path / "traces.db"
    sdk.configure(
        exporters=["local"], store=str(path), evaluators=["turn_count"], escalations=[],
        session_idle=3600.0,
    )  # fmt: skip
    with sdk.annotation_context(session_id="chat"), sdk.workflow("answer", request="q") as span:
        span.response = "Slate."
    assert sdk.flush(20).complete
    sdk.shutdown()
    keep_verdict(b"1", time.time(), "{}")
    asked = llmeval("prune", "--store", path, "--reset", "turns", "--dry-run", "--json")
    assert json.loads(asked.stdout)["turns"] > 0
    assert llmeval("prune", "--store", path, "--reset", "turns").returncode == 0
    assert llmeval("prune", "--store", path, "--reset", "turns").returncode == 1
    assert kept_verdicts() == 1
    with closing(sqlite3.connect(path.with_suffix(".state"))) as state:
        assert state.execute("SELECT count(*) FROM turns").fetchone() == (0,)
    wrong = llmeval("prune", "--store", path, "--reset", "all")
    assert (wrong.returncode, "invalid choice" in wrong.stderr) == (2, True)


@pytest.fixture
def aged_state(aged):
    """A store, and cached verdicts of ten days ago and of today."""
    for name, made in ((b"1", time.time() - 10 * 86_400), (b"2", time.time())):
        keep_verdict(name, made, "{}")
    return aged


def keep_verdict(name, made, text):
    """Keep a verdict of an offline run of this user."""
    with closing(VerdictFile(verdict_path(), max_days=0)) as file, file._file.changing() as state:
        state.execute("INSERT INTO verdicts VALUES (?, ?, ?)", (name, made, text))


def kept_verdicts():
    """Return how many are kept."""
    with closing(sqlite3.connect(verdict_path())) as state:
        return state.execute("SELECT count(*) FROM verdicts").fetchone()[0]


def test_old_state_goes_with_old_traces(llmeval, aged_state):
    """Cached verdicts from before the bound are no use any more, and a dry run counts them."""
    command = ["prune", "--store", aged_state.path, "--max-days", "7"]
    for more, said in ((["--dry-run"], "would go"), (["--dry-run"], "would go"), ([], "went")):
        done = llmeval(*command, *more)
        assert f"1 old session or cached verdict {said}" in " ".join(done.stdout.split())
    assert json.loads(llmeval(*command, "--dry-run", "--json").stdout)["expired"] == 0


def test_without_a_bound_of_days_nothing_is_too_old(llmeval, aged_state):
    """Neither traces nor cached verdicts nor sessions go, and a dry run says the same."""
    command, unbound = ["prune", "--store", aged_state.path], {"LLMEVAL_STORE_MAX_DAYS": "0"}
    for more in (["--dry-run"], []):
        done = llmeval(*command, "--json", *more, **unbound)
        assert done.returncode == 0, done.stderr
        about = json.loads(done.stdout)
        assert [about[name] for name in ("too_old", "removed", "expired")] == [0, 0, 0]
    assert "no bound of days" in llmeval(*command, "--dry-run", **unbound).stdout


def texts_in(folder):
    """Return all bytes of a folder's files, without the logs that are read into them."""
    files = (f for f in folder.rglob("*") if f.is_file() and not f.name.endswith("-shm"))
    return b"".join(file.read_bytes() for file in files)


def test_what_a_judge_said_of_a_user_goes_too(llmeval, tmp_path):
    """A judge's answer quotes what it read, in a trace of its own that only a link ties to it."""
    path = tmp_path / "traces.db"
    llms = {
        user: FakeLLM({"rating": "yes", "rationale": f"the secret of {user}, quoted"})
        for user in ("ann", "bob")
    }
    for user, llm in llms.items():
        sdk.configure(
            exporters=["local"], store=str(path), evaluators=["groundedness"], llm=llm,
            sampling_rules=[sdk.SamplingRule(1.0)], escalations=[],
        )  # fmt: skip
        with sdk.annotation_context(user_id=user), sdk.workflow("answer", request="?") as span:
            span.annotate(retrieved_context=["The roof is of slate."], response="Slate.")
        assert sdk.flush(20).complete
        sdk.shutdown()
    assert texts_in(tmp_path).count(b"the secret of ann, quoted") >= 2
    asked = llmeval("prune", "--store", path, "--user", "ann", "--dry-run")
    assert "and 1 trace of a judge that read them would go" in " ".join(asked.stdout.split())
    as_json = llmeval("prune", "--store", path, "--user", "ann", "--dry-run", "--json")
    assert json.loads(as_json.stdout)["judge_traces"] == 1
    done = llmeval("prune", "--store", path, "--user", "ann")
    assert done.returncode == 0, done.stderr
    assert "and 1 trace of a judge that read them went" in " ".join(done.stdout.split())
    assert b"the secret of ann" not in texts_in(tmp_path)
    assert texts_in(tmp_path).count(b"the secret of bob, quoted") >= 2


@pytest.mark.plugin("sessions")
def test_verdicts_on_a_users_session_go_though_its_last_turn_names_nobody(llmeval, tmp_path):
    """A session is judged on its last turn, and the judge reads all turns of the user."""
    path = tmp_path / "traces.db"
    sdk.configure(
        exporters=["local"], store=str(path), evaluators=["goal_reached"], escalations=[],
        llm=FakeLLM(
            {"rationale": "the secret of ann, quoted", "steps": [], "rating": "yes"}
        ),
        sampling_rules=[sdk.SamplingRule(1.0)], session_idle=0.2,
    )  # fmt: skip
    with sdk.annotation_context(session_id="chat"):
        for user in ("ann", None):
            with sdk.annotation_context(user_id=user) as _, sdk.workflow("answer") as span:
                span.annotate(request="Where is it?", response="There.")
    deadline = time.monotonic() + 60
    while not sdk.stats().sessions.get("evaluated") and time.monotonic() < deadline:
        sdk.flush(1)
    assert sdk.flush(20).complete
    sdk.shutdown()
    assert texts_in(tmp_path).count(b"the secret of ann, quoted") >= 2
    done = llmeval("prune", "--store", path, "--user", "ann")
    assert done.returncode == 0, done.stderr
    assert b"the secret of ann, quoted" not in texts_in(tmp_path)
    with StoreReader(path) as reader:
        assert reader.counts().spans == 1


@pytest.mark.plugin("sessions")
def test_turns_are_forgotten_where_there_is_no_local_store(llmeval, tmp_path):
    """An app that exports elsewhere keeps the conversations of open sessions on disk all the same."""
    path = tmp_path / "traces.db"
    sdk.configure(
        exporters=["memory"], store=str(path), evaluators=["turn_count"], escalations=[],
        session_idle=3600.0,
    )  # fmt: skip
    for user in ("ann", "bob"):
        with sdk.annotation_context(user_id=user, session_id=f"chat of {user}"):
            with sdk.workflow("answer", request=f"the secret of {user}") as span:
                span.response = "Slate."
    assert sdk.flush(20).complete
    sdk.shutdown()
    assert not path.exists()
    asked = llmeval("prune", "--store", path, "--user", "ann", "--dry-run")
    assert "1 turn of open sessions would go" in asked.stdout
    done = llmeval("prune", "--store", path, "--user", "ann")
    assert done.returncode == 0, done.stderr
    assert "there is no store" in " ".join(done.stdout.split())
    assert b"the secret of ann" not in texts_in(tmp_path)
    assert b"the secret of bob" in texts_in(tmp_path)
    again = llmeval("prune", "--store", path, "--user", "ann", "--json")
    assert (again.returncode, json.loads(again.stdout)["turns"]) == (1, 0)
    assert not path.exists()


@pytest.mark.plugin("sessions")
@pytest.mark.parametrize("key", [None, "a key of this app"])
def test_turns_are_forgotten_though_the_store_has_aged_out_their_trace(
    llmeval, tmp_path, monkeypatch, key
):
    """The file of open sessions says itself whose they are, by a hash where ids are hashed."""
    env = {} if key is None else {"LLMEVAL_HASH_IDS": key}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "traces.db"
    sdk.configure(
        exporters=["local"], store=str(path), evaluators=["turn_count"], escalations=[],
        session_idle=3600.0,
    )  # fmt: skip
    with sdk.annotation_context(user_id="ann-7", session_id="chat"):
        with sdk.workflow("answer", request="the secret of ann") as span:
            span.response = "Slate."
    assert sdk.flush(20).complete
    sdk.shutdown()
    assert (key is None) == (b"ann-7" in texts_in(tmp_path))
    assert llmeval("prune", "--store", path, "--max-days", "0.0000001").returncode == 0
    done = llmeval("prune", "--store", path, "--user", "ann-7", **env)
    assert done.returncode == 0, done.stdout
    assert "1 turn of open sessions went" in done.stdout
    assert b"the secret of ann" not in texts_in(tmp_path)


def test_runs_over_a_users_requests_forget_them_too(llmeval, tmp_path):
    """A run writes texts of golden sets and of the store into a store of its own."""
    path = tmp_path / "traces.db"
    sdk.configure(exporters=["local"], store=str(path), escalations=[])
    for user in ("ann", "bob"):
        with sdk.annotation_context(user_id=user), sdk.workflow("answer") as span:
            span.annotate(
                request=f"the secret of {user}", response="Slate.",
                retrieved_context=["The roof is of slate."],
            )  # fmt: skip
    assert sdk.flush(20).complete
    sdk.shutdown()
    with StoreReader(path) as reader:
        ids = [row[0] for row in reader.read(lambda db: db.execute("SELECT span_id FROM spans"))]
    golden = GoldenSet("answers", folder=tmp_path / "datasets")
    for each in ids:
        golden.add(each, store=path)
    for source in (("--from-store",), ("--dataset", "answers")):
        ran = llmeval(
            "evaluate", *source, "--evaluators", "groundedness_risk", "--exporters", "local",
            "--no-progress", LLMEVAL_STORE=str(path),
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
    runs, reports = tmp_path / "experiments.db", tmp_path / "reports"
    assert b"the secret of ann" in runs.read_bytes()
    saved = sorted(file.name for file in reports.iterdir())
    assert len(saved) == 2
    text = (reports / saved[0]).read_text()
    (reports / "others.jsonl").write_text(re.sub('_id":"[^"]+"', '_id":""', text))
    for option in (["--dry-run"], []):
        done = llmeval("prune", "--store", path, "--user", "ann", *option)
        assert done.returncode == 0, done.stderr
        assert "2 traces of experiments" in done.stdout
        said = " ".join(done.stdout.split())
        assert "reports and exports that were written" in said
        assert f"hold rows of that user, and stay: delete them yourself: {', '.join(saved)}" in said
        assert "may hold copies of some, and stay: others.jsonl" in said
    assert b"the secret of ann" not in runs.read_bytes()
    assert b"the secret of ann" in (reports / saved[0]).read_bytes()
    assert b"the secret of ann" not in texts_in(tmp_path / "datasets")
    with StoreReader(runs) as reader:
        assert reader.counts().spans == 2
