"""How one row of a table of settings is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any


def setting(
    default: Any,
    *env: str,
    read: Callable[[str], Any] = str,
    doc: str,
    form_of: str | None = None,
    in_experiment: str | None = None,
) -> Any:
    """Declare a setting as a field of a dataclass.

    Args:
        default: its value where nothing sets it.
        env: the variables that set it; of several that are set, the first one wins.
        read: makes a value of the text, or raises ``ValueError`` with what it expected.
        doc: what it is for: a sentence or two, for the reference.
        form_of: the setting of which this is a form for spans or for scores alone, as the
            OpenTelemetry specification has them. The reference shows it in the row of that setting.
        in_experiment: what an offline experiment sets it to, so that its records stand apart from
            the app's: ``{name}`` stands for the name of the experiment.
    """
    metadata = {
        "env": env,
        "read": read,
        "doc": doc,
        "form_of": form_of,
        "in_experiment": in_experiment,
    }
    return field(default=default, metadata=metadata)
