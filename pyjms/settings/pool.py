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
    """Connections, which are shared in turn."""
    max_sessions_per_connection: int = Field(default=500, ge=-1)
    """Sessions in use on one connection, in each acknowledge mode; -1: no limit."""
    idle_timeout: Duration = 30.0
    """How long an unused connection stays open; 0: for ever."""
    expiry_timeout: Duration = 0.0
    """How old a connection gets before it is replaced, once nobody uses it; 0: any age."""
    connection_timeout: Deadline = 30.0
    """How long to wait for a connection to be opened; 0: for ever."""
    block_if_full: bool = True
    """Whether to wait for a session while all are in use; false: that is an error."""
    block_if_full_timeout: Patience = None
    """How long to wait then; -1: for ever."""
    create_connection_on_startup: bool = True
    """Whether the first connection is opened when the application starts."""
    use_anonymous_producers: bool = True
    """Whether all producers of a session share one that has no destination of its own."""
    explicit_producer_cache_size: int = Field(default=0, ge=0)
    """Producers that a session keeps open where they are not shared."""
    reconnect_on_exception: bool = True
    """Whether a connection that reports an exception is replaced at once."""
    time_between_expiration_check: Annotated[Duration, BeforeValidator(_or_never)] = 0.0
    """How often unused connections are checked in the background; 0 or -1: only when connections
    are taken and given back."""

    def options(self) -> PoolOptions:
        """Return the same as options of a pool."""
        return PoolOptions(**self.model_dump(exclude={"enabled"}))
