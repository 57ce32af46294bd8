"""Follows a page of the documentation: its Python and shell blocks run, in order, as a reader would.

``python tests/support/page.py PAGE`` runs in the current folder and exits with 1 at the first block
that fails. What it takes a block for:

- ``python`` runs in this process; the blocks of a page share their names, as in a session;
- ``python title="app.py"`` is written to that file, for the shell blocks that follow;
- ``sh`` runs in a shell; what it exports stays for the blocks that follow;
- ``text`` right after one of these is what the block has to print; ``…`` stands for anything, and
  lines before and after may be left out;
- other titled blocks (``json title="rows.jsonl"``) are written to their file; all else is read.

``<!-- not run: WHY -->`` above a block leaves it out, and ``<!-- needs: PACKAGE -->`` does so where
the package is not installed. The latter is printed, so that nothing is skipped in silence.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|needs): (?P<why>[^\n]+?) -->\n+)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
RUNS = ("python", "sh")


@dataclass
class Block:
    """One fenced block and where it stands."""

    language: str
    code: str
    line: int
    title: str = ""
    not_run: str = ""
    needs: str = ""
    output: str = ""
    """What the block has to print, where the page shows it."""


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, each with the output that the page shows below it."""
    blocks: list[Block] = []
    end = -1
    for match in BLOCK.finditer(text):
        language, code = match["language"], match["code"]
        between = text[end : match.start()].strip() if end >= 0 else "-"
        if language == "text" and not between and blocks and blocks[-1].language in RUNS:
            blocks[-1].output = code
        else:
            blocks.append(
                Block(
                    language,
                    code,
                    text.count("\n", 0, match.start("code")),
                    title=match["title"] or "",
                    not_run=match["why"] if match["mark"] == "not run" else "",
                    needs=match["why"] if match["mark"] == "needs" else "",
                )
            )
        end = match.end()
    return blocks


def matches(expected: str, printed: str) -> bool:
    """Say whether the expected words stand in what was printed; ``…`` stands for anything."""
    at = 0
    for part in expected.split("…"):  # the first place of each is as good as any
        found = re.compile(r"\s+".join(map(re.escape, part.split()))).search(printed, at)
        if found is None:
            return False
        at = found.end()
    return True


def run_python(code: str, names: dict, page: Path, line: int) -> str:
    """Run a block in this process and return what it printed."""
    printed = io.StringIO()
    source = "\n" * line + code
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(page), "exec"), names)
    return printed.getvalue()


def run_shell(code: str) -> str:
    """Run a block in a shell, keep what it exports, and return what it printed."""
    script = f"set -e\n{code}\nenv -0 > .environment\n"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    printed = done.stdout + done.stderr
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{printed}")
    pairs = Path(".environment").read_text().split("\0")
    os.environ.update(pair.split("=", 1) for pair in pairs if "=" in pair)
    return printed


def follow(page: Path) -> None:
    """Run all blocks of a page."""
    names: dict = {"__name__": "page"}
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks_of(page.read_text("utf-8")):
        place = f"{page.name}:{block.line}"
        if block.not_run:
            continue
        if block.needs and (absent := [n for n in block.needs.split(", ") if not find_spec(n)]):
            sys.stdout.write(f"{place}: left out, needs {', '.join(absent)}\n")
            continue
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.code)
            continue
        if block.language not in RUNS:
            continue
        if block.language == "python":
            printed = run_python(block.code, names, page, block.line)
        else:
            printed = run_shell(block.code)
        if block.output and not matches(block.output, printed):
            raise AssertionError(f"{place} printed\n{printed}\nand not\n{block.output}")
        sys.stdout.write(f"{place}: ran\n")


if __name__ == "__main__":
    follow(Path(sys.argv[1]).resolve())
