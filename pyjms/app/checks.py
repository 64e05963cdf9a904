"""Checks of settings and of the texts of listeners, before anything connects."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pyjms.app.factories import broker_connection_factory
from pyjms.app.interceptors import named_interceptors
from pyjms.app.planned_listener import check_client_id, default_retry, options_of
from pyjms.configuration.document import Problems
from pyjms.configuration.placeholders import UnknownPlaceholder
from pyjms.errors import ConfigurationException, JMSException, nearest_name
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.listener.annotation import JmsListenerMark
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.properties import invalid_concurrency, parse_concurrency
from pyjms.selector import selector_or_none
from pyjms.settings import PyjmsSettings
from pyjms.support.class_names import imported_class
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

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


_MAPPINGS: Final = ("jms", "converter", "type_id_mappings")
_IDS_IN_A_HINT: Final = 5


def add_settings_problems(container: Any, settings: PyjmsSettings, problems: Problems) -> None:
    """Add the problems of URLs, mapped classes, listeners and durable subscriptions in settings."""
    known = len(problems.found)
    for path, provide in _brokers(container, settings):
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
    if len(problems.found) == known and not settings.is_incomplete:
        with problems.caught():
            container.message_converter()
            factory = container.jms_listener_container_factory()
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
            problems.add(
                ConfigurationException(
                    f"Another endpoint is already registered with id '{endpoint.id}': "
                    f"{first.destination!r} and {endpoint.destination!r} are the destinations",
                    hint="give each @jms_listener its own id",
                )
            )


def check_reply_destination(text: str, handler: Callable[..., Any]) -> None:
    """Check that the text of `@send_to` is a destination.

    Raises:
        ConfigurationException: it is not.
    """
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


def _brokers(container: Any, settings: PyjmsSettings) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of each broker's URL, and a function that creates its connection factory."""
    yield ("activemq", "broker_url"), container.native_connection_factory
    for name, broker in settings.brokers.items():
        yield ("brokers", name, "broker_url"), partial(broker_connection_factory, broker)


def _check_transport(factory: Any) -> None:
    """Check that a transport can be created for a factory's URL, without connecting."""
    uri = getattr(factory, "uri", None)
    if isinstance(uri, TransportURI):
        create_transport(uri)
