"""The section `pool` of a broker in application.yaml. (spring-jms 8 and 9.1)"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from pyjms._yaml import Deadline, Duration
from pyjms._yaml.durations import duration_schema, read_duration
from pyjms.connection.pool.options import PoolOptions
from pyjms.settings.section import Section

__all__ = ["PoolSettings"]


def _patience(value: object) -> float | None:
    if value is None:
        return None
    seconds = read_duration(value)
    return None if seconds < 0 else seconds


def _patience_text(seconds: float | None) -> str:
    return "-1" if seconds is None else f"{seconds:g}s"


Patience = Annotated[
    float | None,
    BeforeValidator(_patience),
    PlainSerializer(_patience_text, when_used="json"),
    duration_schema("a duration with its unit: 500ms, 30s, 5m, 1h; -1 waits for ever"),
]
"""Seconds to wait; None, written -1 as in Spring Boot: for ever."""


def _or_never(value: object) -> object:
    """Return Spring Boot's -1 as 0."""
    return 0 if read_duration(value) < 0 else value


class PoolSettings(Section):
    """A pool of connections, for template and listeners. Spring: spring.activemq.pool."""

    enabled: bool = False
    """Whether connections are pooled (JmsPoolConnectionFactory); then jms.cache has no effect."""
    max_connections: int = Field(default=1, ge=1)
    """Maximum number of connections, shared round-robin."""
    max_sessions_per_connection: int = Field(default=500, ge=-1)
    """Maximum number of sessions in use per connection and acknowledge mode; -1: no limit."""
    idle_timeout: Duration = 30.0
    """Time after which an unused connection is closed; 0: never."""
    expiry_timeout: Duration = 0.0
    """Age at which a connection is replaced once it is unused; 0: no limit."""
    connection_timeout: Deadline = 30.0
    """Maximum wait for a connection to be opened; 0: no limit."""
    block_if_full: bool = True
    """Whether to wait for a session while all are in use; false: raise an error."""
    block_if_full_timeout: Patience = None
    """Maximum wait for a session; -1: no limit."""
    create_connection_on_startup: bool = True
    """Whether the first connection is opened when the application starts."""
    use_anonymous_producers: bool = True
    """Whether the producers of a session share one anonymous producer."""
    explicit_producer_cache_size: int = Field(default=0, ge=0)
    """Number of producers that a session keeps open if they are not shared."""
    reconnect_on_exception: bool = True
    """Whether a connection that reports an exception is replaced at once."""
    time_between_expiration_check: Annotated[Duration, BeforeValidator(_or_never)] = 0.0
    """Interval between checks of unused connections in the background; 0 or -1: only when
    connections are borrowed and returned."""

    def options(self) -> PoolOptions:
        """Return these settings as options of a pool."""
        return PoolOptions(**self.model_dump(exclude={"enabled"}))
