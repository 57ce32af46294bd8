"""Functions that are frozen between invocations: what they record is sent before they return.

AWS Lambda stops all threads of a process as soon as the handler has returned, for seconds or for
ever. `lambda_handler` and `flush_after` therefore deliver what an invocation has recorded while it
is still running, within the time that it has left. They trace nothing by themselves: decorate the
handler, or what it calls, with ``@llmeval.workflow`` as anywhere else.
"""

from llmeval_sdk.serverless._handlers import flush_after, lambda_handler


__all__ = ["flush_after", "lambda_handler"]
