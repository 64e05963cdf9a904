"""Options of destination names (`?consumer.x=`, `?producer.x=`) and the ConsumerInfo of consumers.

A new consumer has the connection's options; options in the destination's name override them.
(openwire-encoding 11; activemq-broker D8, Q12)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from pyjms.client.options import ONLY_IN_ACTIVEMQ, ClientOptions, refuse_unknown
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms.transport.options import Options, boolean, integer, options_for
from pyjms.transport.uri import did_you_mean
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

logger: Final = get_logger(__name__)

CONSUMER_OPTIONS: Final[Options] = {
    **options_for(integer, "prefetch_size", "maximum_pending_message_limit", "priority"),
    **options_for(str, "selector", "client_id", "subscription_name"),
    **options_for(
        boolean,
        "no_local",
        "dispatch_async",
        "retroactive",
        "exclusive",
        "browser",
        "network_subscription",
        "optimized_acknowledge",
        "no_range_acks",
    ),
}
"""The attribute of ConsumerInfo and the parser of the text, by `consumer.` option."""

PRODUCER_OPTIONS: Final[Options] = {
    **options_for(integer, "window_size"),
    **options_for(boolean, "dispatch_async"),
}
"""The attribute of ProducerInfo and the parser of the text, by `producer.` option."""

_UNREAD = "brokers do not read it"
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "consumer.browser": "create_browser creates browsers",
    "consumer.dispatchAsync": ONLY_IN_ACTIVEMQ["dispatchAsync"],
    "consumer.noRangeAcks": _UNREAD,
    "producer.dispatchAsync": _UNREAD,
}
"""Options that are sent, but have no effect, and why. They are logged when given."""


def selector_or_none(text: str | None) -> str | None:
    """Validate a selector and return it; return None if it is blank.

    Raises:
        InvalidSelectorException: it is malformed.
        TypeError: it is no text.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"A selector must be a str, not {type(text).__name__}")
    if not text.strip():
        return None
    from pyjms.selector import compile_selector  # noqa: PLC0415 - loads the grammar

    compile_selector(text)
    return text


def consumer_info(
    consumer_id: ConsumerId,
    destination: Destination,
    selector: str | None,
    *,
    options: ClientOptions,
    acknowledge_mode: AcknowledgeMode,
    client_id: str | None,
    optimizes_acks: bool,
    no_local: bool = False,
    subscription_name: str | None = None,
    browser: bool = False,
    pulls: bool = False,
    prefetch: int | None = None,
) -> ConsumerInfo:
    """Return the ConsumerInfo that registers a new consumer.

    With `pulls` the prefetch size is 0, unless the destination sets one. `prefetch` overrides the
    policy's prefetch size.

    Raises:
        InvalidSelectorException: the selector is malformed.
        ConfigurationException: the name has an unknown option, or an invalid value.
    """
    automatic = acknowledge_mode == AcknowledgeMode.AUTO
    info = ConsumerInfo(
        consumer_id=consumer_id,
        destination=destination,
        prefetch_size=0
        if pulls
        else prefetch or _prefetch(options, destination, automatic, subscription_name, browser),
        maximum_pending_message_limit=options.prefetch_policy.maximum_pending_message_limit,
        dispatch_async=options.dispatch_async,
        client_id=client_id,
        subscription_name=subscription_name,
        no_local=no_local and destination.is_topic,
        exclusive=options.exclusive_consumer,
        retroactive=options.use_retroactive_consumer,
        optimized_acknowledge=automatic and not browser and optimizes_acks,
    )
    set_destination_options(destination, "consumer", CONSUMER_OPTIONS, info)
    info.browser = browser
    info.selector = selector_or_none(selector) or selector_or_none(info.selector)
    return info


def set_destination_options(
    destination: Destination, kind: str, table: Options, info: object
) -> None:
    """Set the destination's options with the prefix `kind.` on `info`.

    Raises:
        ConfigurationException: an option is unknown, or its value invalid.
    """
    prefix = f"{kind}."
    given = {k[len(prefix) :]: v for k, v in destination.options.items() if k.startswith(prefix)}
    refuse_unknown(given, table, f"{kind} options", kind, kind)
    for name, text in given.items():
        attribute, read = table[name]
        try:
            setattr(info, attribute, read(text))
        except ValueError as error:
            raise ConfigurationException(
                f"Invalid value '{text}' of {prefix}{name} in {destination}", hint=str(error)
            ) from error
    for name in destination.options:
        if name in WITHOUT_EFFECT or not name.startswith(_PREFIXES):
            _log_without_effect(str(destination), name)


_PREFIXES: Final = ("consumer.", "producer.")


@functools.lru_cache(maxsize=1000)
def _log_without_effect(destination: str, name: str) -> None:
    """Log that an option has no effect, once: all consumers of a listener have the same options."""
    reason = WITHOUT_EFFECT.get(name)
    if reason is None:
        hint = did_you_mean(name, _PREFIXED)
        reason = f"{_UNPREFIXED}; {hint}" if hint else _UNPREFIXED
    logger.info("%s: option %s has no effect: %s", destination, name, reason)


_UNPREFIXED: Final = "options begin with consumer. or producer."
_PREFIXED: Final = (
    *(f"consumer.{name}" for name in CONSUMER_OPTIONS),
    *(f"producer.{name}" for name in PRODUCER_OPTIONS),
)


def _prefetch(
    options: ClientOptions,
    destination: Destination,
    automatic: bool,
    subscription: str | None,
    browser: bool,
) -> int:
    policy = options.prefetch_policy
    if browser:
        return policy.queue_browser_prefetch
    if subscription is None:
        return policy.topic_prefetch if destination.is_topic else policy.queue_prefetch
    if options.optimized_message_dispatch and automatic:
        return policy.optimize_durable_topic_prefetch
    return policy.durable_topic_prefetch


def check_destination(destination: object) -> Destination:
    """Return `destination` if it is a Destination.

    Raises:
        InvalidDestinationException: it is None or something else.
    """
    if destination is None:
        raise InvalidDestinationException("Don't understand null destinations")
    if not isinstance(destination, Destination):
        raise InvalidDestinationException(
            f"A {type(destination).__name__} is not a destination"
            # only a str is quoted: other objects may be payloads, in send() with swapped arguments
            + (f": {destination!r:.60}" if isinstance(destination, str) else ""),
            hint="create one with session.create_queue(name) or Queue(name)",
        )
    return destination
