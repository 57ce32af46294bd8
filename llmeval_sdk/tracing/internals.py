"""What the other rooms of the package use of this one; apps do not need it.

Other rooms reach what apps do not see of a span by these names, and by those attributes of `Span`
that have no underscore.
"""

from llmeval_sdk.tracing._annotate import contexts_around, inherit_late, is_off, off, read_ids
from llmeval_sdk.tracing._capture import capture
from llmeval_sdk.tracing._finished import (
    adopted,
    leave_to_owner,
    settle,
    span_data,
    without_content,
)
from llmeval_sdk.tracing._media import marked
from llmeval_sdk.tracing._portable import from_plain, to_plain
from llmeval_sdk.tracing._scope import Scope
from llmeval_sdk.tracing._span import Link, Spec
from llmeval_sdk.tracing._state import Recorder, State, current, deliver, install, recorder, state
from llmeval_sdk.tracing.ids import new_span_id, new_trace_id


__all__ = [
    "Link", "Recorder", "Scope", "Spec", "State", "adopted", "capture", "contexts_around",
    "current", "deliver", "from_plain", "inherit_late", "install", "is_off", "leave_to_owner",
    "marked", "new_span_id", "new_trace_id", "off", "read_ids", "recorder", "settle", "span_data",
    "state", "to_plain", "without_content",
]  # fmt: skip
