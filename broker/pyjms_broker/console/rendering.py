"""Rendering of templates, with headers that exclude foreign scripts.

The pages contain untrusted data of clients (bodies, properties, client ids, names). Templates
escape everything, and the policy in the headers permits only the console's script files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import DictLoader, Environment, StrictUndefined
from starlette.responses import HTMLResponse

from pyjms_broker.console.assets import TEMPLATES, asset_version
from pyjms_broker.console.chart import rate_text

__all__ = ["BASE", "SECURITY_POLICY", "link", "render"]

BASE: Final = "/admin"
SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"content-security-policy": SECURITY_POLICY, "cache-control": "no-store"}


def link(page: str, /, **query: object) -> str:
    """Return the URL of a page, omitting empty values and False."""
    given = {name: value for name, value in query.items() if value not in ("", None, False)}
    given = {name: 1 if value is True else value for name, value in given.items()}
    return f"{BASE}/{page}" + (f"?{urlencode(given)}" if given else "")


def _bytes_text(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def _number(value: float) -> str:
    return f"{value:,}"


def _environment() -> Environment:
    environment = Environment(
        loader=DictLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "bytes": _bytes_text, "rate": rate_text}
    environment.globals |= {"link": link, "base": BASE, "asset_version": asset_version()}
    environment.globals["ui"] = environment.get_template("macros.html").module
    return environment


_ENVIRONMENT: Final = _environment()


def render(
    template: str, values: Mapping[str, Any], *, only_live: bool = False, status: int = 200
) -> HTMLResponse:
    """Render a page; `only_live`: only the part that is reloaded while the page is open."""
    found = _ENVIRONMENT.get_template(template)
    if only_live:
        text = "".join(found.blocks["live"](found.new_context(dict(values))))
    else:
        text = found.render(values)
    return HTMLResponse(text, status, _HEADERS)
