"""The sections of prefetch and redelivery, and the retry policies of listeners."""

from __future__ import annotations

import builtins
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from pyjms.client.options import PrefetchPolicy, RedeliveryPolicy
from pyjms.configuration.section import Section, Text
from pyjms.configuration.units import Duration
from pyjms.errors import ConfigurationException
from pyjms.support.class_names import imported_class
from pyjms.support.retry import apply_redelivery

PrefetchSize = Annotated[int, Field(ge=0, le=32767)]


class PrefetchSettings(Section):
    """Messages sent ahead, by kind of consumer. ActiveMQ: ActiveMQPrefetchPolicy."""

    queue: PrefetchSize | None = None
    """For each consumer of a queue; not set: 1000."""
    queue_browser: PrefetchSize | None = None
    """For each browser; not set: 500."""
    topic: PrefetchSize | None = None
    """For each consumer of a topic; not set: 32767."""
    durable_topic: PrefetchSize | None = None
    """For each durable subscriber; not set: 100."""
    optimize_durable_topic: PrefetchSize | None = None
    """For each durable subscriber of an AUTO session; not set: 1000."""
    maximum_pending_message_limit: int | None = Field(default=None, ge=0)
    """Messages beyond the prefetch that the broker keeps for a slow consumer of a topic; 0: the
    broker's limit."""

    def apply(self, policy: PrefetchPolicy) -> None:
        """Copy the configured values to a policy; its other values stay."""
        for name, value in self.model_dump(exclude_none=True).items():
            attribute = name if name.startswith("maximum") else f"{name}_prefetch"
            setattr(policy, attribute, value)


class RedeliverySettings(Section):
    """Redelivery of messages whose handler failed. ActiveMQ: RedeliveryPolicy."""

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit; not set: 6."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier; not set: 1s."""
    delay: Duration | None = None
    """Time before each later redelivery without a multiplier; not set: as initial_delay."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor between successive delays; not set, or 1: constant delay."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Random variation of each delay, as a fraction such as 0.15."""
    pre_dispatch_check: bool | None = None
    """Whether transacted listeners make a message that arrives after too many deliveries a dead
    letter before its handler is called; not set: true."""

    def apply(self, policy: RedeliveryPolicy) -> RedeliveryPolicy:
        """Return a copy of `policy` with the keys that are set here."""
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
    """The changes to a listener's RetryPolicy (`listeners.<id>.retry`), or the policy of listeners
    without their own (`jms.listener.retry`).
    """

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor between successive delays; 1: constant delay."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Random variation of each delay, as a fraction such as 0.15."""
    retry_on: list[Text] | None = None
    """Exceptions after which the message is redelivered, as module.Class or the name of a built-in
    exception; after any other, it becomes a dead letter at once."""
    no_retry_for: list[Text] | None = None
    """Exceptions after which the message is not redelivered but becomes a dead letter at once."""
    dead_letter: Text | None = None
    """The destination of this listener's dead letters; not set: the broker's."""

    def changes(self) -> dict[str, Any]:
        """Return the keys that are set, under the names of RetryPolicy's fields.

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
