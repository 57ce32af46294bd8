"""The demo app: field extraction over the documents of the installed distributions."""

from llmeval_sdk.demo.run import main


__all__ = ["main"]
