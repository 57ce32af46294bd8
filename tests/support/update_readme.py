"""Write the settings table of `config` into README.md: ``make readme``."""

import pathlib

from llmeval_sdk import config


path = pathlib.Path(__file__).parent.parent.parent / "README.md"
head, rest = path.read_text().split("checked by a test -->\n")
_, tail = rest.split("<!-- end of settings -->")
path.write_text(f"{head}checked by a test -->\n{config.table()}<!-- end of settings -->{tail}")
