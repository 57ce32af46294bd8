"""Build the wheel and the sdist, install them into clean environments, and use them as a user would.

    python tests/built_package.py              # what ``make test-package`` runs
    python tests/built_package.py --out dist   # and keeps both there

It checks that both hold what they must, that building them again gives the same bytes, that the
index can show the page, that all that is installed has a licence that goes with ours, and that an
app, the command line and the demo run from the installed wheel, in a folder that is not this
checkout. It runs in the environment of ``make release``, and exits with 1 at the first thing that
fails.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
LICENCES = (
    "0BSD", "Apache", "BSD", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MPL-2.0", "Mozilla Public License 2.0",
    "PSF-2.0", "Python Software Foundation", "Unicode-3.0", "Unlicense", "Zlib",
)  # fmt: skip
"""What a dependency may be licensed by, in full or as a part of what its metadata says."""
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
    "sbom.cdx.json",
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


def built(folder):
    """Build both into a folder, at the time of the last commit, and return wheel and sdist.

    Where there is no repository, as in an unpacked sdist, any fixed time will do.
    """
    command = ["git", "log", "-1", "--format=%ct"]
    time = ""
    if shutil.which("git"):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        time = done.stdout.strip()
    time = time or "1577836800"
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=ROOT, SOURCE_DATE_EPOCH=time)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def check(wheel, sdist, again):
    """Fail where something is missing, where bytes differ, or where the page cannot be shown."""
    missing = [name for name in IN_THE_WHEEL if name not in files(wheel)]
    with tarfile.open(sdist) as packed:
        top = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    missing += [name for name in IN_THE_SDIST if name not in top]
    missing += relative_links(wheel)
    if missing:
        sys.exit(f"FAILED: not in the package: {missing}")
    if differing := [
        a.name
        for a, b in zip((wheel, sdist), again, strict=True)
        if a.read_bytes() != b.read_bytes()
    ]:
        sys.exit(f"FAILED: built twice, with other bytes: {differing}")
    with zipfile.ZipFile(wheel) as packed:
        (bill,) = (name for name in packed.namelist() if ".dist-info/sboms/" in name)
        names = {part["name"].lower() for part in json.loads(packed.read(bill))["components"]}
    if lacking := {"tenacity", "rapidfuzz", "unicode cldr"} - names:
        sys.exit(f"FAILED: the bill of materials in the wheel has no {lacking}")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=ROOT)


def check_licences(python):
    """Fail where a package of the development environment has a licence unlike ours.

    It has all that the extras of ``all`` bring, and what tests and benchmarks need.
    """
    licences = Path(sys.executable).with_name("pip-licenses")
    run(
        licences, "--python", python, "--from=mixed", "--partial-match",
        "--allow-only", ";".join(LICENCES), "--ignore-packages", "pip", "setuptools", cwd=ROOT,
    )  # fmt: skip


def main():
    """Build, look inside, install, use."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="the folder that keeps wheel and sdist")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheel, sdist = built(place / "dist")
        check(wheel, sdist, built(place / "again"))
        check_licences(ROOT / ".venv" / "bin" / "python")
        python = environment(place / "plain", wheel)
        print(run(python, "-c", APP, cwd=place, LLMEVAL_STORE=str(place / "plain.db")).strip())
        python = environment(place / "full", f"{wheel}[demo]")
        llmeval = python.with_name("llmeval")
        store = place / "demo.db"
        run(llmeval, "demo", "--limit", "12", "--store", store, cwd=place)
        report = json.loads(run(llmeval, "report", "--json", "--store", store, cwd=place))
        print(f"the demo's report has {len(report)} parts")
        print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB, {len(files(wheel))} files; ok")
        if out is not None:
            out.mkdir(exist_ok=True)
            for made in (wheel, sdist):
                shutil.copy(made, out / made.name)


if __name__ == "__main__":
    main()
