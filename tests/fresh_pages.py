"""Run each page's own ``pip install`` line in a fresh environment, and then follow the page there.

    python tests/fresh_pages.py                       # every page, with and without constraints
    python tests/fresh_pages.py docs/how-to/ray.md    # one page
    python tests/fresh_pages.py --list                # only the lines

Not a test of the suite: it takes one to three minutes for each line. The package comes as a wheel
of this checkout, everything else from the package index. A block of the page that says what it
needs has to run where the line installs that. Exits 1 if a line or a page failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT))
from page import blocks_of  # noqa: E402 - the tests' own helpers, found by the lines above
from scripted_model import order_agent, roof_reader, scripted_model  # noqa: E402

from llmeval_sdk.testing.judge_server import JudgeServer  # noqa: E402


OURS = "llmeval-inprocess"
PLANNED = re.compile(r"pip install (?P<what>[^#`\n)]*?(?:llmeval-inprocess|\.\[)[^#`\n)]*)")
CHECKOUT = re.compile(r"-e '\.(?P<extras>\[[\w,]+\])'")
SCRIPTS = {
    "langgraph.md": order_agent,
    "llama-index.md": roof_reader,
    "openai-agents.md": order_agent,
}
"""What the app's model answers where a page has one; every page has a judge."""


UNCONSTRAINED = {
    "llama-index.md": "it takes a client of OpenAI older than the one in constraints.txt"
}
"""Pages that say themselves that their line goes without the constraints, and why."""


def lines_of(page):
    """Return what the page's lines install, and whether the page goes on from there.

    Lines of blocks come first, in the order of the page. Others stand further in, or in a sentence:
    they add something, so what the rest of the page needs is not there after them.
    """
    text = page.read_text("utf-8")
    codes = [block.code for block in blocks_of(text) if block.language == "sh"]
    own = [match["what"].strip() for code in codes for match in PLANNED.finditer(code)]
    others = [match["what"].strip() for match in PLANNED.finditer(text)]
    for line in own:
        others.remove(line)
    return [(line, True) for line in own] + [(line, False) for line in others]


def with_wheel(line, wheel):
    """Return a line that installs a wheel of this checkout in the place of the package."""
    line = CHECKOUT.sub(lambda match: f"'{wheel}{match['extras']}'", line)
    line = line.replace("-c constraints.txt", f"-c {ROOT / 'constraints.txt'}")
    return re.sub(rf"{OURS}(\[[\w,]+\])?", lambda match: f"{wheel}{match[1] or ''}", line)


def constraints_for(line):
    """Return the file of the versions that are tested together: Ragas has one of its own."""
    with_ragas = re.search(rf"{OURS}\[[^]]*\bragas\b", line)
    return ROOT / ("llmeval_sdk/plugins/ragas/pins.txt" if with_ragas else "constraints.txt")


def wheel_of(folder):
    """Build the package and return its wheel."""
    command = [sys.executable, "-m", "pip", "-q", "wheel", "--no-deps", "-w", folder, ROOT]
    subprocess.run(command, check=True)
    (wheel,) = Path(folder).glob("*.whl")
    return wheel


def run(command, folder, **more):
    """Run a command in a folder; return its exit code and what it printed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=1_800, **more
    )
    return done.returncode, done.stdout + done.stderr


def problem_with(page, line, wheel, *, is_own, constrained):
    """Return what is wrong with a line, or with its page after it; ``None`` if both work."""
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder) / "venv" / "bin" / "python")
        subprocess.run([sys.executable, "-m", "venv", Path(folder) / "venv"], check=True)
        what = with_wheel(line, wheel)
        more = f" -c {constraints_for(line)}" if constrained else ""
        code, told = run(["bash", "-c", f"{python} -m pip -q install {what}{more}"], folder)
        if code:
            return told
        code, told = run([python, "-m", "pip", "check"], folder)
        if code:
            return told
        home = Path(folder) / "work"
        home.mkdir()
        environment = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TERM")}
        environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
        follow = [python, str(ROOT / "tests" / "support" / "page.py"), str(page)]
        with JudgeServer() as judge, scripted_model(SCRIPTS.get(page.name)) as model:
            asked = model if page.name in SCRIPTS else judge.base_url
            environment |= {"OPENAI_BASE_URL": asked, "OPENAI_API_BASE": asked}
            environment |= {"OPENAI_API_KEY": "none", "LLMEVAL_JUDGE_BASE_URL": judge.base_url}
            code, told = run(follow, home, env=environment)
        skipped = re.search(r"left out, needs .*", told)
        return told if code or (is_own and skipped) else None


def main():
    """Try every line; returns how many failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--list", action="store_true", help="print the lines and try none")
    parser.add_argument("--only", choices=("with", "without"), help="one of the two ways")
    options = parser.parse_args()
    pages = options.pages or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel = None if options.list else wheel_of(folder)
        for page in pages:
            for line, is_own in lines_of(page.resolve()):
                for way in ("without", "with"):
                    place = f"{page.name}: {line} ({way} {constraints_for(line).name})"
                    if options.only not in (None, way):
                        continue
                    if way == "with" and (why := UNCONSTRAINED.get(page.name)):
                        print(f"left out: {place}: {why}")
                        continue
                    if options.list:
                        print(place)
                        continue
                    begun = time.monotonic()
                    problem = problem_with(
                        page.resolve(), line, wheel, is_own=is_own, constrained=way == "with"
                    )
                    seconds = time.monotonic() - begun
                    failed += problem is not None
                    state = "works" if problem is None else "FAILED"
                    print(f"{state} in {seconds:.0f} s: {place}", flush=True)
                    if problem:
                        print(problem[-3_000:], flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main()))
