"""The options of a pool, under the names of Spring Boot's `pool.*` keys. (spring-jms 8 and 9.1)"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, TypedDict

from pyjms.runtime.clock import FOR_EVER, check_seconds


class PoolKeywords(TypedDict, total=False):
    """The options as keywords, described by `PoolOptions`."""

    max_connections: int
    max_sessions_per_connection: int
    idle_timeout: float
    expiry_timeout: float
    connection_timeout: float | None
    block_if_full: bool
    block_if_full_timeout: float | None
    create_connection_on_startup: bool
    use_anonymous_producers: bool
    explicit_producer_cache_size: int
    reconnect_on_exception: bool
    time_between_expiration_check: float


_KINDS: Final = {"bool": bool, "int": int}
_SECONDS: Final = ("idle_timeout", "expiry_timeout", "time_between_expiration_check")
_SECONDS_OR_NONE: Final = ("connection_timeout", "block_if_full_timeout")


@dataclass
class PoolOptions:
    """The options of a PooledConnectionFactory; changes affect connections opened later.

    Times are seconds.
    """

    max_connections: int = 1
    """Connections for each pair of user name and password; further callers share them."""
    max_sessions_per_connection: int = 500
    """The limit of open sessions of one connection in each mode; below 0: no limit.
    ActiveMQ: maximumActiveSessionPerConnection."""
    idle_timeout: float = 30.0
    """How long an unused connection stays open; 0: for ever."""
    expiry_timeout: float = 0.0
    """The age at which a connection is replaced as soon as it is unused; 0: no limit."""
    connection_timeout: float | None = 30.0
    """How long `create_connection` waits for a connection to be opened; None: for ever."""
    block_if_full: bool = True
    """Whether `create_session` waits while all sessions are in use, instead of failing at once.
    ActiveMQ: blockIfSessionPoolIsFull."""
    block_if_full_timeout: float | None = None
    """How long `create_session` waits for a session; None: for ever."""
    create_connection_on_startup: bool = True
    """Whether `start` opens a connection."""
    use_anonymous_producers: bool = True
    """Whether all producers of a session share one producer, which has no destination."""
    explicit_producer_cache_size: int = 0
    """The number of producers that a session keeps open if they are not shared."""
    reconnect_on_exception: bool = True
    """Whether a connection that reports an exception is closed and replaced at once, instead of
    when it is unused."""
    time_between_expiration_check: float = 0.0
    """How often unused connections are checked in the background; 0: only when connections are
    taken and returned."""

    def check(self) -> None:
        """Check all options.

        Raises:
            TypeError: one has the wrong type: the text "false" would count as true.
            ValueError: a number is out of range.
        """
        for each in fields(self):
            value, kind = getattr(self, each.name), _KINDS.get(str(each.type))
            if kind is not None and type(value) is not kind:
                raise TypeError(f"{each.name} must be {kind.__name__}, not {type(value).__name__}")
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be 1 or higher, not {self.max_connections}")
        if self.max_sessions_per_connection == 0:
            raise ValueError("max_sessions_per_connection must be 1 or higher, or -1 for no limit")
        if self.explicit_producer_cache_size < 0:
            raise ValueError(
                "explicit_producer_cache_size must be 0 or higher, not "
                f"{self.explicit_producer_cache_size}"
            )
        for name in _SECONDS:
            check_seconds(name, getattr(self, name))
        for name in _SECONDS_OR_NONE:
            value = getattr(self, name)
            if value is not None:
                check_seconds(name, value, otherwise=FOR_EVER)
