"""Access to management views over HTTP: a Jolokia client, which also works with ActiveMQ.

(activemq-edges JX3)
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from pyjms.cli.options import Credentials
from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    JMSException,
    JMSSecurityException,
)
from pyjms_broker.cli.management.client import DEFAULT_URL, Attributes
from pyjms_broker.management.object_name import ObjectName

__all__ = ["JolokiaClient"]

_PATH: Final = "/api/jolokia"
_TIMEOUT: Final = 300.0
"""Response timeout in seconds, long enough to purge or move a long queue."""
_NOT_FOUND: Final = 404
_LONGEST_REASON: Final = 300


class JolokiaClient:
    """Access to the management views of the broker at a URL; see `ManagementClient`.

    Each call opens a new connection. Thread-safe.

    Args:
        url: `http://host:port` or `https://`, with or without the path `/api/jolokia`.
        credentials: sent with HTTP Basic.
        timeout: seconds to connect, and to wait for the response.
    """

    def __init__(
        self, url: str, credentials: Credentials | None = None, timeout: float = _TIMEOUT
    ) -> None:
        """Parse the URL; does not connect.

        Raises:
            ConfigurationException: it is not an HTTP URL.
        """
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
        self._is_encrypted = parts.scheme == "https"
        self._path = parts.path if parts.path not in ("", "/") else _PATH
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
        if not ObjectName(pattern).is_pattern:
            found = self._value(_read(pattern, attributes), missing={})
            return {pattern: found} if isinstance(found, Mapping) and found else {}
        found = self._value(_read(pattern, attributes), missing={})
        if not isinstance(found, Mapping):
            return {}
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
        kind = http.client.HTTPSConnection if self._is_encrypted else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
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
                hint="is the broker running, and does its configuration have `web`?",
            ) from error
        finally:
            connection.close()


_EXAMPLE: Final = f"write it as {DEFAULT_URL}"


def _read(name: str, attributes: tuple[str, ...]) -> dict[str, object]:
    request: dict[str, object] = {"type": "read", "mbean": name}
    if attributes:
        request["attribute"] = list(attributes)
    return request
