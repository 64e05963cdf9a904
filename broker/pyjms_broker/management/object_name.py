"""JMX object names and patterns: `domain:key=value,key=value`.

In the domain and the values of a pattern, `*` matches any characters and `?` matches one; `,*` at
the end allows additional keys. (javax.management.ObjectName; activemq-edges 7)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pyjms_broker.management.errors import MalformedObjectNameException

_LONGEST: Final = 16_384
_ESCAPES: Final = str.maketrans(
    {":": "_", ",": "_", "'": "_", '"': "_", "?": "&qe;", "=": "&amp;", "*": "&ast;"}
)


def encoded_part(text: str) -> str:
    """Encode the value of a key. Source: ActiveMQ JMXSupport.encodeObjectNamePart."""
    return text.translate(_ESCAPES)


class ObjectName:
    """The name of a view, or a pattern; the order of keys is irrelevant for equality."""

    __slots__ = ("domain", "is_open", "keys", "text")

    def __init__(self, text: str) -> None:
        """Parse a name.

        Raises:
            MalformedObjectNameException: it is not `domain:key=value,...`.
        """
        domain, colon, rest = text.partition(":")
        if not colon or not rest or len(text) > _LONGEST:
            raise _malformed_name(text, "it is not domain:key=value")
        keys: dict[str, str] = {}
        self.is_open = False
        """Whether a pattern allows additional keys, because it ends with `,*`."""
        for part in rest.split(","):
            if part == "*" and not self.is_open:
                self.is_open = True
                continue
            key, equals, value = part.partition("=")
            if not equals or not key or not value or key in keys:
                raise _malformed_name(text, f"'{part[:100]}' is not a new key=value")
            keys[key] = value
        self.text = text
        self.domain = domain
        self.keys: Mapping[str, str] = keys

    @classmethod
    def of(cls, domain: str, keys: Mapping[str, str]) -> ObjectName:
        """Return the name with these keys, whose values are already encoded."""
        return cls(f"{domain}:" + ",".join(f"{key}={value}" for key, value in keys.items()))

    @property
    def is_pattern(self) -> bool:
        """Whether it may match more than one name."""
        values = (self.domain, *self.keys.values())
        return self.is_open or any("*" in value or "?" in value for value in values)

    def matches(self, name: ObjectName) -> bool:
        """Return whether this name or pattern matches `name`, which is not a pattern."""
        if len(self.keys) > len(name.keys) or (
            not self.is_open and len(self.keys) != len(name.keys)
        ):
            return False
        if not _matches(self.domain, name.domain):
            return False
        return all(
            key in name.keys and _matches(value, name.keys[key]) for key, value in self.keys.items()
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ObjectName)
            and self.domain == other.domain
            and self.is_open == other.is_open
            and self.keys == other.keys
        )

    def __hash__(self) -> int:
        return hash((self.domain, frozenset(self.keys.items())))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ObjectName({self.text!r})"


def _matches(pattern: str, text: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == text
    return _compile(pattern).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    # atomic groups: each `*` ends at the first match of the part behind it
    parts = re.sub(r"\*+", "*", pattern).split("*")
    written = [re.escape(part).replace(r"\?", ".") for part in parts]
    if len(written) == 1:
        return re.compile(written[0], re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in written[1:-1])
    return re.compile(f"{written[0]}{middle}.*{written[-1]}", re.DOTALL)


def _malformed_name(text: str, reason: str) -> MalformedObjectNameException:
    return MalformedObjectNameException(
        f"Object name {text[:200]!r} cannot be read: {reason}",
        hint="write it as org.apache.activemq:type=Broker,brokerName=localhost",
    )
