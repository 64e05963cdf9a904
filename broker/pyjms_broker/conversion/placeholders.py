"""Resolve Spring placeholders such as `${activemq.data}` in ActiveMQ's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException

__all__ = ["Placeholders"]

_PLACEHOLDER: Final = re.compile(r"\$\{([^${}]+)\}")
_MAX_ROUNDS: Final = 20
_MAX_LENGTH: Final = 65_536
_DIRECTORIES: Final = ("home", "base", "conf", "data")


class Placeholders:
    """Values of placeholders.

    Order of lookup: values given by the caller, properties files, environment variables of the
    same name. For ActiveMQ's directories then the variables of its scripts (ACTIVEMQ_BASE) or the
    usual places: `activemq.conf` is the directory of the XML file, `activemq.base` is its parent if
    the directory is named `conf`, and `activemq.data` is `data` in `activemq.base`.
    """

    def __init__(self, given: Mapping[str, str], environ: Mapping[str, str], conf: Path) -> None:
        self._given = given
        self._environ = environ
        self._properties: dict[str, str] = {}
        base = conf.parent if conf.name == "conf" else conf
        self._directories = {
            f"activemq.{name}": value
            for name, value in zip(_DIRECTORIES, (str(base), str(base), str(conf), ""), strict=True)
        }
        self._directories["activemq.data"] = "${activemq.base}/data"

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Add the values of a properties file; they override earlier ones."""
        self._properties.update(properties)

    def resolve(self, text: str) -> str:
        """Return `text` with its placeholders replaced.

        Raises:
            ConfigurationException: a placeholder has no value, is encrypted, or refers to itself.
        """
        for _ in range(_MAX_ROUNDS):
            replaced = _PLACEHOLDER.sub(lambda match: self._value(match[1]), text)
            if replaced == text:
                return text
            text = replaced
            if len(text) > _MAX_LENGTH:
                break
        raise ConfigurationException("its placeholders refer to each other endlessly")

    def _value(self, inner: str) -> str:
        name, mark, default = inner.partition(":")
        name = name.strip()
        found = self._look_up(name)
        if found is None and mark:
            return default
        if found is None:
            raise ConfigurationException(
                f"${{{name}}} has no value", hint=f"give one: -D {name}=VALUE, or --properties FILE"
            )
        if found.startswith("ENC("):
            raise ConfigurationException(
                f"${{{name}}} has an encrypted value",
                hint=f"decrypt it with ActiveMQ's `activemq decrypt`, and give it: -D {name}=VALUE",
            )
        return found

    def _look_up(self, name: str) -> str | None:
        script_variable = name.upper().replace(".", "_")
        for values, key in (
            (self._given, name),
            (self._properties, name),
            (self._environ, name),
            (self._environ, script_variable if name in self._directories else name),
            (self._directories, name),
        ):
            if key in values:
                return values[key]
        return None
