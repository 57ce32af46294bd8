"""Run the tests on every Python from 3.10 to 3.13 that is installed: ``make matrix``.

Looks on the path and among pyenv's interpreters; a version that is not there is skipped with a line.
Further arguments go to pytest.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys


ROOT = pathlib.Path(__file__).parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def interpreter(version):
    """Find a real interpreter of a version; pyenv's shims are none."""
    pyenv = os.environ.get("PYENV_ROOT", str(pathlib.Path.home() / ".pyenv"))
    real = sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"))
    return real[-1] if real else shutil.which(f"python{version}")


def main(arguments):
    """Make an environment for each version and run the tests in it."""
    failed = []
    for version in VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: skipped, not installed", flush=True)
            continue
        place = ROOT / f".venv-{version}"
        here = str(place / "bin" / "python")
        install = [here, "-m", "pip", "install", "--quiet"]
        if version != "3.10":  # for which some of the exact versions are not made any more
            install += ["-c", "constraints.txt"]
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        subprocess.run([*install, "--upgrade", "pip"], cwd=ROOT, check=True)
        subprocess.run(
            [*install, "-e", ".[all]", "--group", "tests", "--group", "bench"], cwd=ROOT, check=True
        )
        done = subprocess.run([here, "-m", "pytest", *arguments], cwd=ROOT, check=False)
        print(f"Python {version}: {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
        failed += [version] * (done.returncode != 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
