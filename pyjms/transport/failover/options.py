"""The options of `failover:` URLs, with ActiveMQ's names and defaults. (activemq-edges F0)"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyjms.transport.options import Options, boolean, duration, integer, options_for, read_all
from pyjms.transport.uri import TransportURI, could_not_create

__all__ = ["FAILOVER", "INFINITE", "FailoverOptions", "read_failover_options"]

INFINITE = -1


@dataclass(frozen=True)
class FailoverOptions:
    """Options of a failover transport; times in seconds."""

    initial_reconnect_delay: float = 0.01
    max_reconnect_delay: float = 30.0
    use_exponential_back_off: bool = True
    reconnect_delay_exponent: float = 2.0
    max_reconnect_attempts: int = INFINITE
    """Passes over the list of brokers; 0: a lost connection is not replaced."""
    startup_max_reconnect_attempts: int = INFINITE
    """Like `max_reconnect_attempts`, for the first connection; -1: the same number."""
    warn_after_reconnect_attempts: int = 10
    randomize: bool = True
    timeout: float | None = None
    """How long sending a message may wait for a connection; None: for ever."""
    backup: bool = False
    backup_pool_size: int = 1
    priority_backup: bool = False
    priority_uris: tuple[TransportURI, ...] = ()
    """The priority brokers; empty: the first broker of the URL."""
    track_messages: bool = False
    track_transaction_producers: bool = True
    max_cache_size: int = 131072
    update_uris_supported: bool = True
    update_uris_source: Path | str | None = None
    """A file, or a URL of http: or https:, with the brokers' URLs."""
    rebalance_update_uris: bool = True
    reconnect_supported: bool = True


def _timeout(text: str) -> float | None:
    milliseconds = integer(text)
    return milliseconds / 1000 if milliseconds >= 0 else None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("write a number") from None
    if not number >= 1:
        raise ValueError("write a number of 1 or more")
    return number


def _uris(text: str) -> tuple[TransportURI, ...]:
    return tuple(TransportURI.parse(part) for part in text.split(",") if part.strip())


def _source(text: str) -> Path | str | None:
    if not text:
        return None
    scheme, colon, rest = text.partition(":")
    if not colon or len(scheme) == 1:  # C:\brokers
        return Path(text)
    if scheme.lower() in ("http", "https") and rest.startswith("//"):
        return text
    if scheme.lower() != "file":
        raise ValueError("name a file, file:/etc/brokers, or a URL of http: or https:")
    return Path("/" + rest.lstrip("/") if rest.startswith("/") else rest)


FAILOVER: Options = {
    **options_for(duration, "initial_reconnect_delay", "max_reconnect_delay"),
    **options_for(_number, "reconnect_delay_exponent"),
    "backOffMultiplier": ("reconnect_delay_exponent", _number),
    **options_for(
        integer,
        "max_reconnect_attempts",
        "startup_max_reconnect_attempts",
        "warn_after_reconnect_attempts",
        "backup_pool_size",
        "max_cache_size",
    ),
    **options_for(_timeout, "timeout"),
    **options_for(
        boolean,
        "use_exponential_back_off",
        "randomize",
        "backup",
        "priority_backup",
        "track_messages",
        "track_transaction_producers",
        "reconnect_supported",
    ),
    "priorityURIs": ("priority_uris", _uris),
    "updateURIsSupported": ("update_uris_supported", boolean),
    "updateURIsURL": ("update_uris_source", _source),
    "rebalanceUpdateURIs": ("rebalance_update_uris", boolean),
}
"""Option name in the URL -> (attribute, function that converts the text)."""


def read_failover_options(uri: TransportURI) -> tuple[FailoverOptions, dict[str, str]]:
    """Return the options of a `failover:` URL, and those of `nested.*` without that prefix.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be converted.
    """
    nested, rest = uri.split_options("nested.")
    values = read_all(rest, FAILOVER)
    if not uri.components:
        raise could_not_create(
            f"{uri} names no broker",
            hint=f"write {uri.scheme}:(tcp://localhost:61616,tcp://localhost:61617)",
        )
    return FailoverOptions(**values), nested
