"""Pages made of templates, with the headers that keep foreign scripts out.

What clients send to the broker (bodies, properties, client ids, names) is on these pages: templates
escape everything, and the policy in the headers lets no script run but the console's own files.
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
    """Return the URL of a page; empty values and False are left out."""
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
    """Return a page; `only_live`: its part that is loaded again while the page is open."""
    found = _ENVIRONMENT.get_template(template)
    if only_live:
        text = "".join(found.blocks["live"](found.new_context(dict(values))))
    else:
        text = found.render(values)
    return HTMLResponse(text, status, _HEADERS)
