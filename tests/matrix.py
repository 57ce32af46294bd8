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
        install = [here, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if version != "3.10":  # for which some of the exact versions are not made any more
            install += ["-c", "constraints.txt"]
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        subprocess.run([*install, "--upgrade", "pip"], cwd=ROOT, check=True)
        subprocess.run(
            [*install, "-e", f".[{extras}]", "--group", "tests", "--group", "bench"],
            cwd=ROOT, check=True,
        )  # fmt: skip
        ended = subprocess.run([here, "tests/all.py", *arguments], cwd=ROOT, check=False)
        print(f"Python {version}: {'FAILED' if ended.returncode else 'ok'}", flush=True)
        failed += [version] * (ended.returncode != 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
