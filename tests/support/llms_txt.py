"""Writes ``llms.txt`` (a list of the pages) and ``llms-full.txt`` (their text) beside the site.

``python tests/support/llms_txt.py SITE``
"""

import re
import sys
from pathlib import Path

import tomli  # which zensical needs too


ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def sections(entries, title=""):
    """Yield the pages of the navigation: the section, the page's title, its path."""
    for entry in entries:
        for name, target in entry.items():
            if isinstance(target, list):
                yield from sections(target, name)
            else:
                yield title, name, target


def summary(page):
    """Return the first sentence of a page's text."""
    text = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    text = re.sub(r"^(#|!\[|```|\|).*$", "", text, flags=re.MULTILINE)
    paragraph = " ".join(re.split(r"\n\s*\n", text.strip())[0].split())
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", paragraph)
    return re.split(r"(?<=[.!?]) ", plain)[0]


def write(site):
    """Write both files."""
    project = tomli.loads((ROOT / "zensical.toml").read_text())["project"]
    listed = [f"# {project['site_name']}\n", f"> {project['site_description']}"]
    whole = []
    last = None
    for section, title, path in sections(project["nav"]):
        page = (DOCS / path).read_text()
        if section != last:
            listed.append(f"\n## {section or 'Start here'}\n")
            last = section
        listed.append(f"- [{title}]({path.removesuffix('.md')}.html): {summary(page)}")
        whole.append(f"<!-- {path} -->\n\n{page.strip()}\n")
    (site / "llms.txt").write_text("\n".join(listed) + "\n")
    (site / "llms-full.txt").write_text("\n\n".join(whole))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
