"""Fit the weights of `extraction_risk` on four labelled sources and write its data file.

python benchmarks/quality/extraction_train.py --data ../shared/data --out FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from extraction_fit import fit, measure
from extraction_invoices import cases as invoices
from extraction_sources import load


SOURCE = (
    "fitted by benchmarks/quality/extraction_train.py on extraction runs over ICDAR 2019 SROIE"
    " receipts, the READMEs and licences of installed Python distributions, SQuAD 2.0 paragraphs, and"
    " generated invoices of eleven locales"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sources = [*load(options.data).values(), invoices()]
    weights = fit([measure(cases) for cases in sources])
    data = {
        "source": SOURCE,
        "bias": round(weights.bias, 3),
        "weights": {name: round(value, 3) for name, value in weights.weights.items()},
        "means": {name: round(value, 3) for name, value in weights.means.items()},
    }
    path = options.out / "extraction.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
