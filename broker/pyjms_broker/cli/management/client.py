"""Access of the commands to a broker's management views, by HTTP and by name.

The client speaks Jolokia, so that it works with ActiveMQ, too. (activemq-edges JX3)
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, TypeAlias
from urllib.parse import urlsplit

import typer

from pyjms.cli.options import (
    Credentials,
    PasswordFile,
    password_option,
    read_credentials,
    user_option,
)
from pyjms.cli.terminal import one_line_errors
from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    JMSException,
    JMSSecurityException,
)
from pyjms_broker.management.object_name import ObjectName, encoded_part

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://localhost:8161/api/jolokia"
"""Default URL of a broker's web server."""

Attributes: TypeAlias = Mapping[str, object]


_PATH: Final = "/api/jolokia"
_TIMEOUT: Final = 300.0
"""Response timeout in seconds, long enough to purge or move a long queue."""
_NOT_FOUND: Final = 404
_LONGEST_REASON: Final = 300
_NO_WEB_SERVER: Final = (
    "is the broker running, with --web 8161 or `web: {}` in its configuration? pyjms browse, "
    "receive and redrive need no web server"
)
_EXAMPLE: Final = f"write it as {DEFAULT_URL}"


class JolokiaClient:
    """Access to the management views of the broker at a URL.

    All methods block, and each opens a new connection. Thread-safe. All raise JMSException if the
    broker cannot be reached, refuses the login or the request, or has no such view, attribute or
    operation.

    Args:
        url: `http://host:port` or `https://`, with or without the path `/api/jolokia`; behind a
            proxy with the path there: `https://host/broker`, or the console's URL.
        credentials: sent with HTTP Basic.
        timeout: seconds to connect, and to wait for the response.
        ca: the certificates of the authorities to trust, PEM; None: the system's.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        timeout: float = _TIMEOUT,
        ca: Path | None = None,
    ) -> None:
        """Parse the URL; does not connect."""
        try:
            parts = urlsplit(url)
            self._port = parts.port
        except ValueError as error:
            raise ConfigurationException(f"--url {url}: {error}", hint=_EXAMPLE) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationException(
                f"--url {url}: this command needs the broker's web server", hint=_EXAMPLE
            )
        if parts.username is not None:
            raise ConfigurationException(
                "--url: user and password do not belong in the URL",
                hint="give --user, and the password in PYJMS_PASSWORD",
            )
        self._host = parts.hostname
        self._tls = _tls_context(ca) if parts.scheme == "https" else None
        if ca is not None and self._tls is None:
            raise ConfigurationException(
                f"--ca {ca} is for an encrypted connection", hint=f"write https:// in --url {url}"
            )
        path = parts.path.rstrip("/")
        self._path = path if path.endswith("/jolokia") else path.removesuffix("/admin") + _PATH
        self._timeout = timeout
        self.url = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._headers = {
            "Content-Type": "application/json",
            "Origin": f"{parts.scheme}://{parts.netloc}",  # required by Jolokia's strict checking
        }
        if credentials is not None and credentials.user is not None:
            pair = f"{credentials.user}:{credentials.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"

    def search(self, pattern: str) -> list[str]:
        """Return the sorted names of the views that match a pattern."""
        found = self._value({"type": "search", "mbean": pattern})
        return sorted(map(str, found)) if isinstance(found, list) else []

    def read(self, name: str, *attributes: str) -> Attributes:
        """Return the named attributes of a view; all if none is named."""
        found = self._value(_read(name, attributes))
        return found if isinstance(found, Mapping) else {}

    def read_all(self, pattern: str, *attributes: str) -> dict[str, Attributes]:
        """Return attributes by view name for all views that match a pattern; {} if none does."""
        found = self._value(_read(pattern, attributes), missing={})
        if not isinstance(found, Mapping) or not found:
            return {}
        if not ObjectName(pattern).is_pattern:
            return {pattern: found}
        return {str(name): values for name, values in sorted(found.items())}

    def write(self, name: str, attribute: str, value: object) -> object:
        """Set an attribute; return its previous value."""
        return self._value({"type": "write", "mbean": name, "attribute": attribute, "value": value})

    def execute(self, name: str, operation: str, *arguments: object) -> object:
        """Invoke an operation; return its result once its changes are stored."""
        return self._value(
            {"type": "exec", "mbean": name, "operation": operation, "arguments": list(arguments)}
        )

    def _value(self, request: Mapping[str, object], missing: object = None) -> object:
        answer = self._answer(json.dumps(request).encode())
        status = answer.get("status")
        if status == HTTPStatus.OK:
            return answer.get("value")
        if status == _NOT_FOUND and missing is not None:
            return missing
        what = f"{request['type']} of {request['mbean']}"
        reason = str(answer.get("error", "no reason given"))[:_LONGEST_REASON]
        raise JMSException(f"{self.url}: {what} failed: {reason}", hint=str(answer.get("hint", "")))

    def _answer(self, body: bytes) -> Mapping[str, object]:
        status, content = self._exchange(body)
        if status == HTTPStatus.UNAUTHORIZED:
            raise JMSSecurityException(
                f"{self.url}: the broker rejected the user name or the password"
                if "Authorization" in self._headers
                else f"{self.url}: the broker requires a login",
                hint="give --user, and the password in PYJMS_PASSWORD",
            )
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not {"value", "error"} & answer.keys():
            raise ConnectionFailedException(
                f"{self.url} responded with HTTP status {status}, and not in Jolokia's format",
                hint="is this the URL of the broker's web server?",
            )
        if status != HTTPStatus.OK:
            kind = JMSSecurityException if status == HTTPStatus.FORBIDDEN else JMSException
            raise kind(
                f"{self.url} responded with HTTP status {status}: {answer.get('error')}",
                hint=str(answer.get("hint") or ""),
            )
        return answer

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        import http.client

        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=self._tls
            )
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            raise ConnectionFailedException(
                f"{self.url} has not responded for {self._timeout:g} s"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ConnectionFailedException(
                f"The broker's web server at {self.url} cannot be reached: {reason}",
                hint=_NO_WEB_SERVER,
            ) from error
        finally:
            connection.close()


def _tls_context(ca: Path | None) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # also ssl.SSLError: it is no PEM
        raise ConfigurationException(
            f"--ca {ca} cannot be read: {error.strerror or error}",
            hint="name a PEM file with the certificates of the authority",
        ) from None


def _read(name: str, attributes: tuple[str, ...]) -> dict[str, object]:
    request: dict[str, object] = {"type": "read", "mbean": name}
    if attributes:
        request["attribute"] = list(attributes)
    return request


ManagementUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PYJMS_MANAGEMENT_URL",
        metavar="URL",
        help="The Jolokia URL of the broker (pyjms or ActiveMQ).",
    ),
]
ManagementUser: TypeAlias = Annotated[str | None, user_option("--jmxuser")]
Password: TypeAlias = Annotated[str | None, password_option("--jmxpassword")]
Ca: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="PYJMS_MANAGEMENT_CA",
        metavar="FILE",
        help="PEM file of the authority that signed the web server's certificate.",
    ),
]
JmxUrl: TypeAlias = Annotated[
    str | None, typer.Option("--jmxurl", hidden=True, metavar="URL", help="Of ActiveMQ.")
]
JmxLocal: TypeAlias = Annotated[bool, typer.Option("--jmxlocal", hidden=True)]
Pid: TypeAlias = Annotated[str | None, typer.Option("--pid", hidden=True)]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


_Command: TypeAlias = Callable[Concatenate[JolokiaClient, ...], None]


def management_command(name: str) -> Callable[[_Command], Callable[..., None]]:
    """Make a function that takes a client and options the command `name` for a running broker.

    The command also gets the options that select the broker. Known errors are printed as one line.
    """

    def decorate(command: _Command) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            with one_line_errors(f"broker {name}"):
                client = _connect(**{each: options.pop(each) for each in connecting})
                command(client, **options)

        connecting = signature(_connect, eval_str=True).parameters
        _, *own = signature(command, eval_str=True).parameters.values()
        every = Signature([*own, *connecting.values()])
        run.__signature__ = every  # type: ignore[attr-defined]  # typer reads the options from it
        return run

    return decorate


def _web_url(jmx_url: str) -> str:
    """Guess the URL of the broker's web server from a JMX URL."""
    host = re.search(r"//([\w.-]+|\[[\da-f:]+\]):\d+/", jmx_url)
    return f"http://{host[1]}:8161" if host else DEFAULT_URL


def _connect(
    url: ManagementUrl = DEFAULT_URL,
    user: ManagementUser = None,
    password_file: PasswordFile = None,
    password: Password = None,
    ca: Ca = None,
    jmx_url: JmxUrl = None,
    jmx_local: JmxLocal = False,
    pid: Pid = None,
) -> JolokiaClient:
    """Create the client for the options; does not connect."""
    given = {"--jmxurl": jmx_url, "--jmxlocal": jmx_local, "--pid": pid}
    for name in (name for name, value in given.items() if value):
        raise ConfigurationException(
            f"{name}: JMX is available to Java programs only",
            hint=f"name the broker's web server (Jolokia): --url {_web_url(jmx_url or '')}",
        )
    return JolokiaClient(url, read_credentials(user, password_file, password), ca=ca)


DOMAIN: Final = "org.apache.activemq"


def pattern(**keys: str) -> str:
    """Return a pattern for views of any broker; values must be encoded already."""
    return f"{DOMAIN}:" + ",".join(
        f"{key}={value}" for key, value in {"type": "Broker", "brokerName": "*", **keys}.items()
    )


def brokers(client: JolokiaClient, *attributes: str) -> dict[str, Attributes]:
    """Return attributes of the brokers at a URL, by view name."""
    found = client.read_all(pattern(), *attributes)
    if not found:
        raise JMSException(f"{client.url} has no broker", hint="has it started?")
    return found


def number(values: Attributes, name: str) -> int:
    """Return a numeric attribute; 0 if the broker does not have it."""
    found = values.get(name)
    return found if isinstance(found, int) else 0


def broker_of(name: str) -> str:
    """Return the broker's name from the name of a view."""
    return ObjectName(name).keys.get("brokerName", "")


def find_destinations(
    client: JolokiaClient, names: Sequence[str], kind: str, *attributes: str
) -> dict[str, Attributes]:
    """Return attributes of destinations, always including Name, by view name."""
    found: dict[str, Attributes] = {}
    for name in names:
        bare = _bare(name, kind)
        key = encoded_part(bare).replace("&ast;", "*")
        if bare == ">" or bare.endswith(".>"):  # ActiveMQ's wildcard
            key = f"{key[:-1]}*"
        wanted = pattern(destinationType=kind, destinationName=key)
        matching = client.read_all(wanted, "Name", *attributes)
        if not matching:
            raise JMSException(
                f"There is no {kind.lower()} {bare} at {client.url}",
                hint="`pyjms broker dstat` lists the destinations",
            )
        found.update(matching)
    return found


def _bare(name: str, kind: str) -> str:
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    if scheme != kind.lower():
        raise ConfigurationException(
            f"{name} is not a {kind.lower()}", hint=f"write {kind.lower()}://{rest}, or {rest}"
        )
    return rest
