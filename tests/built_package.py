"""Build the wheel and the sdist, install them into clean environments, and use them as a user would.

    python tests/built_package.py          # what ``make test-package`` runs

It checks that both hold what they must, that the wheel made from the sdist holds the same files as
the wheel, and that an app, the command line and the demo run from the installed wheel, in a folder
that is not this checkout. Exits with 1 at the first thing that fails.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
BUILD = "build==1.3.0"
IN_THE_WHEEL = (
    "llmeval_sdk/py.typed",
    "llmeval_sdk/viewer/templates/base.html",
    "llmeval_sdk/plugins/ragas/locked.txt",
)
IN_THE_SDIST = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "zensical.toml",
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "docs",
    "tests",
)
APP = """
import llmeval_sdk as llmeval

@llmeval.workflow
def answer(question):
    llmeval.annotate(retrieved_context=["The rent is 1,250 euros a month."])
    return "The rent is 1,250 euros."

assert "site-packages" in llmeval.__file__, llmeval.__file__
print(answer("What is the rent?"))
assert llmeval.flush()
stats = llmeval.stats()
assert stats.evaluations > 0, stats
"""


def run(*command, cwd, **options):
    """Run a command; its output is shown only if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LLMEVAL_")}
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env={**clean, **options}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def environment(place, *requirements):
    """Make an environment with some packages and return its Python."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-c", ROOT / "constraints.txt", *requirements, cwd=place)
    return python


def files(wheel):
    """Return the files of a wheel, without its own records."""
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


def relative_links(wheel):
    """Return the links of the package page that lead nowhere: those that are not absolute."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        page = packed.read(name).decode()
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    pictures = [each for each in targets if each.endswith((".png", ".svg"))]
    if len(pictures) < 4:
        sys.exit(f"FAILED: the package page has only the pictures {pictures}")
    gone = [each for each in pictures if not (ROOT / each.partition("/main/")[2]).is_file()]
    return [each for each in targets if not each.startswith("https://")] + gone


def main():
    """Build, look inside, install, use."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        builder = environment(place / "builder", BUILD)
        run(builder, "-m", "build", "--outdir", place / "dist", ROOT, cwd=place)
        (wheel,) = (place / "dist").glob("*.whl")
        (sdist,) = (place / "dist").glob("*.tar.gz")
        run(builder, "-m", "build", "--wheel", "--outdir", place / "again", ROOT, cwd=place)
        (again,) = (place / "again").glob("*.whl")
        missing = [name for name in IN_THE_WHEEL if name not in files(wheel)]
        with tarfile.open(sdist) as packed:
            top = {name.split("/")[1] for name in packed.getnames() if "/" in name}
        missing += [name for name in IN_THE_SDIST if name not in top]
        missing += sorted(files(wheel) ^ files(again))
        missing += relative_links(wheel)
        if missing:
            sys.exit(f"FAILED: not in the package, or only in one of the wheels: {missing}")
        python = environment(place / "plain", wheel)
        print(run(python, "-c", APP, cwd=place, LLMEVAL_STORE=str(place / "plain.db")).strip())
        python = environment(place / "full", f"{wheel}[demo]")
        llmeval = python.with_name("llmeval")
        store = place / "demo.db"
        run(llmeval, "demo", "--limit", "12", "--store", store, cwd=place)
        report = json.loads(run(llmeval, "report", "--json", "--store", store, cwd=place))
        print(f"the demo's report has {len(report)} parts")
        print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB, {len(files(wheel))} files; ok")


if __name__ == "__main__":
    main()
