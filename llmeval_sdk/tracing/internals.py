"""The names of this room for the other rooms of the package; apps do not need them.

Other rooms use these names and the attributes of `Span` that have no underscore, and nothing else.
"""

from llmeval_sdk.tracing._capture import Room, capture, keep_images, marked, new_room, used
from llmeval_sdk.tracing._context import contexts_around, inherit_late, is_off, off, read_ids
from llmeval_sdk.tracing._finished import (
    adopted,
    from_plain,
    roll_up,
    settle,
    span_data,
    to_plain,
    without_content,
)
from llmeval_sdk.tracing._scope import Scope
from llmeval_sdk.tracing._span import (
    Link,
    Recorder,
    Spec,
    State,
    current,
    deliver,
    install,
    recorder,
    state,
)
from llmeval_sdk.tracing.ids import new_span_id, new_trace_id


__all__ = [
    "Link", "Recorder", "Room", "Scope", "Spec", "State", "adopted", "capture", "contexts_around",
    "current", "deliver", "from_plain", "inherit_late", "install", "is_off", "keep_images",
    "marked", "new_room", "new_span_id", "new_trace_id", "off", "read_ids", "recorder", "roll_up",
    "settle", "span_data", "state", "to_plain", "used", "without_content",
]  # fmt: skip
