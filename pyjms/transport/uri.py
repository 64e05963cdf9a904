"""Broker URLs in ActiveMQ's syntax: `tcp://host:port?name=value`, `failover:(a,b)?name=value`.

Only parses text: it does not connect, and does not know which options exist. `str()` and `repr()`
of a parsed URL never show passwords. (activemq-edges U1, U3, N21, F9; activemq-broker B16)

`read_received_address` is for addresses that a broker or a datagram has sent. They are less trusted
than the configuration: an address may only name a host in the network, and must not have options
about local files or checks. (activemq-edges NW10, U7)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from pyjms.errors import ConfigurationException, nearest_name

__all__ = ["TransportURI"]

DEFAULT_PORT = 61616
COMPOSITE_SCHEMES = frozenset({"failover", "fanout", "discovery", "static", "broker"})
"""Schemes whose URLs contain a list of URLs, even without brackets."""
_PREFIX = "network"
"""The prefix of a network connector's URL in `broker:(...)`."""

_VM_OF_BROKER = ("vm", "broker:")
"""`vm:broker:(...)/name?options`: a client's URL of a broker, whose options these are."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SECRET = re.compile("pass|secret", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"([^?&=,(]*(?:pass|secret)[^?&=,(]*)=.*", re.IGNORECASE | re.DOTALL)
_URL_START = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:(?://|\(|[^/]*:\d)")
_ENCODED = "in a password, write %2C for a comma, %26 for &, %28 and %29 for brackets"
_HOST_VARIABLES = ("org.apache.activemq.AMQ_HOST", "AMQ_HOST")
_PORT_VARIABLES = ("org.apache.activemq.AMQ_PORT", "AMQ_PORT")
_BIND_VARIABLES = ("org.apache.activemq.BROKER_BIND_URL", "BROKER_BIND_URL")


@dataclass(frozen=True)
class TransportURI:
    """A parsed broker URL.

    `location` is the text between the scheme and the `?`, without leading slashes, user and
    password; `components` are the URLs inside a composite one.
    """

    scheme: str
    location: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    components: tuple[TransportURI, ...] = ()
    path: str = ""
    """The `/name` after the closing bracket of a composite URL."""
    reported: set[str] = field(default_factory=set, repr=False, compare=False)
    """Options that have been logged as without effect; shared with URLs derived from this one."""

    @classmethod
    def parse(cls, text: str) -> TransportURI:
        """Parse `text`.

        Raises:
            ConfigurationException: the scheme is missing, brackets do not match, or an option is
                not name=value.
        """
        text = text.strip()
        match = _SCHEME.match(text)
        if match is None:
            raise could_not_create(
                f"Transport not scheme specified: [{_redact(text)}]",
                hint="write a broker URL such as tcp://localhost:61616",
            )
        scheme = match.group()[:-1].lower()
        rest = text[match.end() :]
        if (scheme == _PREFIX and _SCHEME.match(rest)) or (scheme, rest[:7]) == _VM_OF_BROKER:
            return cls(scheme, components=(cls.parse(rest),))
        bare = rest.removeprefix("//")
        if bare.startswith("("):
            return _composite(scheme, bare, text)
        if scheme in COMPOSITE_SCHEMES:
            return cls(scheme, "", {}, _components(bare, text))
        location, mark, query = rest.partition("?")
        location = location.removeprefix("//").rpartition("@")[2]
        return cls(scheme, location, parse_query(query, text) if mark else {})

    @property
    def host(self) -> str:
        """The host of the location, or ""; an IPv6 address without brackets."""
        authority = self.location.partition("/")[0]
        if authority.startswith("["):
            return authority[1:].partition("]")[0]
        return authority.partition(":")[0]

    @property
    def port(self) -> int | None:
        """The port of the location, or None.

        Raises:
            ConfigurationException: it is not a number from 0 to 65535.
        """
        authority = self.location.partition("/")[0]
        if authority.startswith("["):
            authority = authority.partition("]")[2]
        text = authority.partition(":")[2]
        return parse_port(text, str(self)) if text else None

    def split_options(self, prefix: str) -> tuple[dict[str, str], TransportURI]:
        """Return the options named `prefix...`, without the prefix, and the URL without them."""
        split = {k[len(prefix) :]: v for k, v in self.options.items() if k.startswith(prefix)}
        rest = {k: v for k, v in self.options.items() if not k.startswith(prefix)}
        return split, replace(self, options=rest)

    def without_options(self) -> TransportURI:
        """Return the URL without any options, also of its components: it has no passwords."""
        components = tuple(each.without_options() for each in self.components)
        return replace(self, options={}, components=components)

    def __str__(self) -> str:
        return _join(self, lambda k, v: f"{k}={'***' if is_secret(k) else _redact(v)}")

    def with_secrets(self) -> str:
        """Return the URL as text with its passwords, which can be parsed; `str()` hides them."""
        return _join(self, lambda k, v: f"{quote(k)}={quote(v, safe='/:')}")

    def __repr__(self) -> str:
        return f"TransportURI({str(self)!r})"


def is_secret(option: str) -> bool:
    """Return whether the option, perhaps misspelt, has a value that messages must not show."""
    return _SECRET.search(option) is not None


def _join(uri: TransportURI, option: Callable[[str, str], str]) -> str:
    body = f"//{uri.location}"
    if uri.components or uri.path or uri.scheme in COMPOSITE_SCHEMES:
        body = f"({','.join(_join(each, option) for each in uri.components)}){uri.path}"
    options = "&".join(option(k, v) for k, v in uri.options.items())
    return f"{uri.scheme}:{body}" + ("?" + options if options else "")


def parse_query(query: str, whole: str) -> dict[str, str]:
    """Parse `a=b&c=d`; names and values are URL-decoded. `whole` is for error messages."""
    options: dict[str, str] = {}
    for part in query.split("&"):
        if not part:
            continue
        key, equals, value = part.partition("=")
        if not key or not equals:
            hidden = any(map(is_secret, options))  # the part may be the rest of a password
            raise could_not_create(
                f"Option {'***' if hidden else repr(part)} of {_redact(whole)} is not key=value",
                hint=_ENCODED if hidden else "write options as ?name=value&name=value",
            )
        options[unquote(key)] = unquote_plus(value)
    return options


def parse_port(text: str, whole: str) -> int:
    """Parse a port number. `whole` is for error messages."""
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= 65535:
        return int(text)
    raise ConfigurationException(
        f"Invalid port '{text}' in {_redact(whole)}", hint="a port is a number from 1 to 65535"
    )


def default_broker_url(environ: Mapping[str, str] | None = None) -> str:
    """Return the broker URL of the environment, by default `tcp://localhost:61616`.

    AMQ_HOST, AMQ_PORT and BROKER_BIND_URL are looked up with the prefix `org.apache.activemq.`
    first; an empty variable counts as not set. ActiveMQ's default is the same address over
    `failover:`, with which a program waits silently and for ever if no broker runs.

    Raises:
        ConfigurationException: the port is not a number.
    """
    env = os.environ if environ is None else environ
    bind = _first(env, _BIND_VARIABLES)
    if bind:
        return bind
    host = _first(env, _HOST_VARIABLES) or "localhost"
    port = _first(env, _PORT_VARIABLES)
    number = parse_port(port, f"the environment variable AMQ_PORT={port}") if port else DEFAULT_PORT
    return f"tcp://{f'[{host}]' if ':' in host else host}:{number}"


def parse_broker_uri(text: str) -> TransportURI:
    """Parse the URI of an embedded broker: `broker:(connector,...)/name?attribute=value`.

    Raises:
        ConfigurationException: the scheme is missing or not `broker`.
    """
    if _SCHEME.match(text.strip()) is None:
        raise ConfigurationException(
            f"Invalid broker URI, no scheme specified: {_redact(text)}",
            hint="write broker:(tcp://localhost:61616)/name?persistent=false",
        )
    uri = TransportURI.parse(text)
    if uri.scheme != "broker":
        raise ConfigurationException(
            f"Could not load {uri.scheme} factory: broker URIs start with 'broker:'",
            hint="write broker:(tcp://localhost:61616)/name?persistent=false",
        )
    return uri


def could_not_create(reason: str, *, hint: str = "") -> ConfigurationException:
    """Return the exception for a URL from which no transport can be created."""
    return ConfigurationException(f"Could not create Transport. Reason: {reason}", hint=hint)


def did_you_mean(names: str | Iterable[str], known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for known names similar to `names`, or "" if there are none.

    A dotted name is also found by its group (`prefetchPolicy`) or by its last part.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    spellings = _spellings(known)
    found = {name: near for name in names if (near := _nearest(name.lower(), spellings))}
    if len(names) == 1:
        return "".join(f"did you mean '{near}'?" for near in found.values())
    return "; ".join(f"did you mean '{near}' instead of {name}?" for name, near in found.items())


def _nearest(name: str, spellings: Iterable[Mapping[str, str]]) -> str:
    for known in spellings:
        if near := nearest_name(name, known):
            return known[near]
    return ""


def _spellings(known: Iterable[str]) -> tuple[dict[str, str], ...]:
    """Return the known names by the spellings that find them: full name, group, last part.

    All in lower case. A group means `group.all`, if there is such a name.
    """
    names: dict[str, str] = {}
    groups: dict[str, str] = {}
    last_parts: dict[str, str] = {}
    for name in known:
        names[name.lower()] = name
        group, dot, rest = name.partition(".")
        if dot:
            last_parts[rest.lower()] = name
            if rest == "all" or group.lower() not in groups:
                groups[group.lower()] = name
    return names, groups, last_parts


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((env[name] for name in names if env.get(name)), "")


def _composite(scheme: str, bare: str, whole: str) -> TransportURI:
    end = _closing(bare, whole)
    rest = bare[end + 1 :]
    path, mark, query = rest.partition("?")
    if path and not path.startswith("/"):
        hidden = is_secret(bare[:end])
        raise could_not_create(
            f"Unexpected {'text' if hidden else repr(path)} after the closing bracket in "
            f"{_redact(whole)}",
            hint=_ENCODED
            if hidden
            else "options of a composite come after the bracket: failover:(a,b)?name=value",
        )
    options = parse_query(query, whole) if mark else {}
    return TransportURI(scheme, "", options, _components(bare[1:end], whole), path)


def _closing(bare: str, whole: str) -> int:
    depth = 0
    for match in re.finditer(r"[()]", bare):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    raise could_not_create(f"The brackets of {_redact(whole)} do not match")


def _components(text: str, whole: str) -> tuple[TransportURI, ...]:
    parts: list[str] = []
    depth = start = 0
    for match in re.finditer(r"[(),]", text):
        if match.group() == "(":
            depth += 1
        elif match.group() == ")":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    if depth != 0:
        raise could_not_create(f"The brackets of {_redact(whole)} do not match")
    parts.append(text[start:])
    for index, part in enumerate(parts):
        if part.strip() and not _URL_START.match(part) and any(map(is_secret, parts[:index])):
            raise could_not_create(
                f"A component of {_redact(whole)} is not a broker URL", hint=_ENCODED
            )
    return tuple(TransportURI.parse(part) for part in parts if part.strip())


def _redact(text: str) -> str:
    """Return a malformed URL without passwords, whose ends cannot be determined."""
    return re.sub(r"//[^/@?,()]*@", "//***@", _SECRET_VALUE.sub(r"\1=***", text))


PLAIN_SCHEMES: Final = frozenset({"tcp", "nio", "auto", "auto+nio"})
ENCRYPTED_SCHEMES: Final = frozenset({"ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"})
NETWORK_SCHEMES: Final = PLAIN_SCHEMES | ENCRYPTED_SCHEMES | {"ws", "wss"}
"""The schemes of brokers in the network."""
UNANNOUNCED_SCHEMES: Final = COMPOSITE_SCHEMES | {"vm", "mock", "peer"}
"""Schemes that cannot be announced: they contain other URLs or have effects in this process."""

_LOCAL_OPTIONS: Final = ("ssl.", "socket.")
"""Options about files and checks on the client's side."""
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\])(?::\d{{1,5}})?/?"
)
_LONGEST: Final = 2000


class ReceivedAddress(NamedTuple):
    """A broker's address that may be used."""

    uri: TransportURI
    dropped: list[str]
    """The options that were removed from it."""


def read_received_address(
    text: str,
    acceptable: frozenset[str] = NETWORK_SCHEMES,
    why: str = "it must be a host in the network",
) -> ReceivedAddress:
    """Check and return an address received from another program.

    Args:
        text: the URL.
        acceptable: the schemes that it may have.
        why: the reason for refusing other schemes.

    Raises:
        ConfigurationException: it must not be used; with the reason.
    """
    scheme = text.partition(":")[0].lower()
    if scheme in UNANNOUNCED_SCHEMES or "(" in text or ")" in text or len(text) > _LONGEST:
        raise ConfigurationException("a broker can only announce network addresses")
    uri = TransportURI.parse(text)
    if scheme not in acceptable:
        raise ConfigurationException(why)
    if scheme in NETWORK_SCHEMES and not _HOST.fullmatch(uri.location):
        raise ConfigurationException("it has no valid host and port")
    dropped = [name for name in uri.options if name.lower().startswith(_LOCAL_OPTIONS)]
    kept = {k: v for k, v in uri.options.items() if k not in dropped}
    return ReceivedAddress(replace(uri, options=kept), dropped)
