"""Composite queues and topics: messages sent to one destination are forwarded to others.

(activemq-broker V9 to V11)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.selector import Selector, compile_selector
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.destination import BrokerDestination, DestinationFilter
from pyjms_broker.api.message import MessageReference, copy_for_destination
from pyjms_broker.api.names import is_internal
from pyjms_broker.filters.virtual_destinations import Routes, VirtualDestination
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.flow_control import send_when_created


@dataclass(frozen=True)
class FilteredDestination:
    """A destination for the messages that `selector` matches; without a selector, none match.

    (activemq-broker V10)
    """

    destination: Destination
    selector: str | None = None

    @cached_property
    def compiled(self) -> Selector | None:
        """The compiled selector.

        Raises:
            InvalidSelectorException: the selector is invalid.

        """
        return compile_selector(self.selector) if self.selector else None


@dataclass(frozen=True)
class _CompositeDestination(VirtualDestination):
    KIND: ClassVar[type[Destination]]

    name: str
    forward_to: tuple[Destination | FilteredDestination, ...]
    forward_only: bool = True
    """Whether messages are only forwarded, and not added to the composite destination itself."""
    send_when_not_matched: bool = False
    """Whether the composite destination itself gets those messages, and only those, that no
    filter matched."""

    def __post_init__(self) -> None:
        for target in self.forward_to:
            if isinstance(target, FilteredDestination):
                target.compiled  # noqa: B018 - an invalid selector fails here, not at a send
                destination = target.destination
            else:
                destination = target
            if is_internal(destination):
                raise ConfigurationException(
                    f"Composite destination {self.name}: {destination} is reserved for the broker",
                    hint="forward to a name that does not begin with PyJMS.",
                )

    @property
    def virtual_destination(self) -> Destination:
        return self.KIND(self.name)

    def demanded_by(self, destination: Destination) -> Destination | None:
        for target in self.forward_to:
            fed = target.destination if isinstance(target, FilteredDestination) else target
            if matches(fed, destination):
                return self.virtual_destination
        return None

    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        if not matches(self.KIND(self.name), destination.destination):
            return destination
        return _CompositeFilter(destination, self, routes)


class CompositeQueue(_CompositeDestination):
    """A queue whose messages are forwarded to `forward_to`. Source: ActiveMQ CompositeQueue."""

    KIND = Queue


class CompositeTopic(_CompositeDestination):
    """A topic whose messages are forwarded to `forward_to`. Source: ActiveMQ CompositeTopic."""

    KIND = Topic


class _CompositeFilter(DestinationFilter):
    def __init__(
        self, destination: BrokerDestination, settings: _CompositeDestination, routes: Routes
    ) -> None:
        super().__init__(destination)
        self._settings = settings
        self._routes = routes

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        settings = self._settings
        targets = self._targets_for(message)

        def send() -> Completion:
            completions = [
                self._routes.forward(
                    exchange, copy_for_destination(message, target, message.destination)
                )
                for target in targets
            ]
            if (not targets) if settings.send_when_not_matched else (not settings.forward_only):
                completions.append(self.next.send(exchange, message))
            return all_of(completions)

        return send_when_created(self._routes.region, exchange, message, targets, send)

    def _targets_for(self, message: ActiveMQMessage) -> list[Destination]:
        targets: list[Destination] = []
        reference: MessageReference | None = None
        for target in self._settings.forward_to:
            if isinstance(target, Destination):
                targets.append(target)
            elif target.compiled is not None:
                if reference is None:
                    reference = MessageReference(message, self.next)
                if target.compiled.matches(reference.lookup):
                    targets.append(target.destination)
        return targets


# --- Mirrored queues: what is sent to a queue is first copied to a topic. (activemq-broker V12)
