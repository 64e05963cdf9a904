"""The names of the stores' directories. (activemq-persistence K25)

ActiveMQ escapes a destination's name and uses the last 64 characters as the directory's name. That
is ambiguous: long names lose their beginning, and `#`, the escape character, is not escaped itself.
Two destinations may therefore get the same directory, and a start cannot tell whose it is.
If ActiveMQ's name is unambiguous it is used, so that both brokers can use a data directory. For
other destinations, the name consists of the beginning of the escaped name and a hash of the true
name. The store in a directory determines its destination; the directory's name only has to match.
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
    """Return the unique name of the directory for a destination's separate store."""
    escaped = _escape(destination)
    if len(escaped) <= _LONGEST_NAME and "#" not in destination.physical_name:
        return escaped
    digest = hashlib.sha256(destination.qualified_name.encode("utf-8", "surrogatepass"))
    return f"{escaped[:_BEGINNING]}#{digest.hexdigest()[:_HASH_DIGITS]}"


def activemq_name(destination: Destination) -> str:
    """Return ActiveMQ's name for the directory of a destination or pattern.

    For example `queue#3a#2f#2forders.#3e`; a long name loses its beginning. Source: ActiveMQ
    IOHelper.toFileSystemSafeName.
    """
    return _escape(destination)[-_LONGEST_NAME:]


def belongs_to(name: str, destination: Destination) -> bool:
    """Return whether a directory's name is one that the destination's separate store may have."""
    return name in (directory_name(destination), activemq_name(destination))


def store_names(directory: Path) -> list[str]:
    """Return the sorted names of directories that may hold a destination's store. Blocks."""
    return sorted(
        path.name
        for path in directory.iterdir()
        if (path.name.startswith(_PREFIXES) or len(path.name) == _LONGEST_NAME) and path.is_dir()
    )


def likely_destination(name: str) -> Destination | None:
    """Return the destination of a directory with ActiveMQ's name, unless the name was cut."""
    if not name.startswith(_PREFIXES) or len(name) >= _LONGEST_NAME:
        return None
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
    return parse_destination(text, default=Queue)


def _escape(destination: Destination) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0]):x}", destination.qualified_name)
