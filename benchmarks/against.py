"""Compare this commit with an earlier one: both benchmarks in turn, and the ratio of each figure.

    python -m benchmarks.against COMMIT [--rounds 20] [--only overhead,judging]

Each commit runs its own benchmarks from a worktree of its own. Within a round both run one after
the other, in an order that alternates, so that a machine that slows down slows both. A row prints
the geometric mean of the rounds' ratios, above 1 where this commit is worse, with the 95 % interval
by Student's t. It exits with 1 where a whole interval lies above 1.05.
"""

import argparse
import math
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
QUICK = ("overhead", "judging", "otel_cpu")
NAME_WIDTH, MEASURED_WIDTH = 62, 22
"""The columns of `measures.Table`."""
WORSE = 1.05
STAND_IN_PRICE = "LLMEVAL_PRICES=loopback=0.01,0.01"
"""Of the model that answers: without a price an earlier commit stops at its limit of tokens."""


def main():
    """Print the table; return 1 where a figure got worse."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", help="the earlier commit, such as a tag")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default=",".join(QUICK), help="benchmarks, with commas between")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    ratios: dict[str, list[float]] = {}
    with worktree(arguments.commit) as before:
        for number in range(arguments.rounds):
            sides = (before, ROOT) if number % 2 else (ROOT, before)
            figures = {side: measured(side, names) for side in sides}
            for figure, (value, more_is_better) in figures[ROOT].items():
                earlier = figures[before].get(figure, (0.0, False))[0]
                if value > 0 and earlier > 0:
                    ratio = earlier / value if more_is_better else value / earlier
                    ratios.setdefault(figure, []).append(ratio)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    return show(ratios)


@contextmanager
def worktree(commit):
    """Check the commit out into a folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="llmeval-against-") as folder:
        place = Path(folder) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(place), commit],
            cwd=ROOT,
            check=True,
        )
        try:
            yield place
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(place)], cwd=ROOT, check=True
            )


def measured(side, names):
    """Run the benchmarks of one side; return each figure's first number and whether more is better.

    A benchmark exits with 1 where it misses a bar, which says nothing about the other commit. One
    that prints no figure broke off, or has others than can be read here: that ends the comparison.
    """
    figures = {}
    for name in names:
        quick = ["--quick"] if name in QUICK else []
        done = subprocess.run(
            ["env", STAND_IN_PRICE, sys.executable, "-m", f"benchmarks.{name}", *quick],
            cwd=side,  # whose package comes first on the path
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{name} of {side} broke off:\n{done.stderr[-2_000:]}")
        printed = {f"{name}: {row[0]}": row[1:] for row in rows(done.stdout)}
        if not printed:
            raise SystemExit(f"{name} of {side} printed no figure:\n{done.stderr[-2_000:]}")
        figures |= printed
    return figures


def rows(text):
    """Yield the figures of a benchmark: in the columns of `measures.Table`, or in its own lines."""
    for line in text.splitlines():
        own = re.match(r"\s*([A-Za-z].*?[A-Za-z_,])\s+(\d[\d,]*\.\d+)( us| +bar|$)", line)
        figure = line[:NAME_WIDTH].strip()
        number = re.match(r"\s*(-?[\d,]*\.?\d+)", line[NAME_WIDTH:])
        if own:
            yield own[1].rstrip(","), float(own[2].replace(",", "")), False
        elif figure and number:
            cells = (
                line[NAME_WIDTH : NAME_WIDTH + MEASURED_WIDTH],
                line[NAME_WIDTH + MEASURED_WIDTH :],
            )
            more_is_better = "/s" in cells[0] or "≥" in cells[1] or ">" in cells[1]
            yield figure, float(number[1].replace(",", "")), more_is_better


def show(ratios):
    """Print each figure's ratio with its interval."""
    worse = []
    print(f"{'figure':<82}{'ratio':>7}   95 % interval")
    for figure, values in ratios.items():
        logs = [math.log(value) for value in values]
        mean = statistics.fmean(logs)
        half = math.inf
        if len(logs) > 1:
            from scipy.stats import t  # it takes a second, which who only reads rows need not wait

            half = t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = math.exp(mean - half), math.exp(min(mean + half, 700))
        is_worse = low > WORSE
        worse += [figure] * is_worse
        mark = "  WORSE" if is_worse else ""
        print(f"{figure[:80]:<82}{math.exp(mean):>7.3f}   {low:.3f} .. {high:.3f}{mark}")
    if not ratios:
        print("no figure stands in both commits")
    return int(bool(worse) or not ratios)


if __name__ == "__main__":
    sys.exit(main())
