"""Parser of Java's properties files, like `java.util.Properties.load`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException

_LIMIT: Final = 16 << 20
"""The maximum size of a file in bytes."""
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_PAIR: Final = re.compile(r"((?:\\.|[^\\:=\s])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Read a file. Blocks."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationException(
            f"{path} cannot be read: {reason}",
            hint="check the path, which is relative to the working directory, and its permissions",
        ) from error
    if len(data) > _LIMIT:
        raise ConfigurationException(f"{path} is larger than {_LIMIT >> 20} MiB")
    return parse_properties(data.decode("latin-1"))


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties; the last of several values of a key is used."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            found[_unescape(pair[1])] = _unescape(pair[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines except for comments and blank ones, joining continued lines."""
    continued: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued.append(line[:-1])
            continue
        yield "".join((*continued, line))
        continued = []
    if any(continued):
        yield "".join(continued)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(_replacement, text)
    # \ud83d\ude00 is one character; half of one cannot be encoded
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _replacement(escape: re.Match[str]) -> str:
    name = escape[1]
    if len(name) > 1:
        return chr(int(name[1:], 16))
    return _CONTROLS.get(name, name)
