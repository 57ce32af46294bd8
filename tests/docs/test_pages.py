"""The documentation is true: every block of every page runs, offline, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page import blocks_of, matches

import llmeval_sdk
from llmeval_sdk.statistics.reasons import NOT_RUN_REASONS
from llmeval_sdk.testing.judge_server import JudgeServer


ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *SITE]
CLEAN = (
    "LLMEVAL_",
    "DD_",
    "OPENAI_",
    "OTEL_",
    "PHOENIX_",
    "MLFLOW_",
    "LANGFUSE_",
    "LANGSMITH_",
    "BRAINTRUST_",
)


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page.read_text())], ids=name_of
)
def test_a_page_can_be_followed(page, tmp_path):
    """From top to bottom in an empty folder, with the stand-in where a judge model is needed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(CLEAN)}
    with JudgeServer() as server:
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "support" / "page.py", page],
            cwd=tmp_path,
            env={
                **environment,
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": "none",
                "XDG_STATE_HOME": str(tmp_path / "state"),
                "PYTHONPATH": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_does_not_run_says_why(page):
    """And a file that a page has its reader make is used by a later block of the page."""
    blocks = blocks_of(page.read_text())
    for place, block in enumerate(blocks):
        if block.not_run:
            assert block.language == "sh", f"{name_of(page)}:{block.line}: Python always runs"
            assert len(block.not_run.split()) >= 3, f"{name_of(page)}:{block.line}: says why"
        if block.title.endswith(".py"):
            used = [other.code for other in blocks[place + 1 :]]
            stem = Path(block.title).stem
            assert any(re.search(rf"\b{stem}\b", code) for code in used), block.title


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_lead_to_files_that_are_there(page):
    """Relative ones, in the checkout; anchors of a page are its headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target}"
        assert page not in SITE or file.is_relative_to(DOCS), f"{target} is not on the site"
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{name_of(page)}: {target}"


def slug(heading):
    plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[\s-]+", "-", plain)


def test_every_public_name_is_in_the_reference():
    """`reference/api.md` has a place for each name of ``llmeval_sdk.__all__``."""
    text = (DOCS / "reference" / "api.md").read_text()
    documented = set(re.findall(r"^::: llmeval_sdk\.(\w+)$", text, re.MULTILINE))
    missing = [
        name
        for name in llmeval_sdk.__all__
        if name not in documented and f"`{name}`" not in text and f"`llmeval.{name}`" not in text
    ]
    assert missing == []


def test_every_reason_is_explained():
    """The troubleshooting page says of each not-run reason what it means."""
    text = (DOCS / "how-to" / "troubleshooting.md").read_text()
    assert [reason for reason in NOT_RUN_REASONS if f"`{reason}`" not in text] == []


@pytest.mark.parametrize("name", ["settings", "cli", "attributes", "store", "evaluators"])
def test_a_generated_page_is_what_the_code_says(name):
    """`make reference` writes the pages; a change of the code that it was not run after is seen."""
    import reference

    assert (DOCS / "reference" / f"{name}.md").read_text() == reference.PAGES[name]()


def test_every_page_is_in_the_navigation():
    """`zensical.toml` names each page once."""
    named = re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in SITE)


def test_the_readme_is_short():
    """At most 180 lines, and it opens with the two doors."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 180
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:2] == ["I extract fields", "I lost my Ragas evaluators"]


def test_the_documentation_is_short():
    """All pages together have at most 40,000 words; the marks of tables and lists are no words."""
    words = [re.findall(r"[^\s|]*\w[^\s|]*", page.read_text()) for page in SITE]
    assert sum(map(len, words)) <= 40_000


@pytest.mark.parametrize(
    ("expected", "printed", "is_there"),
    [
        ("a  1\nb …", "x\na 1\nb 2\n", True),
        ("a … c", "a b c", True),
        ("a 2", "a 1", False),
    ],
)
def test_output_is_compared_word_by_word(expected, printed, is_there):
    """Spaces may differ, words may not."""
    assert matches(expected, printed) is is_there


def test_the_architecture_names_every_place_with_threads_locks_and_fork_hooks():
    """A new one has a row in its tables or in those of the reference, with who takes it."""
    pages = (DOCS / "architecture.md", DOCS / "reference" / "concurrency.md")
    text = "".join(page.read_text() for page in pages)
    package = ROOT / "llmeval_sdk"
    made = re.compile(
        r"threading\.(Thread|Lock|RLock)\(|\bLock\(\)|OneThread\(|register_at_fork\("
        r"|asyncio\.(Lock|Condition|Semaphore)\("
    )
    places = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if made.search(path.read_text())
    }
    assert [place for place in sorted(places) if f"`{place}`" not in text] == []


def test_the_architecture_names_every_room():
    """A room that nobody can look up is a room that nobody finds."""
    text = (DOCS / "architecture.md").read_text()
    package = ROOT / "llmeval_sdk"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    assert [room for room in sorted(rooms) if f"`{room}`" not in text] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_places_in_the_package_are_there(page):
    """A file that moved takes its mention along."""
    package = ROOT / "llmeval_sdk"
    named = re.findall(r"`([a-z_]+/[\w/]+\.py)`", (ROOT / page).read_text())
    assert [
        name for name in named if not ((package / name).exists() or (ROOT / name).exists())
    ] == []
