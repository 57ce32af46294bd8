"""Templates: everything is escaped, and every link stands below where the app is mounted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from llmeval_sdk.viewer import _format


TEMPLATES = Environment(
    loader=PackageLoader("llmeval_sdk.viewer"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_format.visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {
    "breakable": _format.breakable,
    "clock": _format.clock,
    "day": _format.day,
    "duration": _format.duration,
    "money": _format.money,
    "estimated": _format.estimated,
    "number": _format.number,
    "preview": _format.preview,
    "utc": _format.utc,
}


def page(request: Request, template: str, status: int = 200, **given: Any) -> HTMLResponse:
    """Render a template for a request."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    site = request.app.state.site
    whole = TEMPLATES.get_template(template).render(
        url=partial(url, root), site=site, here=request.url.path.removeprefix(root), **given
    )
    return HTMLResponse(whole, status)


def url(root: str, path: str, query: Mapping[str, Any] | None = None) -> str:
    """Return the address of a page; what is ``None`` or empty is left out of its query."""
    given = {key: value for key, value in (query or {}).items() if value not in (None, "", [])}
    return f"{root}{path}{'?' + urlencode(given, doseq=True, errors='replace') if given else ''}"
