r"""`${NAME}` and `${NAME:default}` in configuration texts.

A name is looked up in the environment, then among the configuration's keys
(`jms.client_id`, `app.region`), then below `app` (`region`). If a text is a single placeholder, the
result has the type of its value. `\${` is a literal `${`. (Spring: property placeholders)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms.configuration.document import Document, Path, Problems
from pyjms.errors import ConfigurationException

_MAX_DEPTH: Final = 20
_MAX_LENGTH: Final = 65_536
_MISSING: Final = object()


class UnknownPlaceholder(ConfigurationException):
    """There is neither a variable nor a key with the name, nor a default."""


class Placeholders:
    """Resolves placeholders against an environment and configuration values."""

    def __init__(self, values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._values = _flat(values)
        self._environ = environ

    def resolve(self, text: str) -> str:
        """Return `text` with its placeholders replaced."""
        return _text(self.value(text))

    def value(self, text: str) -> object:
        """Resolve `text`; if it is a single placeholder, return the value with its type."""
        return self._value(text, ())

    def _value(self, text: str, names: tuple[str, ...]) -> object:
        if "${" not in text:
            return text
        if text.startswith("${") and _end(text, 0) == len(text):
            return self._placeholder(text[2:-1], names)
        pieces: list[str] = []
        position = 0
        while (start := text.find("${", position)) >= 0:
            if start and text[start - 1] == "\\":
                pieces.append(f"{text[position : start - 1]}${{")
                position = start + 2
                continue
            end = _end(text, start)
            pieces.append(text[position:start])
            pieces.append(_text(self._placeholder(text[start + 2 : end - 1], names)))
            position = end
            if sum(map(len, pieces)) > _MAX_LENGTH:
                raise ConfigurationException(
                    f"${{...}} expands to more than {_MAX_LENGTH} characters"
                )
        return "".join((*pieces, text[position:]))

    def _placeholder(self, inner: str, names: tuple[str, ...]) -> object:
        raw, default = _split(inner)
        name = _text(self._value(raw, names))
        if name in names or len(names) == _MAX_DEPTH:
            chain = " -> ".join((*names, name))
            raise ConfigurationException(
                f"${{{name}}} refers to itself: {chain}", hint="write the value of one of them out"
            )
        found = self._look_up(name)
        if found is _MISSING:
            if default is None:
                raise UnknownPlaceholder(
                    f"${{{name}}} is unknown",
                    hint=f"set the environment variable {name} or a key of that name, "
                    f"or give a default: ${{{name}:default}}",
                )
            found = default
        return self._value(found, (*names, name)) if isinstance(found, str) else found

    def _look_up(self, name: str) -> object:
        if name in self._environ:
            # Values of environment variables are literal.
            return self._environ[name].replace("${", "\\${")
        for key in (name, f"app.{name}"):
            if key in self._values:
                return self._values[key]
        return _MISSING


def expand(document: Document, environ: Mapping[str, str], problems: Problems) -> Document:
    """Return `document` with all placeholders replaced, and `ENC(...)` decrypted.

    Texts that cannot be replaced or decrypted stay unchanged, and are added to `problems`.
    """
    placeholders = Placeholders(document.values, environ)

    def expand_value(value: object, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: expand_value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [expand_value(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            found = placeholders.value(value)
            if isinstance(found, str) and found.startswith("ENC("):
                from pyjms.configuration import encryption  # noqa: PLC0415 - few have such values

                if encryption.is_encrypted(found):
                    return encryption.decrypt(found, environ)
            return found
        except ConfigurationException as error:
            if isinstance(error, UnknownPlaceholder) and problems.lacks_files:
                problems.mark(path)
            else:
                problems.add_at(path, document.problem(path, error.reason, error.hint))
            return value

    return Document(expand_value(document.values, ()), document.origins)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            flat[f"{prefix}{key}"] = value
    return flat


def _end(text: str, start: int) -> int:
    """Return the position after the `}` that closes the `${` at `start`."""
    depth = 0
    position = start
    while position < len(text):
        if text.startswith("${", position):
            depth += 1
            position += 2
            continue
        if text[position] == "}":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    raise ConfigurationException(
        f"{text[start:]!r} lacks a closing }}", hint=r"a literal ${ is written \${"
    )


def _split(inner: str) -> tuple[str, str | None]:
    """Return name and default; a `:` inside a placeholder in the name does not count."""
    depth = 0
    for position, character in enumerate(inner):
        if inner.startswith("${", position):
            depth += 1
        elif character == "}":
            depth -= 1
        elif character == ":" and depth == 0:
            return inner[:position].strip(), inner[position + 1 :]
    return inner.strip(), None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
