"""What a release promised is kept by the next one, or its change log says what breaks."""

import importlib.util
import json
from functools import cache
from pathlib import Path

import pytest
import surface


pytest.importorskip("griffe", reason="griffe needs Python 3.11")
ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)


@cache
def text_of_now():
    return json.dumps(surface.current())


@cache
def now():
    return json.loads(text_of_now())


def changed(change):
    other = json.loads(text_of_now())
    change(other)
    return other


@pytest.fixture
def kept(tmp_path):
    """Keep the present surface as that of release 0.1.0, and return the folders of releases."""
    (tmp_path / "0.1.0").mkdir()
    (tmp_path / "0.1.0" / "surface.json").write_text(text_of_now())
    return surface.releases(tmp_path)


def newest_section():
    return (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]


def test_nothing_breaks_that_the_change_log_does_not_name():
    """Compared with the last release: names, calls, settings, commands, JSON, columns, tables."""
    for last in surface.releases()[-1:]:
        changes = surface.breaking(surface.surface_of(last), now())
        assert surface.untold(changes, newest_section()) == []


BREAKING = {
    "a name": (lambda s: s["api"]["llmeval_sdk"].pop("below"), "below"),
    "a parameter": (
        lambda s: s["api"]["llmeval_sdk"]["below"]["parameters"].append(
            {"name": "x", "kind": "positional or keyword", "default": None, "annotation": None}
        ),
        "below",
    ),
    "a setting": (lambda s: s["settings"].pop("alert_token"), "alert_token"),
    "a default": (lambda s: s["settings"]["alert_token"].update(default="1"), "alert_token"),
    "a command": (lambda s: s["commands"].pop("llmeval traces"), "traces"),
    "an option": (lambda s: s["commands"]["llmeval traces"].pop("--limit"), "--limit"),
    "a key of JSON": (lambda s: s["json"]["looking"]["explain"].pop("evaluations"), "evaluations"),
    "an evaluator": (lambda s: s["evaluators"].remove("groundedness"), "groundedness"),
    "a column": (lambda s: s["columns"]["export"].pop("session_id"), "session_id"),
    "a column of the store": (lambda s: s["store"]["spans"].pop("tags"), "tags"),
    "an attribute": (lambda s: s["otlp"]["spans"].pop("session.id"), "session.id"),
}


@pytest.mark.parametrize("what", BREAKING)
def test_what_breaks_is_found_and_has_to_be_said(what, kept):
    """Every kind of promise; a line in the change log that names it is enough."""
    change, word = BREAKING[what]
    broken = changed(change)
    with pytest.raises(release.RefusedError, match="does not name what breaks"):
        release.check_surface(broken, "0.2.0", "Nothing breaks.", kept, is_new=True)
    release.check_surface(broken, "0.2.0", f"- `{word}` is gone.", kept, is_new=True)


def test_what_is_new_breaks_nothing(kept):
    """A further name, setting, option or key."""

    def add(s):
        s["api"]["llmeval_sdk"]["further"] = s["api"]["llmeval_sdk"]["below"]
        s["settings"]["further"] = {"variables": ["X"], "default": "None"}
        s["json"]["looking"]["explain"]["further"] = "str"
        s["evaluators"].append("further")

    release.check_surface(changed(add), "0.2.0", "", kept, is_new=True)


def test_a_version_that_exists_is_refused(kept):
    """To be kept again, and to be released with another surface."""
    with pytest.raises(release.RefusedError, match="exists: raise the version"):
        release.check_surface(now(), "0.1.0", "", kept, is_new=True)
    other = changed(lambda s: s["evaluators"].append("further"))
    with pytest.raises(release.RefusedError, match="with another public surface"):
        release.check_surface(other, "0.1.0", "", kept, is_new=False)
    release.check_surface(now(), "0.1.0", "", kept, is_new=False)
    with pytest.raises(release.RefusedError, match="the tag"):
        release.check_tag("0.1.0", ["v0.1.0"], [])
    release.check_tag("0.1.0", ["v0.1.0"], ["v0.1.0"])


REFUSED = {
    "not kept": (lambda: release.check_surface({}, "0.1.0", "", [], is_new=False), "--freeze"),
    "a dirty tree": (lambda: release.check_clean(" M README.md\n?? x"), "2 files, such as README"),
    "an old bill": (lambda: release.check_bill(" M sbom.cdx.json"), "out of date"),
    "no release": (lambda: release.version_of('version = "0.2.0.dev0"'), "0.2.0.dev0"),
    "no section": (lambda: release.section_of("## 0.1.0 – 2026-01-01\n\nText.\n", "0.2.0"), "0.2.0"),
    "an empty section": (lambda: release.section_of("## 0.2.0 – 2026-01-01\n\n", "0.2.0"), "text"),
    "no date": (lambda: release.section_of("## 0.2.0 – unreleased\n\n- X.\n", "0.2.0"), "no date"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_ready_is_refused_with_one_line(what):
    """Each says what to do."""
    check, message = REFUSED[what]
    with pytest.raises(release.RefusedError, match=message) as refusal:
        check()
    assert "\n" not in str(refusal.value)


def test_a_section_ends_where_the_next_begins():
    """What it returns is what a reader sees under the version."""
    text = "# Changelog\n\n## 0.2.0 – 2026-12-01\n\n- New.\n\n## 0.1.0 – 2026-11-28\n\n- Old.\n"
    assert release.section_of(text, "0.2.0").strip() == "- New."
    assert release.section_of(text, "0.1.0").strip() == "- Old."


def test_a_change_is_named_by_its_last_word():
    """Not by the property of an option that changed."""
    assert surface.word_of("commands llmeval watch --by default") == "--by"
    assert surface.word_of("llmeval_sdk.Budget.per") == "per"
