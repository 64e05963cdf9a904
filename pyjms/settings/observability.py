"""The sections of traces, metrics, health checks and logs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, SecretStr

from pyjms._yaml import DescribedModel, Duration
from pyjms.settings.section import Section, Text

__all__ = ["HealthSettings", "LoggingSettings", "ObservabilitySettings"]

LevelName = Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"]
Level = Annotated[LevelName, BeforeValidator(lambda value: str(value).upper())]


class ObservabilitySettings(Section):
    """Traces and metrics of sends and handlers (`observability`)."""

    tracing: bool = False
    """Whether OpenTelemetry spans are recorded and the trace context is sent in messages (extra
    otel)."""
    metrics: bool = False
    """Whether OpenTelemetry's messaging metrics are recorded (extra otel)."""
    prometheus: bool = False
    """Whether Prometheus metrics are collected, for /metrics (extra prometheus)."""


class HealthSettings(Section):
    """The health checks of the application (`health`)."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """The port of /health/live, /health/ready, /health/started and, with observability.prometheus,
    /metrics; 0: a free one; not set: none (needs the extra web)."""
    host: Text = "0.0.0.0"  # noqa: S104 - probes of an orchestrator come from outside
    """The address to listen on; 127.0.0.1: this machine only."""
    control_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """The token that requests to /listeners on that port must send (Authorization: Bearer TOKEN) to
    pause, resume and scale listeners; not set: such requests are refused."""
    probe_timeout: Duration | None = 5.0
    """Maximum time for a broker outside the application to accept a connection from /health/ready;
    the application is not ready while one does not. Not set: brokers are not probed."""
    stuck_after: Duration | None = 300.0
    """Time that a handler may run while messages wait, before its listener counts as stuck and the
    application as not ready; not set: no limit."""


class LoggingSettings(DescribedModel):
    """Logging of `pyjms run` (`logging`); all other keys are logger names with their levels."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Level] = Field(init=False)

    format: Literal["text", "json"] = "text"
    """text, or json: one object per line, with the id and destination of the message being
    handled."""
    tracebacks: bool = False
    """Whether the first failure of a message is logged with the handler's traceback."""

    @property
    def levels(self) -> dict[str, str]:
        """The levels by logger name; root: all loggers."""
        return dict(self.__pydantic_extra__)
