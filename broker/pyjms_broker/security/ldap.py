"""Authentication against an LDAP directory; needs the extra `ldap`. (activemq-edges SE3)"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.authentication import Credentials
from pyjms_broker.security.jaas import LoginRefusedError, LoginUnavailableError, is_true

logger = get_logger(__name__)

_TIMEOUT: Final = 5
"""Timeout in seconds for connecting and for responses."""
_MAXIMUM_ROLES: Final = 1000
"""The maximum number of a user's roles; more indicate a misconfiguration or a cycle."""
_KNOWN: Final = frozenset(
    [
        "initialContextFactory",
        "connectionURL",
        "connectionUsername",
        "connectionPassword",
        "connectionProtocol",
        "authentication",
        "userBase",
        "userSearchMatching",
        "userSearchSubtree",
        "roleBase",
        "roleName",
        "roleSearchMatching",
        "roleSearchSubtree",
        "userRoleName",
        "expandRoles",
        "expandRolesMatching",
        "debug",
        "encryptionPassword",
        "passwordEnvName",
        "encryptionAlgorithm",
    ]
)

Connect = Callable[[str | None, str | None], Any]
"""Returns an unbound ldap3 connection for a name and a password."""
_PROTOCOLS: Final = {"": "", "s": "", "ssl": "ssl", "starttls": "starttls"}
"""Values of connectionProtocol; `s`, from ActiveMQ's example, has no effect in Java either."""


class LdapLogin:
    """Looks up the user, binds as that user with the password, and collects the roles.

    Source: ActiveMQ LDAPLoginModule. A name with several entries is refused. So is an empty
    password, with which a directory would accept anyone.
    """

    def __init__(self, options: Mapping[str, str], connect: Connect) -> None:
        self._options = options
        self._connect = connect

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> LdapLogin:
        """Return an LDAPLoginModule."""
        required = ["connectionURL", "userBase", "userSearchMatching"]
        if options.get("roleName") and options.get("roleSearchMatching"):
            required.append("roleBase")
        for key in required:
            if not options.get(key):
                raise ConfigurationException(f"the login module has no option {key}")
        unknown = sorted(set(options) - _KNOWN)
        if unknown:
            raise ConfigurationException(f"the login module has no option named {unknown[0]}")
        return cls(options, _connector(options))

    def login(self, credentials: Credentials) -> SecurityContext | None:
        """Authenticate against the directory; return None if the client has sent no name."""
        from ldap3.core.exceptions import LDAPCommunicationError, LDAPException, LDAPStartTLSError  # noqa: PLC0415 - an extra

        name, password = credentials.user_name, credentials.password
        if name is None:
            return None
        if not name or not password:
            raise LoginRefusedError
        try:
            return SecurityContext(name, self._groups(name, password))
        except LDAPException as error:
            # other errors may contain the request
            is_harmless = isinstance(error, LDAPCommunicationError | LDAPStartTLSError)
            text = f": {error}" if is_harmless else ""
            logger.error(
                "The directory %s cannot be queried: %s%s",
                self._options.get("connectionURL"),
                type(error).__name__,
                text,
            )
            raise LoginUnavailableError from error

    def _groups(self, name: str, password: str) -> frozenset[str]:
        options = self._options
        binds = options.get("authentication", "simple").lower() != "none"
        directory = self._connect(
            options.get("connectionUsername") if binds else None,
            options.get("connectionPassword") if binds else None,
        )
        try:
            if not directory.bind():
                logger.error(
                    "The directory %s refuses connectionUsername", options.get("connectionURL")
                )
                raise LoginUnavailableError
            attribute = options.get("userRoleName")
            found = self._search(
                directory, "user", options["userSearchMatching"], (name,), attribute
            )
            if len(found) != 1:
                raise LoginRefusedError
            (dn, roles), *_ = found.items()
            self._check_password(dn, password)
            return frozenset(roles | self._roles(directory, dn, name))
        finally:
            _close(directory)

    def _check_password(self, dn: str, password: str) -> None:
        user = self._connect(dn, password)
        try:
            if not user.bind():
                raise LoginRefusedError
        finally:
            _close(user)

    def _roles(self, directory: Any, dn: str, name: str) -> set[str]:
        options = self._options
        attribute = options.get("roleName")
        if not attribute or not options.get("roleSearchMatching"):
            return set()
        found = self._search(
            directory, "role", options["roleSearchMatching"], (dn, name), attribute
        )
        waiting = list(found) if is_true(options, "expandRoles") else []
        while waiting and len(found) < _MAXIMUM_ROLES:
            matching = options.get("expandRolesMatching", "(member={0})")
            more = self._search(directory, "role", matching, (waiting.pop(),), attribute)
            waiting += more.keys() - found.keys()
            found |= more
        return set().union(*found.values())

    def _search(
        self, directory: Any, kind: str, matching: str, values: Iterable[str], attribute: str | None
    ) -> dict[str, set[str]]:
        """Return the values of an attribute by the names of the entries found."""
        from ldap3 import LEVEL, SUBTREE  # noqa: PLC0415 - an extra

        directory.search(
            self._options[f"{kind}Base"],
            _fill(matching, values),
            search_scope=SUBTREE if is_true(self._options, f"{kind}SearchSubtree") else LEVEL,
            attributes=[attribute] if attribute else None,
        )
        return {
            entry["dn"]: _texts(entry["attributes"].get(attribute) if attribute else None)
            for entry in directory.response or ()
            if entry["type"] == "searchResEntry"
        }


def _close(connection: Any) -> None:
    try:
        connection.unbind()
    finally:
        _close_socket(connection)


def _close_socket(connection: Any) -> None:
    if connection.socket is not None:  # otherwise it was never opened
        connection.socket.close()


def _fill(matching: str, values: Iterable[str]) -> str:
    """Return a filter with `{0}` and `{1}` replaced by escaped values."""
    from ldap3.utils.conv import escape_filter_chars  # noqa: PLC0415 - an extra

    pieces = {f"{{{index}}}": escape_filter_chars(text) for index, text in enumerate(values)}
    filled, rest = "", matching
    while rest:
        mark = rest[:3]
        if mark in pieces:
            filled, rest = filled + pieces[mark], rest[3:]
        else:
            filled, rest = filled + rest[0], rest[1:]
    return filled


def _texts(values: object) -> set[str]:
    if values is None:
        return set()
    if isinstance(values, str | bytes):
        values = [values]
    assert isinstance(values, Iterable)
    return {value.decode() if isinstance(value, bytes) else str(value) for value in values}


def _connector(options: Mapping[str, str]) -> Connect:
    try:
        from ldap3 import ANONYMOUS, NONE, SIMPLE, Connection, Server, Tls  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationException(
            "the login module needs the package ldap3", hint=install_command("ldap")
        ) from error
    url = urlsplit(options["connectionURL"])
    method = options.get("authentication", "simple").lower()
    if url.scheme not in {"ldap", "ldaps"} or not url.hostname or url.path.strip("/"):
        raise ConfigurationException(
            f"connectionURL is {options['connectionURL']}",
            hint="write ldap://host:389 or ldaps://host",
        )
    if method not in {"simple", "none"}:
        raise ConfigurationException(f"authentication={method}: only simple and none are supported")
    protocol = _protocol(options, url.scheme)
    uses_tls, starts_tls = protocol == "ssl", protocol == "starttls"

    class CheckedTls(Tls):  # type: ignore[misc]  # ldap3 has no types
        """Checks the certificate's name like Python's ssl, as ldap3's own check is deprecated."""

        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
            connection.socket = ssl.create_default_context().wrap_socket(
                connection.socket,
                server_hostname=url.hostname,
                do_handshake_on_connect=do_handshake,
            )

    def connect(user: str | None, password: str | None) -> Any:
        server = Server(  # not reused, as it caches an unavailable directory for minutes
            url.hostname,
            port=url.port,
            use_ssl=uses_tls,
            tls=CheckedTls(validate=ssl.CERT_REQUIRED) if protocol else None,
            get_info=NONE,
            connect_timeout=_TIMEOUT,
        )
        connection = Connection(
            server,
            user=user,
            password=password,
            authentication=SIMPLE if user else ANONYMOUS,
            receive_timeout=_TIMEOUT,
            auto_referrals=False,
            read_only=True,
        )
        if starts_tls:
            try:
                connection.start_tls(read_server_info=False)
            except BaseException:
                _close_socket(connection)  # an orderly unbind may be impossible
                raise
        return connection

    return connect


def _protocol(options: Mapping[str, str], scheme: str) -> str:
    """Return the encryption of the connection: `ssl`, `starttls`, or none."""
    given = options.get("connectionProtocol", "")
    protocol = _PROTOCOLS.get(given.lower())
    if protocol is None:
        raise ConfigurationException(
            f"connectionProtocol={given}: only ssl and StartTLS are supported",
            hint="leave it out, or write connectionProtocol=StartTLS",
        )
    if scheme == "ldaps" and protocol == "starttls":
        raise ConfigurationException(
            "connectionProtocol=StartTLS: a connection of ldaps:// is encrypted from the beginning",
            hint="write connectionURL=ldap://host, or leave connectionProtocol out",
        )
    return "ssl" if scheme == "ldaps" else protocol
