"""Check all that a release needs, build it into ``dist/``, and stop before the upload.

    make release ARGS=--freeze      # keeps the surface of the version in tests/frozen/<version>
    make release                    # checks everything; the release workflow does the rest

What is not as it has to be is refused with one line. The upload is the work of the release
workflow, which has the right to it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT))
from surface import (  # noqa: E402 - found by the lines above
    breaking,
    current,
    numbers,
    releases,
    surface_of,
    untold,
)


class RefusedError(Exception):
    """The release cannot be made; the message is the one line that says why."""


def main() -> int:
    """Release, or say in one line why not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--freeze", action="store_true", help="keep the surface of this version")
    parser.add_argument(
        "--without-tests", action="store_true", help="leave out `make test`, which ran elsewhere"
    )
    arguments = parser.parse_args()
    try:
        print(released(is_new=arguments.freeze, with_tests=not arguments.without_tests))
    except RefusedError as refusal:
        print(f"refused: {refusal}")
        return 1
    return 0


def released(*, is_new: bool, with_tests: bool) -> str:
    """Run the checks, those that take seconds first; return what to do next."""
    version = version_of((ROOT / "pyproject.toml").read_text("utf-8"))
    check_clean(git("status", "--porcelain"))
    section = section_of((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    check_tag(version, git("tag", "--list").split(), git("tag", "--points-at", "HEAD").split())
    surface = json.loads(json.dumps(current()))
    check_surface(surface, version, section, releases(), is_new=is_new)
    if is_new:
        keep(surface, ROOT / "tests" / "frozen" / version)
        return f"kept the surface of {version}: commit tests/frozen/{version}"
    if with_tests:
        make("test")
    make("sbom")
    check_bill(git("status", "--porcelain", "sbom.cdx.json"))
    make("test-package", "ARGS=--out dist")
    return f"{version} can be released: dist/ holds it, and the tag v{version} starts the upload"


def version_of(pyproject: str) -> str:
    """Return the version, which stands in one place; refuse one that is no release."""
    match = re.search(r'^version = "([^"]+)"$', pyproject, re.MULTILINE)
    version = match[1] if match else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise RefusedError(
            f"version {version!r} in pyproject.toml is not one of a release, as 0.2.0 is"
        )
    return version


def check_clean(status: str) -> None:
    """Refuse a working tree that differs from what is committed."""
    if changed := status.splitlines():
        first = changed[0].split(maxsplit=1)[1]
        raise RefusedError(f"the working tree is not clean: {len(changed)} files, such as {first}")


def check_tag(version: str, tags: list[str], here: list[str]) -> None:
    """Refuse a version whose tag is on another commit."""
    if f"v{version}" in tags and f"v{version}" not in here:
        raise RefusedError(f"{version} exists: the tag v{version} is on another commit")


def check_bill(status: str) -> None:
    """Refuse a bill of materials that was written for other dependencies."""
    if status:
        raise RefusedError("sbom.cdx.json is out of date: commit what `make sbom` has written")


def section_of(changelog: str, version: str) -> str:
    """Return what the change log says of a version; refuse one without a section or a date."""
    match = re.search(
        rf"^## {re.escape(version)} – (\S+)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if match is None or not match[2].strip():
        raise RefusedError(f"CHANGELOG.md has no section '## {version} – <date>' with a text")
    try:
        date.fromisoformat(match[1])
    except ValueError:
        raise RefusedError(f"CHANGELOG.md: {match[1]!r} is no date of {version}") from None
    return match[2]


def check_surface(
    surface: dict, version: str, section: str, kept: list[Path], *, is_new: bool
) -> None:
    """Refuse a version that exists, and what breaks without a line in the change log.

    ``kept`` are the folders of the releases, oldest first.
    """
    before = [path for path in kept if numbers(path.name) < numbers(version)]
    folder = next((path for path in kept if path.name == version), None)
    if folder is None and not is_new:
        raise RefusedError(
            f"the surface of {version} is not kept: run `make release ARGS=--freeze`"
        )
    if folder is not None and is_new:
        raise RefusedError(f"{version} exists: raise the version in pyproject.toml")
    if folder is not None and surface_of(folder) != surface:
        raise RefusedError(f"{version} exists with another public surface: raise the version")
    unsaid = untold(breaking(surface_of(before[-1]), surface), section) if before else []
    if unsaid:
        more = f" and {len(unsaid) - 1} more" if len(unsaid) > 1 else ""
        raise RefusedError(f"CHANGELOG.md does not name what breaks: {unsaid[0]}{more}")


def keep(surface: dict, folder: Path) -> None:
    """Keep the surface of a release, and a store and a spool that it wrote."""
    folder.mkdir(exist_ok=True)
    text = json.dumps(surface, ensure_ascii=False, separators=(",", ":"))
    (folder / "surface.json").write_text(text + "\n", "utf-8")
    if (folder / "data").exists():
        return
    writer = ROOT / "tests" / "frozen" / "write_fixtures.py"
    done = subprocess.run([sys.executable, str(writer), str(folder / "data")], check=False)
    if done.returncode:
        raise RefusedError("the store and the spool of the release could not be written")


def git(*arguments: str) -> str:
    """Return what a command of git prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RefusedError(f"git {arguments[0]}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.rstrip()


def make(*arguments: str) -> None:
    """Run a target of the Makefile; refuse where it fails."""
    if subprocess.run(["make", *arguments], cwd=ROOT, check=False).returncode:
        raise RefusedError(f"`make {' '.join(arguments)}` failed")


if __name__ == "__main__":
    sys.exit(main())
