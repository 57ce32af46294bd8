"""Run the whole suite with this Python: two files at a time, then what has to be alone.

    python tests/all.py [pytest's arguments]          # what ``make test`` and ``make matrix`` run

Tests marked ``alone`` measure by the clock or use what the whole machine shares; they run one by
one after the others. With ``--junitxml=NAME.xml`` they write ``NAME-alone.xml`` beside it.
"""

import re
import subprocess
import sys


NO_TEST_WAS_CHOSEN = 5
"""What pytest exits with when the arguments name only tests of the other part."""


def main(arguments):
    """Run both parts, the second also when the first failed; returns 1 if one of them did."""
    apart = [re.sub(r"^(--junitxml=.*)\.xml$", r"\1-alone.xml", part) for part in arguments]
    parts = (
        ["-n", "2", "--dist", "loadfile", "-m", "not alone", *arguments],
        ["-m", "alone", *apart],
    )
    codes = [
        subprocess.run([sys.executable, "-m", "pytest", *part], check=False).returncode
        for part in parts
    ]
    if set(codes) == {NO_TEST_WAS_CHOSEN}:
        return 1
    return int(any(code not in (0, NO_TEST_WAS_CHOSEN) for code in codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
