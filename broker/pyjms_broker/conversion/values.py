"""The values in Spring's texts: placeholders `${...}`, and simple expressions `#{...}`.

Of the expression language those parts are evaluated that need no Java object: look-ups of
`systemEnvironment`, `systemProperties`, `environment` and `T(System)`, literals, `+ - * /`,
comparisons, `?:` and `? :`. Everything else is an error, whose text has nothing of the expression:
that may contain a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from pyjms.errors import ConfigurationException

_PLACEHOLDER: Final = re.compile(r"\$\{([^${}]+)\}")
_EXPRESSION: Final = re.compile(r"#\{([^{}]*)\}")
_MAX_ROUNDS: Final = 20
_MAX_LENGTH: Final = 65_536
_DIRECTORIES: Final = ("home", "base", "conf", "data")


class Placeholders:
    """Values of placeholders and expressions, and the files that they name.

    Order of look-up: values given by the caller, properties files, environment variables of the
    same name. For ActiveMQ's directories then the variables of its scripts (ACTIVEMQ_BASE) or the
    usual places: `activemq.conf` is the directory of the XML file, `activemq.base` is its parent if
    the directory is named `conf`, and `activemq.data` is `data` in `activemq.base`.

    With `new_base`, that is `activemq.base`; files below it that only the old one has are named
    where they are.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        environ: Mapping[str, str],
        conf: Path,
        new_base: Path | None = None,
    ) -> None:
        self._given = given if new_base is None else {**given, "activemq.base": str(new_base)}
        self._environ = environ
        self._properties: dict[str, str] = {}
        self._depth = 0
        """The number of expressions that are being evaluated, each within another's value."""
        self._base = base = _base_of(conf)
        self._directories = {
            f"activemq.{name}": value
            for name, value in zip(_DIRECTORIES, (str(base), str(base), str(conf), ""), strict=True)
        }
        self._directories["activemq.data"] = "${activemq.base}/data"
        self._below_new_base = (
            None if new_base is None else re.compile(re.escape(f"{new_base}/") + r"([^\s?&,;()]+)")
        )

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Add the values of a properties file; they override earlier ones."""
        self._properties.update(properties)

    def resolve(self, text: str) -> str:
        """Return `text` with the values of its placeholders and expressions."""
        if "${" in text:
            text = self._replace_placeholders(text)
        if "#{" in text:
            text = _EXPRESSION.sub(lambda match: self._evaluate(match[1]), text)
        if self._below_new_base is not None:
            text = self._below_new_base.sub(self._existing_file, text)
        return text

    def is_active(self, profiles: str) -> bool:
        """Return whether one of Spring's profiles is active: `a, !b`."""
        active = self._look_up("spring.profiles.active")
        if active is None:
            active = self._environ.get("SPRING_PROFILES_ACTIVE", "default")
        names = {each.strip() for each in active.split(",")}
        wanted = re.split(r"[,;\s]+", profiles.strip())
        return any((each.lstrip("!") in names) != each.startswith("!") for each in wanted)

    def _existing_file(self, match: re.Match[str]) -> str:
        old = self._base / match[1]
        is_old = exists(old) and old.is_file() and not exists(Path(match[0]))
        return str(old) if is_old else match[0]

    def _replace_placeholders(self, text: str) -> str:
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

    def _look_up_in(self, map_name: str, key: str) -> str | None:
        """Return a value of one of Spring's maps."""
        if map_name == "environment":
            found = self._look_up(key)
        elif key in self._given or map_name == "systemEnvironment":
            found = self._given.get(key, self._environ.get(key))
        else:
            found = self._look_up(key) if key in self._directories else None
        return None if found is None else self.resolve(found)

    def _evaluate(self, text: str) -> str:
        if self._depth >= _MAX_ROUNDS:
            raise ConfigurationException("its expressions refer to each other endlessly")
        self._depth += 1
        try:
            return _value_text(_Expression(text, self._look_up_in).value())
        except (ArithmeticError, ValueError) as error:  # too many digits, too large a number
            raise _not_evaluated() from error
        finally:
            self._depth -= 1


def exists(path: Path) -> bool:
    """Return whether there is such a file; False for a name that no file can have."""
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False


def file_path(text: str, directory: Path) -> Path:
    """Return the path of a Spring resource: `file:conf/x`, `classpath:x` or `x`."""
    for prefix in ("file:", "classpath*:", "classpath:", "url:"):
        text = text.removeprefix(prefix)
    if text.startswith("//"):
        text = "/" + text.lstrip("/")
    return directory / text


def find_file(text: str, directory: Path) -> Path:
    """Return the file of a Spring resource that is relative to ActiveMQ's `conf` or its parent."""
    found, below_base = (file_path(text, each) for each in (directory, _base_of(directory)))
    return below_base if not exists(found) and exists(below_base) else found


def _base_of(conf: Path) -> Path:
    return conf.parent if conf.name == "conf" else conf


_Value: TypeAlias = str | int | float | bool | None
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?P<number>\d+(?:\.\d+)?)[lLdDfF]?\b"""
    r"""|(?P<sign>\?:|==|!=|[-?:+*/()\[\].,])|(?P<name>T\s*\(\s*[\w.]+\s*\)|@?\w+))"""
)
_WORDS: Final[Mapping[str, _Value]] = {"null": None, "true": True, "false": False}
_MAPS: Final = {
    "systemEnvironment": "systemEnvironment",
    "systemProperties": "systemProperties",
    "environment": "environment",
}
_METHOD_MAPS: Final = {"getenv": "systemEnvironment", "getProperty": "systemProperties"}
_SYSTEM: Final = frozenset({"T(System)", "T(java.lang.System)"})
_MAX_NESTING: Final = 20


def _not_evaluated() -> ConfigurationException:
    return ConfigurationException(
        "its Spring expression #{...} is not evaluated", hint="write the value in its place"
    )


class _Expression:
    """Evaluates an expression while it reads it: nothing in it has side effects."""

    def __init__(self, text: str, look_up: Callable[[str, str], str | None]) -> None:
        self._look_up = look_up
        self._tokens: list[tuple[str, str]] = []
        self._nesting = 0
        self._missing = ""
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise _not_evaluated()
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self._tokens.reverse()

    def value(self) -> str | int | float | bool:
        """Return the value."""
        value = self._conditional()
        if self._tokens:
            raise _not_evaluated()
        if value is None:
            raise ConfigurationException(
                f"its Spring expression has no value: {self._missing or 'null'}",
                hint="set it when you convert the file, or write the value in its place",
            )
        return value

    def _conditional(self) -> _Value:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise _not_evaluated()
        value = self._comparison()
        if self._accept("?:"):
            other = self._conditional()
            value = other if value is None or value == "" else value
        elif self._accept("?"):
            first = self._conditional()
            self._expect(":")
            second = self._conditional()
            value = first if value else second
        self._nesting -= 1
        return value

    def _comparison(self) -> _Value:
        left = self._sum()
        if self._accept("=="):
            return left == self._sum()
        if self._accept("!="):
            return left != self._sum()
        return left

    def _sum(self) -> _Value:
        left = self._product()
        while sign := self._accept("+", "-"):
            right = self._product()
            if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
                left = f"{_value_text(left)}{_value_text(right)}"
            else:
                numbers = _number(left), _number(right)
                left = numbers[0] + (numbers[1] if sign == "+" else -numbers[1])
        return left

    def _product(self) -> _Value:
        left = self._single()
        while sign := self._accept("*", "/"):
            first, second = _number(left), _number(self._single())
            if sign == "*":
                left = first * second
            elif not second:
                raise _not_evaluated()
            elif isinstance(first, int) and isinstance(second, int):
                left = first // second if first * second >= 0 else -(-first // second)
            else:
                left = first / second
        return left

    def _single(self) -> _Value:
        signs = 0
        while self._accept("-"):
            signs += 1
        if signs:
            number = _number(self._single())
            return -number if signs % 2 else number
        if self._accept("("):
            value = self._conditional()
            self._expect(")")
            return value
        kind, text = self._next()
        if kind == "text":
            return text[1:-1].replace(text[0] * 2, text[0])
        if kind == "number":
            return float(text) if "." in text else int(text)
        if text in _WORDS:
            return _WORDS[text]
        return self._look_up_name(text.replace(" ", "").removeprefix("@"))

    def _look_up_name(self, name: str) -> _Value:
        """Return `systemEnvironment['X']`, `systemProperties.x`, `T(System).getenv('X')` ..."""
        if name not in _MAPS and name not in _SYSTEM:
            raise _not_evaluated()
        map_name, default = name, None
        if name in _MAPS and self._accept("["):
            key = self._next()[1].strip("'\"")
            self._expect("]")
        else:
            self._expect(".")
            key = self._next()[1]
            if self._accept("("):
                map_name = _METHOD_MAPS.get(key, name) if name in _SYSTEM else name
                key = self._next()[1].strip("'\"")
                if self._accept(","):
                    default = self._conditional()
                self._expect(")")
            elif name in _SYSTEM:
                raise _not_evaluated()
        found = self._look_up(map_name, key)
        if found is None and default is None:
            self._missing = f"{map_name}['{key}']"
        return default if found is None else found

    def _next(self) -> tuple[str, str]:
        if not self._tokens:
            raise _not_evaluated()
        return self._tokens.pop()

    def _accept(self, *signs: str) -> str:
        """Return the next sign if it is one of these, and go on; "" otherwise."""
        if self._tokens and self._tokens[-1][0] == "sign" and self._tokens[-1][1] in signs:
            return self._tokens.pop()[1]
        return ""

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise _not_evaluated()


def _value_text(value: _Value) -> str:
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _number(value: _Value) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_evaluated()
    return value
