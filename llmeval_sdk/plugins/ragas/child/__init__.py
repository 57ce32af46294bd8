"""A helper process of ours: a plain subprocess that speaks JSON lines over a local socket.

It loads this package by its path into any interpreter, so nothing of the app comes along: no
pickle, no second run of the app's main module, no bootstrap of other tools. Processes that ask for
the same child share it. What the child does is said by a handler, see `serve`.
"""

from llmeval_sdk.plugins.ragas.child._client import Child, child
from llmeval_sdk.plugins.ragas.child._spec import ChildSpec, interpreter


__all__ = ["Child", "ChildSpec", "child", "interpreter"]
