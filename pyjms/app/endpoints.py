"""The batches and retry policies of listeners, and checks for combinations that cannot work.

The jobs of `@jms_scheduled`, which are created on the brokers when the application starts.

If a broker cannot be reached at that time, its jobs are created as soon as it can be reached; after
an outage they are created again, because the broker may have lost them. Existing jobs are kept.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from pyjms.configuration.document import Problems
from pyjms.configuration.placeholders import UnknownPlaceholder
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, JMSException, UnsupportedOperationException
from pyjms.jms.api import Session
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.listener.annotation import (
    NEVER,
    JmsListenerMark,
    Schedule,
    idempotent_mark,
    send_to_destination,
)
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.handler import HandlerListener, SessionTypes
from pyjms.listener.outages import Outages, is_connection_failure
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.settings import PyjmsSettings
from pyjms.settings.listeners import ListenerOverride
from pyjms.support.retry import RetryPolicy
from pyjms.template import scheduling

__all__ = [
    "HandlerProblems",
    "Schedules",
    "check_retry",
    "default_retry",
    "handler_name",
    "make_handler_listener",
    "refuse_replies",
    "resolved_schedule",
    "session_types",
    "wanted_batch_size",
    "wanted_retry",
]

logger: Final = get_logger(__name__)

_INTERVAL: Final = 5.0
"""Seconds between attempts, and between checks for the end of an outage."""

MakeTemplate = Callable[[Any], Any]


def resolved_schedule(
    mark: Schedule | None, own: ListenerOverride | None, resolve: Callable[[str], str]
) -> Schedule | None:
    """Return a mark's schedule with the changes of the settings, and a valid cron entry.

    Raises:
        ConfigurationException: the settings set a schedule for a listener without one.
        ValueError: the cron entry is invalid.
    """
    cron, rate = (None, None) if own is None else (own.cron, own.fixed_rate)
    if mark is None:
        if cron is not None or rate is not None:
            raise ConfigurationException(
                "cron and fixed_rate apply to @jms_scheduled only", hint="mark its handler with it"
            )
        return None
    if cron is not None:
        mark = replace(mark, cron=cron, fixed_rate=None)
    elif rate is not None:
        mark = replace(mark, cron=None, fixed_rate=rate)
    if mark.cron is None:
        return mark
    from pyjms.jms.cron import normalized_cron  # noqa: PLC0415 - few applications have schedules

    text = resolve(mark.cron).strip()
    return replace(mark, cron=text if text == NEVER else normalized_cron(text))


class Schedules:
    """The jobs of one application. Use it on the application's loop.

    `template_of` returns the template for the connection factory of a container.
    """

    def __init__(self, outages: Outages, startup_timeout: float, template_of: MakeTemplate) -> None:
        self._outages = outages
        self._startup_timeout = startup_timeout
        self._template_of = template_of
        self._jobs: list[tuple[AbstractMessageListenerContainer, Schedule]] = []
        self._waiting: list[tuple[AbstractMessageListenerContainer, Schedule]] = []
        self._task: BackgroundTask | None = None

    async def start(
        self, jobs: Iterable[tuple[AbstractMessageListenerContainer, Schedule]]
    ) -> None:
        """Create the jobs, and keep them. Jobs that wait for their broker are created later.

        Raises:
            ConfigurationException: a broker has no scheduler.
            JMSException: a broker refused a job.
        """
        self._jobs = list(jobs)
        if not self._jobs:
            return
        for job in self._jobs:
            with _clock.timeout(self._startup_timeout) as scope:
                if await self._made(*job):
                    continue
            if scope.cancelled_caught:
                logger.warning("The schedule of %s waits for its broker", job[0].bean_name)
            self._waiting.append(job)
        self._task = spawn(self._keep, name="pyjms schedules")

    async def stop(self) -> None:
        """Stop creating jobs. Existing jobs stay on the brokers. Idempotent."""
        task, self._task = self._task, None
        self._waiting.clear()
        await end_tasks(task)

    async def _keep(self) -> None:
        seen = {id(c): self._restorations(c) for c, _ in self._jobs}
        while True:
            await _clock.sleep(_INTERVAL)
            for container, schedule in self._jobs:
                restorations = self._restorations(container)
                job = (container, schedule)
                if seen[id(container)] == restorations and job not in self._waiting:
                    continue
                try:
                    done = await self._made(container, schedule)
                except JMSException as error:
                    logger.error(
                        "The schedule of %s cannot be created: %s", container.bean_name, error
                    )
                    done = True
                if done:
                    seen[id(container)] = restorations
                    self._waiting = [other for other in self._waiting if other != job]

    async def _made(self, container: AbstractMessageListenerContainer, schedule: Schedule) -> bool:
        """Create a job, or remove it if it is never due; False: the broker cannot be reached."""
        name = str(container.bean_name)
        factory = container.require_connection_factory()
        scheduler = scheduling.JmsScheduler(self._template_of(factory))
        try:
            if schedule.cron == NEVER:
                await scheduler.cancel_named(name)
                return True
            await scheduler.schedule(
                container.destination or container.destination_name,
                schedule.payload,
                cron=schedule.cron,
                fixed_rate=schedule.fixed_rate,
                initial_delay=schedule.initial_delay,
                name=name,
                time_to_live=schedule.expires,
            )
        except UnsupportedOperationException as error:
            raise ConfigurationException(
                f"@jms_scheduled {name}: {error.reason}: {self._outages.of(factory).broker}",
                hint=error.hint,
            ) from error
        except JMSException as error:
            if is_connection_failure(error):
                return False
            raise
        logger.info("Scheduled: %s %s", name, schedule)
        return True

    def _restorations(self, container: AbstractMessageListenerContainer) -> int:
        return self._outages.of(container.require_connection_factory()).restorations


# --- Problems of handlers, each with the file and line of the function.

_TEXTS: Final = (
    "destination",
    "id",
    "container_factory",
    "subscription",
    "selector",
    "concurrency",
)


class HandlerProblems:
    """Adds the problems of one handler to those of a check.

    Args:
        handler: the function.
        problems: the problems of the whole check.
        is_partial: settings are missing, so that unknown placeholders are not reported.
    """

    def __init__(
        self, handler: Callable[..., Any], problems: Problems, *, is_partial: bool
    ) -> None:
        self._problems = problems
        self._is_partial = is_partial
        self._handler = handler
        self.name: str = handler_name(handler)

    def add(self, error: JMSException | ValueError, prefix: str = "") -> None:
        """Add each problem of an error, with file, line and `prefix` before its text."""
        source, line = _location(self._handler)
        where = f"{source}:{line}: " if source else ""
        for problem in error.problems if isinstance(error, ConfigurationException) else (error,):
            reason, hint = str(problem), ""
            if isinstance(problem, JMSException):
                reason, hint = problem.reason, problem.hint
            if isinstance(problem, UnknownPlaceholder) and self._is_partial:
                continue
            self._problems.add(
                ConfigurationException(
                    f"{where}{prefix}{reason}", source=source, line=line, hint=hint
                )
            )

    @contextmanager
    def caught(self, prefix: str = "") -> Iterator[None]:
        """Add the error that the block raises."""
        try:
            yield
        except (JMSException, ValueError) as error:
            self.add(error, prefix)

    def resolved(
        self, mark: JmsListenerMark, resolve: Callable[[str], str]
    ) -> dict[str, Any] | None:
        """Return the mark's texts with placeholders replaced; None if some cannot be."""
        texts: dict[str, Any] = {}
        for name in _TEXTS:
            with self.caught():
                text = getattr(mark, name)
                texts[name] = None if text is None else resolve(text)
        if len(texts) < len(_TEXTS):
            return None
        factory = texts["container_factory"] or None
        return {**texts, "id": texts["id"] or "", "container_factory": factory}


def handler_name(handler: Callable[..., Any]) -> str:
    """Return the module and name of a handler."""
    return f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"


def _location(handler: Callable[..., Any]) -> tuple[str | None, int | None]:
    """Return file and line of a function; the file relative to the current directory if inside."""
    code = getattr(inspect.unwrap(handler), "__code__", None)
    if code is None:
        return None, None
    path = os.path.relpath(code.co_filename)
    return code.co_filename if path.startswith(os.pardir) else path, code.co_firstlineno


_CONSUMED_ON_RECEIPT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)


def wanted_batch_size(mark: JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the batch size of a listener, from YAML or its mark; None: it is not set."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.batch_size


def make_handler_listener(
    handler: Callable[..., Any], batch_size: int | None, **options: Any
) -> HandlerListener:
    """Return the listener that calls a handler: plain, idempotent, or for batches.

    Raises:
        ConfigurationException: the handler cannot be called in this way.
    """
    mark = idempotent_mark(handler)
    if batch_size is not None:
        if mark is not None:
            raise ConfigurationException(
                f"Handler {handler_name(handler)}: a batch has no key, so @idempotent has "
                "no effect",
                hint="remove @idempotent, and record the messages with pyjms.outbox.record",
            )
        from pyjms.listener.batches import BatchHandlerListener  # noqa: PLC0415 - few have batches

        return BatchHandlerListener(handler, **options)
    if mark is not None:
        from pyjms.listener.idempotency import IdempotentHandlerListener  # noqa: PLC0415 - rare

        return IdempotentHandlerListener(handler, mark=mark, **options)
    return HandlerListener(handler, **options)


def refuse_replies(handler: Callable[..., Any], batch_size: int | None) -> None:
    """Refuse `@send_to` on a batch handler.

    Raises:
        ConfigurationException: the handler has a `@send_to`.
    """
    if batch_size is not None and send_to_destination(handler) is not None:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: a batch handler has no reply, so @send_to "
            "has no effect",
            hint="remove @send_to, and send with a template",
        )


def default_retry(settings: PyjmsSettings) -> RetryPolicy | None:
    """Return the policy of `jms.listener.retry`; None: there is none.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers contradict each other.
    """
    section = settings.jms.listener.retry
    return None if section is None else _resolved(RetryPolicy(**section.changes()), settings)


def wanted_retry(
    endpoint: JmsListenerEndpoint,
    factory: Any,
    own: ListenerOverride | None,
    settings: PyjmsSettings,
) -> RetryPolicy | None:
    """Return a listener's retry policy: its decorator's, or else the default of all listeners.

    The changes in `listeners.<id>.retry` are applied. None: the listener has no policy.

    Args:
        endpoint: the listener, whose `retry` is the decorator's.
        factory: its container factory.
        own: the settings `listeners.<id>`.
        settings: the settings of the application.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers contradict each other.
    """
    policy = endpoint.retry
    redelivery = None if own is None else own.redelivery
    if redelivery is not None and policy is not None:
        raise ConfigurationException(
            "listeners.<id>.redelivery would conflict with the decorator's retry",
            hint="write listeners.<id>.retry instead",
        )
    if policy is None and redelivery is None:
        policy = _default_of(endpoint, factory, settings)
    if own is not None and own.retry is not None:
        policy = (policy or RetryPolicy()).merged(own.retry.changes())
    if policy is None:
        return None
    policy = _resolved(policy, settings)
    return policy if settings.has_retry_delays else policy.without_delays()


def _default_of(
    endpoint: JmsListenerEndpoint, factory: Any, settings: PyjmsSettings
) -> RetryPolicy | None:
    """Return the default policy without the attributes that have no effect on a listener."""
    try:
        policy = default_retry(settings)
    except (JMSException, ValueError) as error:  # the check of the settings reports it, once
        logger.debug("jms.listener.retry has no effect: %s", error)
        return None
    if policy is None or _consumes_on_receipt(endpoint, factory):
        return None
    if policy.dead_letter is not None and _same(policy.dead_letter, endpoint.destination):
        return replace(policy, dead_letter=None)
    return policy


def _resolved(policy: RetryPolicy, settings: PyjmsSettings) -> RetryPolicy:
    if policy.dead_letter is None:
        return policy
    name = settings.resolve_placeholders(policy.dead_letter)
    named_kind(name)
    parse_destination(name)
    return policy.merged({"dead_letter": name})


def check_retry(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a retry policy that has no effect in the containers of a factory.

    Raises:
        ConfigurationException: messages are consumed even if the handler fails, or the dead
            letters would be sent to the listener itself.
    """
    policy = endpoint.retry
    if policy is None or not isinstance(getattr(factory, "options", None), dict):
        return
    if _consumes_on_receipt(endpoint, factory):
        raise ConfigurationException(
            "retry: messages count as consumed even if the handler fails",
            hint="make the listener's session transacted, or set its acknowledge_mode to client",
        )
    if policy.dead_letter is not None and _same(policy.dead_letter, endpoint.destination):
        raise ConfigurationException(
            f"retry: dead_letter {policy.dead_letter!r} is the listener's own destination",
            hint="set another destination, or omit dead_letter",
        )


def _consumes_on_receipt(endpoint: JmsListenerEndpoint, factory: Any) -> bool:
    """Return whether messages count as consumed even if the handler fails; False if unknown."""
    options = getattr(factory, "options", None)
    if not isinstance(options, dict):
        return False
    given = {**options, **endpoint.properties}
    is_transacted = given.get("session_transacted") or given.get("transaction_manager")
    mode = given.get("session_acknowledge_mode", AcknowledgeMode.AUTO)
    return not is_transacted and mode in (*_CONSUMED_ON_RECEIPT, "AUTO_ACKNOWLEDGE")


def _same(one: str, other: str) -> bool:
    return parse_destination(one) == parse_destination(other)


def session_types(handler: Callable[..., Any]) -> SessionTypes:
    """Return the session types of a handler: a coroutine cannot use the blocking session."""
    if inspect.iscoroutinefunction(handler):
        return {Session: lambda session: session}
    from pyjms.sync.session import Session as BlockingSession  # noqa: PLC0415 - not for coroutines

    return {Session: lambda session: session, BlockingSession: BlockingSession.of}
