"""The ConsumerInfo of a new consumer: defaults of the connection, then `?consumer.x=` of the name.

(ENCODING section 11; ActiveMQ D8, Q12)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.transport.options import boolean
from pyjms.transport.uri import did_you_mean
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

if TYPE_CHECKING:
    from pyjms.client.session.session import ActiveMQSession

__all__ = [
    "CONSUMER_OPTIONS",
    "PRODUCER_OPTIONS",
    "check_destination",
    "consumer_info",
    "selector_of",
    "take_options",
]

Options = Mapping[str, tuple[str, Callable[[str], object]]]

CONSUMER_OPTIONS: Final[Options] = {
    "prefetchSize": ("prefetch_size", int),
    "maximumPendingMessageLimit": ("maximum_pending_message_limit", int),
    "noLocal": ("no_local", boolean),
    "dispatchAsync": ("dispatch_async", boolean),
    "retroactive": ("retroactive", boolean),
    "selector": ("selector", str),
    "exclusive": ("exclusive", boolean),
    "priority": ("priority", int),
    "browser": ("browser", boolean),
    "clientId": ("client_id", str),
    "subscriptionName": ("subscription_name", str),
    "networkSubscription": ("network_subscription", boolean),
    "optimizedAcknowledge": ("optimized_acknowledge", boolean),
    "noRangeAcks": ("no_range_acks", boolean),
}
"""`consumer.` option -> attribute of ConsumerInfo and reader of the text."""

PRODUCER_OPTIONS: Final[Options] = {
    "windowSize": ("window_size", int),
    "dispatchAsync": ("dispatch_async", boolean),
}
"""`producer.` option -> attribute of ProducerInfo and reader of the text."""


def selector_of(text: str | None) -> str | None:
    """Return the selector, None for a blank one. (JMS 4.3)

    Raises:
        InvalidSelectorException: it is not valid.
    """
    if text is None or not text.strip():
        return None
    from pyjms.selector import compile_selector  # noqa: PLC0415 - costs a grammar

    compile_selector(text)
    return text


def consumer_info(
    session: ActiveMQSession,
    consumer_id: ConsumerId,
    destination: Destination,
    selector: str | None,
    *,
    no_local: bool = False,
    subscription_name: str | None = None,
    browser: bool = False,
) -> ConsumerInfo:
    """Return what to announce for a new consumer.

    Raises:
        InvalidSelectorException: the selector is not valid.
        ConfigurationException: the name has an unknown option, or a value cannot be read.
    """
    options = session.connection.options
    automatic = session.acknowledge_mode == AcknowledgeMode.AUTO
    info = ConsumerInfo(
        consumer_id=consumer_id,
        destination=destination,
        prefetch_size=_prefetch(session, destination, subscription_name, browser),
        maximum_pending_message_limit=options.prefetch_policy.maximum_pending_message_limit,
        dispatch_async=options.dispatch_async,
        client_id=session.connection.announced_client_id,
        subscription_name=subscription_name,
        no_local=no_local and destination.is_topic,
        exclusive=options.exclusive_consumer,
        retroactive=options.use_retroactive_consumer,
        optimized_acknowledge=automatic and not browser and session.connection.optimizes_acks,
    )
    take_options(destination, "consumer", CONSUMER_OPTIONS, info)
    info.browser = browser
    info.selector = selector_of(selector) or selector_of(info.selector)
    return info


def take_options(destination: Destination, kind: str, table: Options, info: object) -> None:
    """Set on `info` what the destination's `kind.` options say; others are not looked at.

    Raises:
        ConfigurationException: one is unknown, or a value cannot be read.
    """
    prefix = f"{kind}."
    given = {k[len(prefix) :]: v for k, v in destination.options.items() if k.startswith(prefix)}
    unknown = {name: text for name, text in given.items() if name not in table}
    if unknown:
        shown = ", ".join(f"{name}={text}" for name, text in unknown.items())
        raise ConfigurationException(
            f"There are {len(unknown)} {kind} options that couldn't be set on the {kind}."
            " Check the options are spelled correctly."
            f" Unknown parameters=[{{{shown}}}]. This {kind} cannot be started.",
            hint=did_you_mean(next(iter(unknown)), table),
        )
    for name, text in given.items():
        attribute, read = table[name]
        try:
            setattr(info, attribute, read(text))
        except ValueError as error:
            raise ConfigurationException(
                f"Invalid value '{text}' of {prefix}{name} in {destination}", hint=str(error)
            ) from error


def _prefetch(
    session: ActiveMQSession, destination: Destination, subscription: str | None, browser: bool
) -> int:
    options = session.connection.options
    policy = options.prefetch_policy
    if browser:
        return policy.queue_browser_prefetch
    if subscription is None:
        return policy.topic_prefetch if destination.is_topic else policy.queue_prefetch
    if options.optimized_message_dispatch and session.acknowledge_mode == AcknowledgeMode.AUTO:
        return policy.optimize_durable_topic_prefetch
    return policy.durable_topic_prefetch


def check_destination(destination: object) -> Destination:
    """Return `destination` if it is one.

    Raises:
        InvalidDestinationException: it is None or something else.
    """
    if destination is None:
        raise InvalidDestinationException("Don't understand null destinations")
    if not isinstance(destination, Destination):
        raise InvalidDestinationException(
            f"A {type(destination).__name__} is no destination",
            hint="session.create_queue(name) or Queue(name) makes one",
        )
    return destination
