"""Checks before anything connects: of settings, of listeners' texts, and of their combinations."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from pyjms.app.brokers import native_factory
from pyjms.app.interceptors import named_interceptors
from pyjms.app.objects import ApplicationObjects, make_client_factory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.configuration.document import Problems
from pyjms.configuration.placeholders import UnknownPlaceholder
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, JMSException, nearest_name
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms.listener.call_limits import check_call_limits
from pyjms.listener.decorators import JmsListenerMark
from pyjms.listener.endpoint import (
    JmsListenerEndpoint,
    SimpleJmsListenerContainerFactory,
    client_id_of,
)
from pyjms.listener.handler import returns_nothing
from pyjms.listener.properties import (
    batches_can_be_acknowledged,
    check_batches,
    invalid_concurrency,
    parse_concurrency,
)
from pyjms.runtime.logging import get_logger
from pyjms.selector import selector_or_none
from pyjms.settings import PyjmsSettings
from pyjms.settings.listeners import ListenerOverride
from pyjms.support.class_names import imported_class
from pyjms.support.retry import RetryPolicy
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

# --- A listener as its container will be, and the combinations of settings that can never work.

logger: Final = get_logger(__name__)

_TOPIC_OPTIONS = ("pub_sub_domain", "subscription_durable", "subscription_shared")
_CONSUMED_ON_RECEIPT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK, "AUTO_ACKNOWLEDGE")


def options_of(factory: Any) -> dict[str, Any] | None:
    """Return the options of a factory's containers; None: a class that the application defines."""
    options = getattr(factory, "options", None)
    return options if isinstance(options, dict) else None


class PlannedListener:
    """An endpoint with its container factory, whose options apply where the endpoint has none.

    What containers of a factory class of the application do is unknown, and is not checked.
    """

    def __init__(self, endpoint: JmsListenerEndpoint, factory: Any) -> None:
        given = options_of(factory)
        self.endpoint = endpoint
        self.factory = factory
        self.is_known: bool = given is not None
        """Whether the options of the containers are known."""
        self.options: dict[str, Any] = {**(given or {}), **endpoint.properties}
        self.name: str = repr(endpoint.id or endpoint.destination)

    def checks(self) -> Iterable[Callable[[], None]]:
        """Return the checks, each of which raises ConfigurationException or ValueError.

        Without a destination, which is reported separately, there is no container to check.
        """
        if not self.endpoint.destination.strip():
            return ()
        if not self.is_known:
            return (self.check_kinds,)
        return (
            self.check_kinds,
            self._check_properties,
            self._check_subscription,
            self._check_retry,
        )

    def check_kinds(self) -> None:
        """Refuse a listener with both queues and topics."""
        text = self.endpoint.destination
        members = parse_destination(text, self.kind).composite_destinations
        if len({member.is_topic for member in members}) > 1:
            raise ConfigurationException(
                f"{text!r}: one consumer cannot receive from queues and topics",
                hint="write one @jms_listener for the queues and one for the topics",
            )

    def _check_properties(self) -> None:
        """Refuse properties that the factory's containers do not have."""
        endpoint, kind = self.endpoint, self.factory.KIND
        for name in (*endpoint.properties, *endpoint.provided):
            if name not in kind.OPTIONS:
                near = nearest_name(name, kind.OPTIONS)
                raise ConfigurationException(
                    f"{name}: a {kind.__name__} has no such property",
                    hint=f"did you mean {near}?" if near else "name another container_factory",
                )
        self._check_batches()
        self._check_calls()
        if endpoint.prefetch == 0 and self._pushes:
            raise ConfigurationException(
                "prefetch 0: a SimpleMessageListenerContainer cannot pull messages",
                hint="set 1 or more",
            )

    def _check_calls(self) -> None:
        """Refuse limits of calls, and replies, that the container or the handler cannot have."""
        endpoint = self.endpoint
        check_call_limits(endpoint.timeout, endpoint.rate_limit)
        if endpoint.rate_limit is not None and self._pushes:
            raise ConfigurationException(
                "rate_limit: a SimpleMessageListenerContainer handles messages as they arrive",
                hint="use a DefaultJmsListenerContainerFactory",
            )
        if not endpoint.reply_none:
            return
        handler = getattr(endpoint, "handler", None)
        if handler is None or returns_nothing(handler):
            raise ConfigurationException(
                "reply_none: a handler that is annotated `-> None` does not reply",
                hint="omit reply_none, or annotate what the handler returns, as in `-> int | None`",
            )

    @property
    def _pushes(self) -> bool:
        return isinstance(self.factory, SimpleJmsListenerContainerFactory)

    def _check_batches(self) -> None:
        """Refuse batches that the containers cannot form or acknowledge."""
        endpoint, options = self.endpoint, self.options
        size = options.get("batch_size") if endpoint.batch_size is None else endpoint.batch_size
        timeout, prefetch = endpoint.batch_timeout, endpoint.prefetch
        check_batches(
            size,
            options.get("batch_timeout") if timeout is None else timeout,
            options.get("prefetch") if prefetch is None else prefetch,
        )
        if size is None:
            return
        for option, is_set in (
            ("errors", endpoint.errors == "reply"),
            ("reply_none", endpoint.reply_none),
        ):
            if is_set:
                raise ConfigurationException(
                    f"{option}: a batch handler has no replies",
                    hint=f"omit {option}, or batch_size",
                )
        if self._pushes:
            raise ConfigurationException(
                "batch_size: a SimpleMessageListenerContainer calls its listener with each message",
                hint="use a DefaultJmsListenerContainerFactory",
            )
        if not batches_can_be_acknowledged(transacted=self._is_transacted, mode=self._mode):
            raise ConfigurationException(
                "batch_size: its messages would count as consumed before the handler gets them",
                hint="make the listener's session transacted (listeners.<id>.session.transacted, "
                "jms.listener.session.transacted), or set its acknowledge_mode to client",
            )

    def _check_subscription(self) -> None:
        """Refuse a named subscription that is not durable, and a durable one that cannot start."""
        endpoint, is_topic = self.endpoint, self.kind is Topic
        if endpoint.durable and not is_topic:
            raise ConfigurationException(
                "durable: a queue has no subscriptions", hint="write topic://NAME, or only the name"
            )
        if endpoint.subscription and not is_topic:
            raise ConfigurationException(
                f"subscription {endpoint.subscription!r}: a queue has no subscriptions",
                hint="write topic://NAME, or use a container factory whose names mean topics "
                "(jms.pub_sub_domain)",
            )
        if endpoint.subscription and not self.is_durable:
            raise ConfigurationException(
                f"subscription {endpoint.subscription!r}: its container factory creates "
                "no durable subscriptions",
                hint="set durable on this listener, or jms.subscription_durable; and jms.client_id",
            )
        if not is_topic or not self.is_durable:
            return
        if endpoint.concurrency is not None and parse_concurrency(endpoint.concurrency)[1] > 1:
            raise ConfigurationException(
                f"concurrency {endpoint.concurrency}: a durable subscription has one consumer",
                hint="set 1, or share the queue Consumer.NAME.VirtualTopic.X instead",
            )
        if endpoint.durable or endpoint.container_factory:  # the default is checked in the settings
            check_client_id(self.factory, self.options)

    def _check_retry(self) -> None:
        """Refuse options for failures without effect, and dead letters sent to the listener."""
        policy = self.endpoint.retry
        option = "retry" if policy is not None else "errors"
        if policy is None and self.endpoint.errors != "reply":
            return
        if self.consumes_on_receipt:
            raise ConfigurationException(
                f"{option}: messages count as consumed even if the handler fails",
                hint="make the listener's session transacted, or set its acknowledge_mode to "
                "client",
            )
        if policy is not None and self._is_own_destination(policy.dead_letter):
            raise ConfigurationException(
                f"retry: dead_letter {policy.dead_letter!r} is the listener's own destination",
                hint="set another destination, or omit dead_letter",
            )

    def durable_subscription(self) -> tuple[object, ...] | None:
        """Return broker, client id and name of the durable subscription; None: there is none."""
        if not self.is_known or not self.is_durable or self.kind is not Topic:
            return None
        uri = getattr(self.factory.connection_factory, "uri", None)
        broker = id(self.factory) if uri is None else str(uri)
        client_id = _client_id(self.factory, self.options)
        name = self.endpoint.subscription or self.endpoint.default_subscription_name()
        return broker, client_id, name

    def retry(self, own: ListenerOverride | None, settings: PyjmsSettings) -> RetryPolicy | None:
        """Return the retry policy: its decorator's, or else the default of all listeners.

        The changes in `listeners.<id>.retry`, which is in `own`, are applied. None: the listener
        has no policy.

        Raises:
            ConfigurationException: an exception or the dead-letter destination is not known.
            ValueError: its numbers contradict each other.
        """
        policy = self.endpoint.retry
        redelivery = None if own is None else own.redelivery
        if redelivery is not None and policy is not None:
            raise ConfigurationException(
                "listeners.<id>.redelivery would conflict with the decorator's retry",
                hint="write listeners.<id>.retry instead",
            )
        if policy is None and redelivery is None:
            policy = self._default_retry(settings)
        if own is not None and own.retry is not None:
            policy = (policy or RetryPolicy()).with_changes(own.retry.changes())
        if policy is None:
            return None
        policy = _with_dead_letter(policy, settings)
        return policy if settings.has_retry_delays else policy.without_delays()

    def _default_retry(self, settings: PyjmsSettings) -> RetryPolicy | None:
        """Return the default policy without the attributes that have no effect on the listener."""
        try:
            policy = default_retry(settings)
        except (JMSException, ValueError) as error:  # the check of the settings reports it, once
            logger.debug("jms.listener.retry has no effect: %s", error)
            return None
        if policy is None or (self.is_known and self.consumes_on_receipt):
            return None
        return (
            replace(policy, dead_letter=None)
            if self._is_own_destination(policy.dead_letter)
            else policy
        )

    @property
    def kind(self) -> type[Destination]:
        kind: type[Destination] | None = named_kind(self.endpoint.destination)
        if kind is not None:
            return Topic if issubclass(kind, Topic) else Queue
        own = self.endpoint.properties.get("pub_sub_domain")
        topics = self.endpoint.durable or (
            any(self.options.get(name) for name in _TOPIC_OPTIONS) if own is None else own
        )
        return Topic if topics else Queue

    @property
    def is_durable(self) -> bool:
        if self.endpoint.durable is not None:
            return self.endpoint.durable
        names = ("subscription_durable", "durable_subscription_name")
        return any(self.options.get(name) for name in names)

    @property
    def _is_transacted(self) -> bool:
        return any(self.options.get(name) for name in ("session_transacted", "transaction_manager"))

    @property
    def _mode(self) -> Any:
        return self.options.get("session_acknowledge_mode", AcknowledgeMode.AUTO)

    @property
    def consumes_on_receipt(self) -> bool:
        """Whether messages count as consumed even if the handler fails."""
        return not self._is_transacted and self._mode in _CONSUMED_ON_RECEIPT

    def _is_own_destination(self, text: str | None) -> bool:
        return text is not None and (
            parse_destination(text) == parse_destination(self.endpoint.destination)
        )


def repeated_subscriptions(listeners: Iterable[PlannedListener]) -> Iterator[str]:
    """Yield a line for each durable subscription that two listeners have in common."""
    seen: dict[tuple[object, ...], PlannedListener] = {}
    for listener in listeners:
        key = listener.durable_subscription()
        first = listener if key is None else seen.setdefault(key, listener)
        if first is not listener and key is not None:
            yield (
                f"Listener {listener.name}: its durable subscription {key[-1]!r} is also that of "
                f"listener {first.name} (give each its own subscription)"
            )


def check_client_id(factory: Any, options: Mapping[str, Any]) -> None:
    """Refuse durable subscriptions without a client id."""
    if _client_id(factory, options):
        return
    if getattr(factory.connection_factory, "options", None) is not None:
        raise ConfigurationException(
            "A durable subscription needs a client id, and none is set",
            hint="set jms.client_id, or client_id under listeners.<id> or on the container factory",
        )


def _client_id(factory: Any, options: Mapping[str, Any]) -> str | None:
    return options.get("client_id") or client_id_of(factory.connection_factory)


def default_retry(settings: PyjmsSettings) -> RetryPolicy | None:
    """Return the policy of `jms.listener.retry`; None: there is none.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers contradict each other.
    """
    section = settings.jms.listener.retry
    return (
        None if section is None else _with_dead_letter(RetryPolicy(**section.changes()), settings)
    )


def _with_dead_letter(policy: RetryPolicy, settings: PyjmsSettings) -> RetryPolicy:
    """Return the policy with the placeholders of its dead-letter destination replaced."""
    if policy.dead_letter is None:
        return policy
    name = settings.resolve_placeholders(policy.dead_letter)
    named_kind(name)
    parse_destination(name)
    return policy.with_changes({"dead_letter": name})


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

    def resolve_texts(
        self, mark: JmsListenerMark, resolve: Callable[[str], str]
    ) -> dict[str, Any] | None:
        """Return the mark's texts with placeholders replaced; None if some cannot be."""
        given: dict[str, Any] = {"destination": mark.destination, **mark.options}
        texts: dict[str, Any] = {}
        for name in _TEXTS:
            with self.caught():
                text = given.get(name)
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


_MAPPINGS: Final = ("jms", "converter", "type_id_mappings")
_IDS_IN_A_HINT: Final = 5


def add_settings_problems(
    objects: ApplicationObjects, settings: PyjmsSettings, problems: Problems
) -> None:
    """Add the problems of URLs, mapped classes, listeners and durable subscriptions in settings."""
    known = len(problems.found)
    for path, provide in _brokers(objects, settings):
        with _collect_at(path, settings, problems):
            _check_transport(provide())
    for type_id, name in settings.jms.converter.type_id_mappings.items():
        with _collect_at((*_MAPPINGS, type_id), settings, problems):
            imported_class(name)
    for place in (("jms", "listener", "interceptors"), ("jms", "template", "interceptors")):
        section = settings.jms.listener if place[1] == "listener" else settings.jms.template
        _add_interceptor_problems(place, section.interceptors, settings, problems)
    with _collect_at(("jms", "listener", "retry"), settings, problems):
        default_retry(settings)
    for name, override in settings.listeners.items():
        own = override.interceptors or ()
        _add_interceptor_problems(("listeners", name, "interceptors"), own, settings, problems)
        with _collect_at(("listeners", name, "retry"), settings, problems):
            if override.retry is not None:
                override.retry.changes()
        texts = override.destination_text, override.concurrency, override.selector
        for key, check in _text_checks(*texts).items():
            with _collect_at(("listeners", name, key), settings, problems):
                check()
    for provider in objects.providers.values():
        if getattr(provider, "provides", None) is PyjmsSettings.bind_app:
            with problems.caught():
                provider()
    if len(problems.found) == known and not settings.is_incomplete:
        with problems.caught():
            objects.message_converter()
            factory = objects.jms_listener_container_factory()
            options = options_of(factory) or {}
            if options.get("subscription_durable"):
                check_client_id(factory, options)


def add_text_problems(
    endpoint: JmsListenerEndpoint, changes: Collection[str], found: HandlerProblems
) -> None:
    """Add the problems of destination, concurrency and selector, unless YAML replaces them."""
    destination = endpoint.destination.strip() or None
    if destination is None and "destination" not in changes:
        found.add(
            ConfigurationException(
                f"Handler {found.name}: its @jms_listener has no destination",
                hint="write the name of a queue or a topic, or a placeholder that is not empty",
            )
        )
    for key, check in _text_checks(destination, endpoint.concurrency, endpoint.selector).items():
        if key not in changes:
            with found.caught(f"Listener {endpoint.id or endpoint.destination!r}: "):
                check()


def add_unknown_overrides(settings: PyjmsSettings, ids: set[str], problems: Problems) -> None:
    """Add the entries of `listeners` whose id no listener has."""
    for name in settings.listeners:
        if name not in ids:
            near = nearest_name(name, ids)
            known = ", ".join(sorted(ids)[:_IDS_IN_A_HINT]) or "none"
            error = ConfigurationException(
                f"no @jms_listener has the id {name!r}",
                hint=f"did you mean {near!r}?" if near else f"ids here: {known}",
            )
            problems.add(settings.problem(("listeners", name), error))


def add_repeated_ids(endpoints: Iterable[JmsListenerEndpoint], problems: Problems) -> None:
    """Add a problem for each id that several endpoints have."""
    seen: dict[str, JmsListenerEndpoint] = {}
    for endpoint in endpoints:
        first = seen.setdefault(endpoint.id, endpoint) if endpoint.id else endpoint
        if first is not endpoint:
            source, line = _location(_listener_of(endpoint))
            problems.add(
                ConfigurationException(
                    f"Another endpoint is already registered with id '{endpoint.id}': "
                    f"{_describe(first)} and {_describe(endpoint)} have it",
                    hint="give each @jms_listener its own id",
                    source=source,
                    line=line,
                )
            )


def _listener_of(endpoint: JmsListenerEndpoint) -> Any:
    return getattr(endpoint, "handler", None) or getattr(endpoint, "message_listener", endpoint)


def place_of(endpoint: JmsListenerEndpoint) -> str:
    """Return `file:line: ` of an endpoint's handler, or an empty text."""
    source, line = _location(_listener_of(endpoint))
    return f"{source}:{line}: " if source else ""


def _describe(endpoint: JmsListenerEndpoint) -> str:
    """Return the destination of an endpoint, and where its handler is written."""
    source, line = _location(_listener_of(endpoint))
    return f"{endpoint.destination!r}" + (f" ({source}:{line})" if source else "")


def check_reply_destination(text: str, handler: Callable[..., Any]) -> None:
    """Check that the text of `@send_to` is a destination."""
    try:
        _check_destination(text)
    except JMSException as error:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: its @send_to: {error}"
        ) from error


def _add_interceptor_problems(
    path: tuple[str, ...], names: Iterable[str], settings: PyjmsSettings, problems: Problems
) -> None:
    for name in names:
        with _collect_at(path, settings, problems):
            named_interceptors([name])


@contextmanager
def _collect_at(
    path: tuple[str, ...], settings: PyjmsSettings, problems: Problems
) -> Iterator[None]:
    """Add the error that the block raises as a problem of the setting at `path`."""
    try:
        yield
    except (JMSException, ValueError) as error:
        problems.add(settings.problem(path, error))


def _text_checks(
    destination: str | None, concurrency: str | None, selector: str | None
) -> dict[str, Callable[[], object]]:
    """Return the check of each text, by its name."""
    checks: dict[str, Callable[[], object]] = {}
    if destination is not None:
        checks["destination"] = partial(_check_destination, destination)
    if concurrency is not None:
        checks["concurrency"] = partial(_check_concurrency, concurrency)
    if selector is not None:
        checks["selector"] = partial(selector_or_none, selector)
    return checks


def _check_destination(text: str) -> None:
    named_kind(text)
    parse_destination(text)


def _check_concurrency(text: str) -> None:
    lower, upper = parse_concurrency(text)
    if not 1 <= (upper if lower is None else lower) <= upper:
        raise invalid_concurrency(text)


def _brokers(
    objects: ApplicationObjects, settings: PyjmsSettings
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of each broker's URL, and a function that creates its connection factory."""
    yield ("activemq", "broker_url"), objects.native_connection_factory
    for name, broker in settings.brokers.items():
        yield ("brokers", name, "broker_url"), partial(make_client_factory, broker)


def _check_transport(factory: Any) -> None:
    """Check that a transport can be created for a factory's URL, without connecting."""
    uri = getattr(factory, "uri", None)
    if isinstance(uri, TransportURI):
        create_transport(uri)


# --- What `pyjms check` points out in listeners that are valid, but may surprise in production.

_LONG: Final = 60.0
"""Seconds for which one message may stop a listener without a hint."""


def hints_of(planned: PlannedListener) -> Iterator[str]:
    """Yield the hints on a valid listener."""
    native = native_factory(planned.factory)
    if native is None or not planned.is_known or planned.consumes_on_receipt:
        return  # another provider's redelivery is not known, or there is none
    if native.options.non_blocking_redelivery or _most_consumers(planned) > 1:
        return
    policy = _redelivery_policy(planned, native)
    seconds = policy.total_delay()
    if seconds > _LONG:
        times = policy.maximum_redeliveries
        yield (
            f"{place_of(planned.endpoint)}Listener {planned.name}: a message that keeps failing "
            f"stops its only consumer for {_duration_text(seconds)} "
            f"({'no maximum of' if times < 0 else times} redeliveries), and the "
            "messages behind it wait: fewer or shorter retries, a dead_letter queue with a "
            "redrive, more concurrency, or activemq.non_blocking_redelivery"
        )


def _most_consumers(planned: PlannedListener) -> int:
    options = planned.options
    text = planned.endpoint.concurrency
    if text is None and planned.is_durable:
        return 1
    text = text or options.get("concurrency")
    if text is not None:
        return parse_concurrency(text)[1]
    names = ("concurrent_consumers", "max_concurrent_consumers")
    return max(int(options.get(name, 1)) for name in names)


def _redelivery_policy(planned: PlannedListener, native: Any) -> RedeliveryPolicy:
    """Return the policy of the listener's messages, as its container will set it."""
    endpoint = planned.endpoint
    destination = parse_destination(endpoint.destination, planned.kind)
    policy: RedeliveryPolicy = native.redelivery_policy_map.entry_for(destination)
    policy = endpoint.redelivery_policy or planned.options.get("redelivery_policy") or policy
    return policy if endpoint.retry is None else endpoint.retry.apply(policy)


def _duration_text(seconds: float) -> str:
    return "ever" if seconds == math.inf else f"{timedelta(seconds=round(seconds))}"
