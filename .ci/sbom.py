"""Finish the bill of materials of cyclonedx-py: with the data in the wheel, without addresses.

    cyclonedx-py environment … | python3 .ci/sbom.py > sbom.cdx.json

Addresses of components differ between indices and are left out; a component's purl names it.
"""

import json
import re
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
CODES = ROOT / "llmeval_sdk" / "text" / "data" / "codes.json"


def data() -> dict[str, object]:
    """Return the component for the words of other languages, which come from CLDR by Babel."""
    source = json.loads(CODES.read_text("utf-8"))["source"]
    version = re.search(r"Babel ([\d.]+)", source)[1]
    return {
        "bom-ref": "cldr",
        "type": "data",
        "name": "Unicode CLDR",
        "version": f"as in Babel {version}",
        "description": "names of currencies, countries, languages, units and months, in"
        " llmeval_sdk/text/data",
        "licenses": [{"license": {"id": "Unicode-3.0"}}],
    }


def without_addresses(value: object) -> object:
    """Return plain values without external references."""
    if isinstance(value, list):
        return [without_addresses(one) for one in value]
    if isinstance(value, dict):
        return {
            name: without_addresses(one)
            for name, one in value.items()
            if name != "externalReferences"
        }
    return value


def main() -> None:
    """Read the bill from standard input and write it to standard output."""
    bill = without_addresses(json.load(sys.stdin))
    bill["components"].append(data())
    print(json.dumps(bill, indent=1, sort_keys=True, ensure_ascii=False))


if __name__ == "__main__":
    main()
