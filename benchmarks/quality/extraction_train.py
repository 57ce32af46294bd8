"""Fit the weights of `extraction_risk` on five labelled sources and write its data file.

python -m benchmarks.quality.extraction_train --data ../shared/data --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from extraction_fit import fit, measure, measure_answers
from extraction_sources import load

from benchmarks.quality.contract_answers import contract_objects, contract_questions
from benchmarks.quality.document_words import KEPT_APART, WORDS
from benchmarks.quality.structured_answers import answers


SOURCE = (
    "fitted by benchmarks/quality/extraction_train.py on extraction runs over ICDAR 2019 SROIE"
    " receipts, the READMEs and licences of installed Python distributions, SQuAD 2.0 paragraphs,"
    " and generated documents of twelve locales and contracts"
)


BASE_RATE = 0.1
"""The share of values that are wrong where a chance holds. The fit counts right and wrong values
alike, as if half of them were."""
GENERATED = 2
"""How much the generated documents count, and the generated contracts, beside one for each other
source."""
CONTRACTS = 300
"""How many contracts are asked about, and how many are read as objects."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sources = [measure(cases) for cases in load(options.data).values()]
    locales = [locale for locale in WORDS if locale not in KEPT_APART]
    generated = [one for locale in locales for one in answers(locale, 40, "train", wrong=0.25)]
    agreed = [
        *contract_questions(CONTRACTS, "train", wrong=0.25, seed=7),
        *contract_objects(CONTRACTS, "train", wrong=0.25, seed=7),
    ]
    weights = fit(
        [
            *sources,
            *[measure_answers(generated)] * GENERATED,
            *[measure_answers(agreed)] * GENERATED,
        ]
    )
    data = {
        "source": SOURCE,
        "base_rate": BASE_RATE,
        "bias": round(weights.bias + math.log(BASE_RATE / (1 - BASE_RATE)), 3),
        "weights": {name: round(value, 3) for name, value in weights.weights.items()},
        "means": {name: round(value, 3) for name, value in weights.means.items()},
    }
    path = options.out / "extraction.json"
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
