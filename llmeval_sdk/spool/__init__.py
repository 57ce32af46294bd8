"""Records that outlive their process: memory-mapped files of slots, one a process, in one folder.

Knows bytes and plain values; what they mean is the pipeline's business.
"""

from llmeval_sdk.spool._folder import Folder, SpoolError, SpoolFile, children_folder, children_of
from llmeval_sdk.spool._reader import Unreadable, read
from llmeval_sdk.spool._ring import SLOT, Place, Ring, Torn


__all__ = [
    "SLOT",
    "Folder",
    "Place",
    "Ring",
    "SpoolError",
    "SpoolFile",
    "Torn",
    "Unreadable",
    "children_folder",
    "children_of",
    "read",
]
