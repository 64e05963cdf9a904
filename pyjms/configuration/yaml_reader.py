"""Reading a strict YAML file.

Scalars are read as in YAML 1.2. If YAML 1.1, which most Python tools use, reads a value differently
(`no`, `012`, `1_000`, `12:30`), the reader rejects it and names both meanings. Keys are always
text. Repeated keys, tags and merge keys are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from pyjms.configuration.document import Document, Origin, Path, Problems
from pyjms.errors import ConfigurationException

MAX_VALUES: Final = 100_000
"""The maximum number of values in a file; aliased values count each time."""

_PLAIN: Final[tuple[tuple[re.Pattern[str], Callable[[str], object]], ...]] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _text: None),
    (re.compile(r"true|True|TRUE"), lambda _text: True),
    (re.compile(r"false|False|FALSE"), lambda _text: False),
    (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), int),
    (re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+"), lambda text: int(text, 0)),
    (
        re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.?)(?:[eE][-+]?[0-9]+)?"),
        float,
    ),
    (
        re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        lambda text: float(text.replace(".", "")),
    ),
)  # fmt: skip

_AMBIGUOUS: Final = (
    (
        re.compile(r"(?:yes|no|on|off)", re.IGNORECASE),
        "is a boolean to YAML 1.1 and text to YAML 1.2; write true or false, or '{0}' in quotes",
    ),
    (
        re.compile(r"[-+]?0[0-9_]+|0b[01_]+"),
        "is another number to YAML 1.1 than to YAML 1.2; write no leading 0, or '{0}' in quotes",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?"),
        "is a number to YAML 1.1 and text to YAML 1.2; write it without _, or '{0}' in quotes",
    ),
    (
        re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"),
        "is a number of seconds to YAML 1.1 and text to YAML 1.2; write '{0}' in quotes",
    ),
)


def is_plain_text(text: str) -> bool:
    """Return whether a text without quotes is read as this text, by YAML 1.1 and 1.2."""
    patterns = (pattern for pattern, _ in (*_PLAIN, *_AMBIGUOUS))
    return not any(pattern.fullmatch(text) for pattern in patterns)


_STRING_TAG = "tag:yaml.org,2002:str"


_MAX_DEPTH = 100


class _PlainLoader(yaml.SafeLoader):
    """Composes nodes without resolving the types of scalars."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - a class attribute of PyYAML
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, unless it is nested too deeply: otherwise PyYAML exhausts the stack."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            mark = None if parent is None else parent.start_mark
            raise yaml.composer.ComposerError(None, None, "the value is nested too deeply", mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def read_yaml(path: FilePath, problems: Problems) -> Document:
    """Read a file, and return what is strict YAML in it; add what is not to `problems`. Blocks."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _unreadable(Origin(str(path)), f"the file cannot be read: {error}", problems)
    return parse_yaml(text, str(path), problems)


def parse_yaml(text: str, source: str, problems: Problems) -> Document:
    """Return the valid values of `text`, whose origin is `source`; add problems to `problems`.

    If the text is empty, so is the document.
    """
    try:
        node = yaml.compose(text, Loader=_PlainLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Origin(source, mark.line + 1 if mark else None)
        return _unreadable(where, str(error.problem), problems)
    except yaml.YAMLError as error:
        return _unreadable(Origin(source), f"the file cannot be read as YAML: {error}", problems)
    if node is None:
        return Document()
    converter = _Converter(source, problems)
    try:
        values = converter.value(node, ())
    except _TooManyValues as error:
        return _unreadable(Origin(source, error.line), str(error), problems)
    if values is None:
        return Document()
    if not isinstance(values, dict):
        reason = "the file must have keys with values, such as `jms:`"
        return _unreadable(Origin(source, 1), reason, problems)
    return Document(values, converter.origins)


def _unreadable(origin: Origin, reason: str, problems: Problems) -> Document:
    """Add the problem of an unreadable file, and return an empty document."""
    problems.lacks_files = True
    problems.add(_error(origin, reason))
    return Document()


class _TooManyValues(Exception):
    """The file has more than MAX_VALUES values."""

    def __init__(self, line: int | None) -> None:
        super().__init__(f"the file has more than {MAX_VALUES} values")
        self.line = line


class _Converter:
    """Converts nodes to values; invalid nodes become problems, without ending the conversion."""

    def __init__(self, source: str, problems: Problems) -> None:
        self.origins: dict[Path, Origin] = {(): Origin(source, 1)}
        self._source = source
        self._problems = problems
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _TooManyValues(self._origin(node).line)
        self.origins.setdefault(path, self._origin(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._refuse(node, "an alias refers to the value that contains it", path)
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "a key must be a string")
                continue
            key = str(key_node.value)
            if key == "<<":
                reason = "merge keys are not supported; use profiles or aliases"
                self._refuse(key_node, reason)
                continue
            inner = (*path, key)
            if key in values:
                first = self.origins[inner].line
                reason = f"the key {key!r} is repeated; it is first set in line {first}"
                self._refuse(key_node, reason)
                continue
            self.origins[inner] = self._origin(key_node)
            values[key] = self.value(value_node, inner)
        return values

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = str(node.value)
        if node.tag not in {_STRING_TAG, "!"}:
            self._refuse(node, f"the tag {node.tag!r} is not supported", path)
            return text
        if node.style is not None:
            return text
        for pattern, reason in _AMBIGUOUS:
            if pattern.fullmatch(text):
                self._refuse(node, f"{text} {reason.format(text)}", path)
                return text
        for pattern, read in _PLAIN:
            if pattern.fullmatch(text):
                try:
                    return read(text)
                except ValueError:  # Python limits the digits of an int
                    self._refuse(node, f"a number of {len(text)} characters is too long", path)
        return text

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self._source, node.start_mark.line + 1)

    def _refuse(self, node: yaml.Node, reason: str, path: Path = ()) -> None:
        """Add a problem; if it concerns the value at `path`, later checks ignore that value."""
        self._problems.add(_error(self._origin(node), reason))
        if path:
            self._problems.mark(path)


def _error(origin: Origin, reason: str) -> ConfigurationException:
    return ConfigurationException(f"{origin}: {reason}", source=origin.source, line=origin.line)
