"""Run the tests on every Python from 3.10 to 3.13 that is installed: ``make matrix``.

``VERSIONS=3.12,3.13`` in the environment names some of them; ``--of-every-python`` runs the part
of the tests that `tests/all.py` names, with fewer packages. A version that is not there is skipped
with a line. Further arguments go to pytest.
"""

import os
import pathlib
import subprocess
import sys

from support.interpreters import interpreter


ROOT = pathlib.Path(__file__).parent.parent
VERSIONS = os.environ.get("VERSIONS", "3.10,3.11,3.12,3.13").split(",")


def installed(version, python, place, extras):
    """Make the environment of a version, with the pip of the Python that runs this."""
    pins = ["-c", "constraints.txt"]
    if version == "3.10":  # for which some of the exact versions are not made any more
        pins = []
    subprocess.run([python, "-m", "venv", "--without-pip", str(place)], check=True)
    ended = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install",
         "--quiet", "--disable-pip-version-check", *pins,
         "-e", f".[{extras}]", "--group", "tests", "--group", "bench"],
        cwd=ROOT, check=False,
    )  # fmt: skip
    if ended.returncode:
        line = f"CANNOT INSTALL the tests' environment on Python {version}"
        print(line, flush=True)
        if trouble := os.environ.get("SUITE_TROUBLE"):  # .ci/suites.py has it in its table
            pathlib.Path(trouble).write_text(f"{line}\n")
    return ended.returncode == 0


def main(arguments):
    """Make an environment for each version and run the tests in it."""
    failed = []
    extras = "demo,otel" if "--of-every-python" in arguments else "all"
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: skipped, not installed", flush=True)
            continue
        place = ROOT / f".venv-{version}"
        here = str(place / "bin" / "python")
        if not installed(version, python, place, extras):
            failed.append(version)
            continue
        ended = subprocess.run([here, "tests/all.py", *arguments], cwd=ROOT, check=False)
        print(f"Python {version}: {'FAILED' if ended.returncode else 'ok'}", flush=True)
        failed += [version] * (ended.returncode != 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
