"""What `make fresh-pages` runs is every line with which a page installs the package."""

import re
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from fresh_pages import lines_of, with_wheel  # noqa: E402 - a command of the tests' own folder


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page):
    return str(page.relative_to(ROOT))


def test_each_way_to_write_a_line_is_read(tmp_path):
    """In a block, further in, within a sentence, with what else it installs, and a checkout's."""
    page = tmp_path / "page.md"
    page.write_text(
        "Say `pip install 'llmeval-inprocess[grpc]'`, or `pip install` it.\n\n"
        "```sh\npip install llmeval-inprocess httpx     # and a word\npip install other\n"
        "pip install -e '.[viewer]' -c constraints.txt    # a checkout\n```\n"
        '1. First:\n\n    ```sh\n    pip install "llmeval-inprocess[datadog]"\n    ```\n'
    )
    assert lines_of(page) == [
        ("llmeval-inprocess httpx", True),
        ("-e '.[viewer]' -c constraints.txt", True),
        ("'llmeval-inprocess[grpc]'", False),
        ('"llmeval-inprocess[datadog]"', False),
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_of_a_page_is_left_out(page):
    """Each place that speaks of the package after `pip install` is among the lines."""
    places = re.findall(r"pip install [^`\n]*?(?:llmeval-inprocess|\.\[)", page.read_text("utf-8"))
    assert len(lines_of(page)) == len(places)


def test_a_line_installs_this_checkout(tmp_path):
    """The wheel takes the place of the name with its extras, and constraints are this checkout's."""
    assert with_wheel('"llmeval-inprocess[a,b]" more', "x.whl") == '"x.whl[a,b]" more'
    constrained = with_wheel("-e '.[viewer]' -c constraints.txt", "x.whl")
    assert constrained == f"'x.whl[viewer]' -c {ROOT / 'constraints.txt'}"
