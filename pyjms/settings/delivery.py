"""The sections of prefetch and redelivery, and the retry policies of listeners."""

from __future__ import annotations

import builtins
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from pyjms._yaml import Duration
from pyjms.client.options import PrefetchPolicy, RedeliveryPolicy
from pyjms.errors import ConfigurationException
from pyjms.settings.section import Section, Text
from pyjms.support.class_names import imported_class
from pyjms.support.retry import apply_redelivery

__all__ = ["PrefetchSettings", "PrefetchSize", "RedeliverySettings", "RetrySettings"]


PrefetchSize = Annotated[int, Field(ge=0, le=32767)]


class PrefetchSettings(Section):
    """Messages sent ahead, by kind of consumer. ActiveMQ: ActiveMQPrefetchPolicy."""

    queue: PrefetchSize | None = None
    """To each consumer of a queue; not set: 1000."""
    queue_browser: PrefetchSize | None = None
    """To each browser; not set: 500."""
    topic: PrefetchSize | None = None
    """To each consumer of a topic; not set: 32767."""
    durable_topic: PrefetchSize | None = None
    """To each durable subscriber; not set: 100."""
    optimize_durable_topic: PrefetchSize | None = None
    """To each durable subscriber of an auto session; not set: 1000."""
    maximum_pending_message_limit: int | None = Field(default=None, ge=0)
    """Messages that the broker keeps for a slow consumer of a topic, beyond those; 0: its own
    limit."""

    def apply(self, policy: PrefetchPolicy) -> None:
        """Set what is set here; the rest stays as it is."""
        for name, value in self.model_dump(exclude_none=True).items():
            attribute = name if name.startswith("maximum") else f"{name}_prefetch"
            setattr(policy, attribute, value)


class RedeliverySettings(Section):
    """When a message whose handler failed is delivered again. ActiveMQ: RedeliveryPolicy."""

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit; not set: 6."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier; not set: 1s."""
    delay: Duration | None = None
    """Time before each later redelivery without a multiplier; not set: as initial_delay."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor by which each further delay is longer; not set, or 1: all are equal."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Share by which each delay varies at random, such as 0.15."""
    pre_dispatch_check: bool | None = None
    """Whether messages that arrive with too many deliveries become dead letters before their
    handler is called, where listeners are transacted; not set: true."""

    def apply(self, policy: RedeliveryPolicy) -> RedeliveryPolicy:
        """Return a policy with what is set here, and the rest of `policy`."""
        return apply_redelivery(
            policy, self, delay=self.delay, pre_dispatch_check=self.pre_dispatch_check
        )

    def without_delays(self) -> Self:
        """Return the same settings with only the maximum."""
        return type(self)(maximum=self.maximum, pre_dispatch_check=self.pre_dispatch_check)

    @model_validator(mode="after")
    def _check_delays(self) -> Self:
        first, most = self.initial_delay, self.max_delay
        if first is not None and most is not None and most < first:
            raise ValueError(f"max_delay ({most:g}s) is less than initial_delay ({first:g}s)")
        return self


class RetrySettings(Section):
    """Changes to the RetryPolicy of one listener (`listeners.<id>.retry`), or that of all that
    have none (`jms.listener.retry`).
    """

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor by which each further delay is longer; 1: all are equal."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Share by which each delay varies at random, such as 0.15."""
    retry_on: list[Text] | None = None
    """Exceptions after which there is another attempt, as module.Class or the name of a built-in
    one; after others the message is a dead letter at once."""
    no_retry_for: list[Text] | None = None
    """Exceptions after which there is none."""
    dead_letter: Text | None = None
    """The destination of this listener's dead letters; not set: the broker's."""

    def changes(self) -> dict[str, Any]:
        """Return what is set, by the names of a RetryPolicy.

        Raises:
            ConfigurationException: the class of an exception cannot be imported.
        """
        given = self.model_dump(exclude_none=True)
        for name in ("retry_on", "no_retry_for"):
            if name in given:
                given[name] = tuple(_exception_class(text, name) for text in given[name])
        return given


def _exception_class(text: str, setting: str) -> type[BaseException]:
    found = getattr(builtins, text, None) if "." not in text else imported_class(text, setting)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        raise ConfigurationException(
            f"{setting}: {text!r} is not an exception", hint="write module.Class"
        )
    return found
