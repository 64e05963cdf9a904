"""Logins by Java's login configuration: stacks of login modules. (activemq-edges SE3)

A login module is a function of a client's credentials: it returns the user, or None if it does not
apply, and raises LoginRefusedError if they are wrong. It may block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from pyjms.configuration.encryption import decrypt, is_encrypted
from pyjms.errors import ConfigurationException, JMSSecurityException
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.authentication import Authenticator, Credentials
from pyjms_broker.security.users import (
    GroupedFiles,
    UserAuthenticator,
    group_names,
    properties_users,
)

_PACKAGE: Final = "org.apache.activemq.jaas."
"""The beginning of the names of ActiveMQ's modules and of their options."""
_LIMIT: Final = 1 << 20
"""The maximum number of characters of a file."""
_TOKEN: Final = re.compile(
    r"""
    (?P<skipped> \s+ | //[^\n]* | /\*.*?\*/ )
    | "(?P<quoted> (?: [^"\\\n] | \\. )* )"
    | (?P<word> [^\s{};="]+ | [{};=] )
    """,
    re.VERBOSE | re.DOTALL,
)
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")

LoginModule: TypeAlias = Callable[[Credentials], SecurityContext | None]


class LoginRefusedError(Exception):
    """A login module has refused a client."""


class LoginUnavailableError(LoginRefusedError):
    """A login module cannot check clients at present."""


class Flag(Enum):
    """The control flag of a module. Source: Java AppConfigurationEntry."""

    REQUIRED = "required"
    """It must succeed; the later modules still run."""
    REQUISITE = "requisite"
    """It must succeed; if it fails, no later module runs."""
    SUFFICIENT = "sufficient"
    """It need not succeed; if it does, no later module runs."""
    OPTIONAL = "optional"
    """It need not succeed; the later modules still run."""


LoginStack: TypeAlias = Sequence[tuple[Flag, LoginModule]]
"""The login modules of one configuration, in order."""


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """A login module with its options."""

    class_name: str
    flag: Flag
    options: Mapping[str, str]
    line: int


def authenticate(stack: LoginStack, credentials: Credentials) -> SecurityContext | None:
    """Return the user that the modules accept, with the groups of all successful modules.

    Source: Java LoginContext.
    """
    found: list[SecurityContext] = []
    failed = unavailable = False
    for flag, log_in in stack:
        try:
            user = log_in(credentials)
        except LoginRefusedError as refusal:
            unavailable |= isinstance(refusal, LoginUnavailableError)
            failed |= flag in {Flag.REQUIRED, Flag.REQUISITE}
            if flag is Flag.REQUISITE:
                break
            continue
        if user is None:
            continue
        found.append(user)
        if flag is Flag.SUFFICIENT and not failed:
            break
    if found and not failed:
        return SecurityContext(
            found[0].user_name, frozenset().union(*(user.groups for user in found))
        )
    if unavailable:
        raise JMSSecurityException("Users cannot be checked at present; see the broker's log")
    return None


# the modules
def _properties_module(options: Mapping[str, str], directory: Path) -> LoginModule:
    """Return a PropertiesLoginModule: `user=password`, `group=user1,user2`."""
    users = UserAuthenticator(
        properties_users(
            _file(options, f"{_PACKAGE}properties.user", directory, "users.properties"),
            _file(options, f"{_PACKAGE}properties.group", directory, "groups.properties"),
            reloads=is_true(options, "reload"),
        )
    )
    users.load()

    def log_in(credentials: Credentials) -> SecurityContext | None:
        found = users.authenticate(credentials)
        if found is None:
            raise LoginRefusedError
        return found

    return log_in


def _guest_module(options: Mapping[str, str], _directory: Path) -> LoginModule:
    """Return a GuestLoginModule, which accepts all clients, or those without a password.

    The user is always the guest, regardless of the client's user name.
    """
    groups = group_names(options.get(f"{_PACKAGE}guest.group", "guests"))
    guest = SecurityContext(options.get(f"{_PACKAGE}guest.user", "guest"), groups)
    only_without_password = is_true(options, "credentialsInvalidate")

    def log_in(credentials: Credentials) -> SecurityContext | None:
        return None if only_without_password and credentials.password is not None else guest

    return log_in


def _certificate_module(options: Mapping[str, str], directory: Path) -> LoginModule:
    """Return a TextFileCertificateLoginModule: `user=CN=..., O=...` or `user=/regex/`."""
    files = GroupedFiles(
        _file(options, f"{_PACKAGE}textfiledn.user", directory),
        _file(options, f"{_PACKAGE}textfiledn.group", directory),
        _check_name,
        lambda names, groups: (names, groups),
        reloads=is_true(options, "reload"),
    )
    files.load()

    def log_in(credentials: Credentials) -> SecurityContext | None:
        subject = credentials.subject
        if subject is None:
            raise LoginRefusedError
        names, groups = files.load()
        for user, named in names.items():
            pattern = named[1:-1] if _is_regex(named) else re.escape(named)
            if re.fullmatch(pattern, subject):
                return SecurityContext(user, groups.get(user, frozenset()))
        raise LoginRefusedError

    return log_in


def _ldap_module(options: Mapping[str, str], _directory: Path) -> LoginModule:
    from pyjms_broker.security.ldap import LdapLogin  # noqa: PLC0415 - few have a directory

    return LdapLogin.from_options(options).login


def _check_name(path: Path, user: str, named: str) -> str:
    if _is_regex(named):
        try:
            re.compile(named[1:-1])
        except re.error as error:
            raise ConfigurationException(
                f"{path}, user '{user}': the regular expression is wrong: {error}"
            ) from None
    return named


def _is_regex(named: str) -> bool:
    return len(named) > 2 and named.startswith("/") and named.endswith("/")


def _file(
    options: Mapping[str, str], key: str, directory: Path, default: str | None = None
) -> Path:
    name = options.get(key, default)
    if name is None:
        raise ConfigurationException(f"the login module has no option {key}")
    return Path(options.get("baseDir", directory)) / name


def is_true(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is `true`, ignoring case."""
    return options.get(name, "").lower() == "true"


_MODULES: Final[dict[str, Callable[[Mapping[str, str], Path], LoginModule]]] = {
    "PropertiesLoginModule": _properties_module,
    "GuestLoginModule": _guest_module,
    "TextFileCertificateLoginModule": _certificate_module,
    "LDAPLoginModule": _ldap_module,
    "EncryptableLDAPLoginModule": _ldap_module,
}
"""ActiveMQ's login modules by class: factories that get the options and the directory."""


# the file
def read_login_config(path: Path) -> dict[str, tuple[ModuleEntry, ...]]:
    """Read a file. Blocks."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationException(
            f"{path} cannot be read: {error}",
            hint="login_config is relative to the working directory",
        ) from error
    return parse_login_config(text, str(path))


def parse_login_config(
    text: str, source: str, environ: Mapping[str, str] | None = None
) -> dict[str, tuple[ModuleEntry, ...]]:
    """Return the modules by configuration name; `source` is the file's name for errors.

    `${NAME}` in a value is an environment variable (in Java: a system property); a value `ENC(...)`
    is decrypted.
    """
    reader = _Reader(text, source, os.environ if environ is None else environ)
    found: dict[str, tuple[ModuleEntry, ...]] = {}
    while reader.has_more:
        name = reader.take()
        if name in found:
            raise reader.error(f"there are two configurations of the name {name}")
        reader.expect("{")
        modules = []
        while not reader.skip("}"):
            modules.append(_module(reader))
        reader.expect(";")
        found[name] = tuple(modules)
    return found


def _module(reader: _Reader) -> ModuleEntry:
    class_name, line = reader.take(), reader.line
    flag = reader.take()
    if flag.lower() not in {known.value for known in Flag}:
        raise reader.error(
            f"'{flag}' is not a flag of a module: write required, requisite, sufficient or optional"
        )
    options = {}
    while not reader.skip(";"):
        key = reader.take()
        reader.expect("=")
        options[key] = reader.take_value()
    return ModuleEntry(class_name, Flag(flag.lower()), options, line)


class _Reader:
    """The tokens of a file."""

    def __init__(self, text: str, source: str, environ: Mapping[str, str]) -> None:
        self._source = source
        self._environ = environ
        self.line = 1
        if len(text) > _LIMIT:
            raise ConfigurationException(f"{source} has more than {_LIMIT} characters")
        self._tokens = list(self._split(text))
        self._tokens.reverse()

    @property
    def has_more(self) -> bool:
        return bool(self._tokens)

    def _split(self, text: str) -> Iterator[tuple[str, int]]:
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self.line = line
                raise self.error(f"{text[position : position + 20]!r} is not understood")
            if match["quoted"] is not None:
                yield re.sub(r"\\(.)", r"\1", match["quoted"]), line
            elif match["word"] is not None:
                yield match["word"], line
            position = match.end()
            line += match[0].count("\n")

    def take(self) -> str:
        if not self._tokens:
            raise self.error("the file ends within a configuration")
        token, self.line = self._tokens.pop()
        return token

    def take_value(self) -> str:
        value = _VARIABLE.sub(self._variable, self.take())
        if not is_encrypted(value):
            return value
        try:
            return decrypt(value, self._environ)
        except ConfigurationException as error:
            raise self.error(str(error)) from None

    def _variable(self, match: re.Match[str]) -> str:
        value = self._environ.get(match[1])
        if value is None:
            raise self.error(f"the environment has no variable {match[1]}")
        return value

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            raise self.error(f"'{token}' is expected, and '{found}' found")

    def skip(self, token: str) -> bool:
        if self._tokens and self._tokens[-1][0] == token:
            self.take()
            return True
        return False

    def error(self, problem: str) -> ConfigurationException:
        return ConfigurationException(f"{self._source}:{self.line}: {problem}")


class JaasAuthenticator(Authenticator):
    """Authenticates with login modules, which may differ for clients with TLS.

    Source: ActiveMQ JaasAuthenticationBroker, JaasCertificateAuthenticationBroker,
    JaasDualAuthenticationBroker.

    Args:
        login_config: the configuration file.
        configuration: the configuration's name for clients without TLS; None: all clients need a
            certificate.
        ssl_configuration: the name for clients of TLS connectors and those with a certificate;
            None: the same.
    """

    concurrency = 8
    """The number of logins that may wait for a directory at the same time."""

    def __init__(
        self, login_config: Path, configuration: str | None, ssl_configuration: str | None
    ) -> None:
        self._path = login_config
        self._names = (configuration, ssl_configuration)
        self._stacks: dict[str, LoginStack] = {}

    def load(self) -> None:
        """Read the configuration and the files of its modules. Blocks."""
        entries = read_login_config(self._path)
        for name in self._names:
            if name is None:
                continue
            if name not in entries:
                known = ", ".join(sorted(entries)) or "none"
                raise ConfigurationException(
                    f"{self._path} has no configuration '{name}'", hint=f"there are: {known}"
                )
            self._stacks[name] = [(entry.flag, self._module(entry)) for entry in entries[name]]

    def _module(self, entry: ModuleEntry) -> LoginModule:
        make = _MODULES.get(entry.class_name.removeprefix(_PACKAGE))
        if make is None:
            raise ConfigurationException(
                f"{self._path}:{entry.line}: the login module {entry.class_name} is not supported",
                hint=f"supported, of {_PACKAGE}*: {', '.join(_MODULES)}",
            )
        try:
            return make(entry.options, self._path.parent)
        except ConfigurationException as error:
            raise ConfigurationException(
                f"{self._path}:{entry.line}: {error.reason}", hint=error.hint
            ) from error

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return None, because guest modules are called in order with the others."""
        return None

    def may_exist(self, user_name: str) -> bool:
        """Return True, because only a module could tell."""
        return True

    def is_quick(self, credentials: Credentials) -> bool:
        """Return False, because modules may read files or query a directory."""
        return False

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Authenticate with the modules. Blocks."""
        plain, encrypted = self._names
        is_encrypted = credentials.uses_tls or credentials.subject is not None
        name = encrypted if encrypted is not None and (plain is None or is_encrypted) else plain
        if name == encrypted and credentials.subject is None:
            raise JMSSecurityException("Unable to authenticate transport without SSL certificate.")
        return None if name is None else authenticate(self._stacks[name], credentials)
