"""The names of the stores' directories. (activemq-persistence K25)

ActiveMQ makes a directory's name from a destination's by escaping, and keeps the last 64 characters
of it. That is ambiguous: long names lose their beginning, and `#`, which begins an escape, is not
escaped itself, so two destinations may get one directory, and a start cannot tell whose it is.
Where ActiveMQ's name is unambiguous it is used, so that a data directory goes both ways. For other
destinations the name is the beginning of the escaped one and a hash of the true name. Which
destination a directory belongs to is decided by the store in it; its name only has to agree.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from pyjms.jms.destination import Destination, Queue, parse_destination

__all__ = ["activemq_name", "belongs_to", "directory_name", "likely_destination", "store_names"]

_LONGEST_NAME: Final = 64
_BEGINNING: Final = 40
_HASH_DIGITS: Final = 24
_PREFIXES: Final = ("queue#", "topic#")
_ESCAPED: Final = re.compile(r"#([0-9a-f]{2,4}?)")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.#-]")


def directory_name(destination: Destination) -> str:
    """Return the name of the directory for a destination's own store; no other one gets it."""
    escaped = _escape(destination)
    if len(escaped) <= _LONGEST_NAME and "#" not in destination.physical_name:
        return escaped
    digest = hashlib.sha256(destination.qualified_name.encode("utf-8", "surrogatepass"))
    return f"{escaped[:_BEGINNING]}#{digest.hexdigest()[:_HASH_DIGITS]}"


def activemq_name(destination: Destination) -> str:
    """Return ActiveMQ's name for the directory of a destination or pattern.

    `queue#3a#2f#2forders.#3e`; a long name is cut at its beginning. Source: ActiveMQ
    IOHelper.toFileSystemSafeName.
    """
    return _escape(destination)[-_LONGEST_NAME:]


def belongs_to(name: str, destination: Destination) -> bool:
    """Whether a directory has one of the names that a destination's own store may have."""
    return name in (directory_name(destination), activemq_name(destination))


def store_names(directory: Path) -> list[str]:
    """Return the names of the directories that may hold a destination's store, sorted. Blocks."""
    return sorted(
        path.name
        for path in directory.iterdir()
        if (path.name.startswith(_PREFIXES) or len(path.name) == _LONGEST_NAME) and path.is_dir()
    )


def likely_destination(name: str) -> Destination | None:
    """Return the destination that ActiveMQ's name of a directory stands for if nothing was cut."""
    if not name.startswith(_PREFIXES) or len(name) >= _LONGEST_NAME:
        return None
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
    return parse_destination(text, default=Queue)


def _escape(destination: Destination) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0]):x}", destination.qualified_name)
