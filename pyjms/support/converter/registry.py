"""Message converters of installed packages, by content type.

A package adds a converter with an entry point in the group `pyjms.converters`: its name is a
content type, its object a converter, or a class or function without arguments that returns one.

    [project.entry-points."pyjms.converters"]
    "application/cbor" = "pyjms_cbor:CborMessageConverter"

A message's content type is in its property `content_type` (the header `contentType` in handlers).
Installed packages are scanned when the first such message arrives, a converter is loaded when its
content type is first used, and one instance serves the whole process.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from pyjms.errors import ConfigurationException, MessageConversionException
from pyjms.jms.message import Message
from pyjms.runtime.distribution import entry_points
from pyjms.support.converter.base import MessageConverter
from pyjms.support.headers import CONTENT_TYPE_PROPERTY

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "content_type_of",
    "find_converter",
    "forget_installed",
    "installed_content_types",
    "normalized",
    "require_converter",
]

GROUP: Final = "pyjms.converters"

_CONTENT_TYPE: Final = re.compile(r"[a-z0-9][\w.+-]*/[a-z0-9][\w.+-]*", re.ASCII)


def content_type_of(message: Message) -> str | None:
    """Return the content type of `message` or None, in lower case and without parameters."""
    value = message.properties.get(CONTENT_TYPE_PROPERTY)
    return normalized(value) if isinstance(value, str) else None


def normalized(content_type: str) -> str:
    """Return a content type in lower case and without parameters such as `; charset=UTF-8`."""
    return content_type.partition(";")[0].strip().lower()


def installed_content_types() -> list[str]:
    """Return the content types for which installed packages have converters, sorted."""
    return sorted(_installed())


def find_converter(content_type: str) -> MessageConverter | None:
    """Return the installed converter for a content type; None if there is none.

    Raises:
        ConfigurationException: its entry point is broken, or two packages provide one.
    """
    return _load(content_type) if content_type in _installed() else None


def require_converter(content_type: str) -> MessageConverter:
    """Return the installed converter for a content type.

    Raises:
        ConfigurationException: its entry point is broken, or two packages provide one.
        MessageConversionException: there is no such converter.
    """
    converter = find_converter(normalized(content_type))
    if converter is None:
        known = ", ".join(installed_content_types()) or "none"
        raise MessageConversionException(
            f"There is no message converter for the content type {content_type!r}",
            content_type=content_type,
            hint=f"install a package with an entry point {GROUP!r} for it; installed: {known}",
        )
    return converter


def forget_installed() -> None:
    """Scan the installed packages again at the next use."""
    _installed.cache_clear()
    _load.cache_clear()


@functools.cache
def _installed() -> dict[str, list[EntryPoint]]:
    """Return the entry points of the group by content type."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name.lower(), []).append(point)
    return found


@functools.cache
def _load(content_type: str) -> MessageConverter:
    points = _installed()[content_type]
    if len(points) > 1:
        raise ConfigurationException(
            f"There are {len(points)} message converters for the content type {content_type!r}: "
            + ", ".join(map(_describe, points)),
            hint="uninstall all but one of these packages",
        )
    point = points[0]
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise _broken(point, f"{point.name!r} is not a content type such as 'application/cbor'")
    try:
        converter = point.load()
        if isinstance(converter, type) or not isinstance(converter, MessageConverter):
            converter = converter()
    except Exception as error:
        raise _broken(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(converter, MessageConverter):
        raise _broken(
            point, f"a {type(converter).__name__} lacks the methods to_message and from_message"
        )
    return converter


def _broken(point: EntryPoint, reason: str) -> ConfigurationException:
    return ConfigurationException(
        f"The message converter {_describe(point)} cannot be used: {reason}",
        hint="fix the package, or uninstall it",
    )


def _describe(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of {point.dist.name} {point.dist.version}"
    return f"{point.value}{package} (entry point {GROUP!r}, {point.name!r})"
