"""Records that outlive their process: memory-mapped files of slots, one a process, in one folder.

Knows bytes only; what they mean is the pipeline's business.
"""

from llmeval_sdk.spool._folder import Folder, SpoolError, SpoolFile
from llmeval_sdk.spool._ring import SLOT, Place, Ring, Torn


__all__ = ["SLOT", "Folder", "Place", "Ring", "SpoolError", "SpoolFile", "Torn"]
