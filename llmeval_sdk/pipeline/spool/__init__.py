"""Keeps records that outlive their process, in one folder with a memory-mapped file per process.

This room knows bytes and plain values only; the pipeline knows what they mean.
"""

from llmeval_sdk.pipeline.spool._folder import (
    Folder,
    SpoolError,
    SpoolFile,
    children_folder,
    children_of,
)
from llmeval_sdk.pipeline.spool._reader import Unreadable, read
from llmeval_sdk.pipeline.spool._ring import SLOT, Place, Ring, Torn


__all__ = [
    "SLOT", "Folder", "Place", "Ring", "SpoolError", "SpoolFile", "Torn", "Unreadable",
    "children_folder", "children_of", "read",
]  # fmt: skip
