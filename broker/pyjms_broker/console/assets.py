"""Templates and static files of the pages, which are read only once."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyjms_broker.web.errors import WebError

__all__ = ["TEMPLATES", "asset", "asset_version"]

_HERE: Final = files("pyjms_broker.console")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}

TEMPLATES: Final[dict[str, str]] = {
    each.name: each.read_text(encoding="utf-8")
    for each in (_HERE / "templates").iterdir()
    if each.name.endswith(".html")
}
_ASSETS: Final[dict[str, bytes]] = {
    each.name: each.read_bytes()
    for each in (_HERE / "static").iterdir()
    if each.name.rpartition(".")[2] in _TYPES
}
_VERSION: Final = sha256(b"".join(_ASSETS[name] for name in sorted(_ASSETS))).hexdigest()[:12]


def asset_version() -> str:
    """Return the version in the files' URLs, which changes with the files, for browsers' caches."""
    return _VERSION


async def asset(request: Request) -> Response:
    """Return one of the files."""
    name = request.path_params["name"]
    content = _ASSETS.get(name)
    if content is None:
        raise WebError(404, f"The console has no file {name[:100]!r}", "reload the page")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)
