"""Prints the settings as Markdown: ``python -m llmeval_sdk.config``."""

import sys

from llmeval_sdk.config import table


sys.stdout.write(table())
