"""The data part of a request: the texts that questions are about, by their titles."""

from __future__ import annotations

from collections.abc import Mapping

from llmeval_sdk.model.sanitizing import sanitized


class NeutralTexts(dict[str, str]):
    """Texts in which nothing can act on a model without being read."""


def neutral_texts(texts: Mapping[str, str]) -> NeutralTexts:
    """Return the texts as neutral ones; texts that are neutral already are not read again.

    That reading is a tenth of what a decision takes beside its request.
    """
    if isinstance(texts, NeutralTexts):
        return texts
    return NeutralTexts((title, sanitized(text)) for title, text in texts.items())
