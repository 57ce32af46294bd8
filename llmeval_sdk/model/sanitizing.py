"""Sanitises texts that others wrote, so that nothing in them acts on a model unread."""

from __future__ import annotations

import re


def sanitized(text: str) -> str:
    """Take out of a text what could act on a judge without being read; its words stay."""
    if not _SUSPECT.search(text):  # most texts: one look in place of four
        return text
    text = _INVISIBLE.sub("", text).encode("utf-8", "replace").decode("utf-8")
    text = _SECTION_LINE.sub("<~<", text)
    return _TEMPLATE_TOKEN.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


_INVISIBLE_SIGNS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e01ef"  # tags and selectors that spell hidden ASCII
)
_INVISIBLE = re.compile(f"[{_INVISIBLE_SIGNS}]")
_SUSPECT = re.compile(f"[{_INVISIBLE_SIGNS}\ud800-\udfff<\\[\uff1c\ufe64\u25c1]")
"""What is taken out, what no UTF-8 has, and what a section line or a token can begin with."""
_JOINERS = "[\\s\u0300-\u036f\u200c\u200d]*"  # they stay in texts: Persian and emoji need them
_SECTION_LINE = re.compile(
    f"[<\uff1c\ufe64]{_JOINERS}[<\uff1c\ufe64](?={_JOINERS}(?:{_JOINERS.join('begin')}|{_JOINERS.join('end')}))",
    re.IGNORECASE,
)
_TEMPLATE_TOKEN = re.compile(
    r"""
    [<\[][|\uff5c]                          # <|im_start|> of most families, [|user|]
    | <</?SYS>>
    | \[/?(?:INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS|MODEL_SETTINGS|THINK|ARGS|CALL_ID
        |IMG|PREFIX|MIDDLE|SUFFIX|[GS]?MASK)\]
    | </?(?:s|bos|eos|pad|unk|sop|eop|eoh|eoa|eot|bos_token|eos_token
        |(?:start|end)_of_(?:turn|image|text|role))>
    | </?(?:\w{1,20}:)?(?:think|thinking|reasoning|scratchpad|tools?|tool_calls?|tool_uses?
        |tool_responses?|tool_results?|tool_outputs?|function|functions|function_calls?
        |function_results?|invoke)(?=[\s=/>])
    | \u25c1/?think\u25b7
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What a chat template gives a meaning of its own, by the vocabularies of the open models."""
