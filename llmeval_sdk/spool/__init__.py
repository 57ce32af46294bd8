"""Records that outlive their process: memory-mapped files of slots, one a process, in one folder.

Knows bytes and plain values; what they mean is the pipeline's business.
"""

from llmeval_sdk.spool._folder import CHILDREN, Folder, SpoolError, SpoolFile, children_folder
from llmeval_sdk.spool._reader import Unreadable, read
from llmeval_sdk.spool._ring import SLOT, Place, Ring, Torn


__all__ = [
    "CHILDREN",
    "SLOT",
    "Folder",
    "Place",
    "Ring",
    "SpoolError",
    "SpoolFile",
    "Torn",
    "Unreadable",
    "children_folder",
    "read",
]
