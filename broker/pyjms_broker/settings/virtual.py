"""Virtual destinations in broker.yaml (`virtual_destinations`). (activemq-broker V1 to V11)"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Destination
from pyjms.selector import compile_selector
from pyjms_broker.settings.values import DestinationName, Section, arguments_of
from pyjms_broker.virtual.composite import CompositeQueue, CompositeTopic, FilteredDestination
from pyjms_broker.virtual.interceptor import VirtualDestination
from pyjms_broker.virtual.topic import VirtualTopic, VirtualTopicAttributes

__all__ = ["VirtualDestinationSettings"]


class VirtualTopicSettings(Section, VirtualTopicAttributes):
    """Topics whose messages are copied to queues, one for each group of consumers."""

    type: Literal["virtual_topic"]

    def build(self) -> VirtualDestination:
        """Create the virtual topic."""
        return VirtualTopic(**arguments_of(VirtualTopic, self))


class ForwardSettings(Section):
    """One of the destinations that a composite destination forwards to."""

    destination: DestinationName
    """A queue, or topic://NAME."""
    selector: str | None = None
    """Only messages that it matches are forwarded; null: all."""

    @field_validator("selector")
    @classmethod
    def _check_selector(cls, selector: str | None) -> str | None:
        if selector is not None:
            try:
                compile_selector(selector)
            except InvalidSelectorException as error:
                raise ValueError(str(error)) from None
        return selector

    def build(self) -> Destination | FilteredDestination:
        """Create the destination, with a filter if there is a selector."""
        if self.selector is None:
            return self.destination
        return FilteredDestination(self.destination, self.selector)


class _CompositeSettings(Section):
    name: str
    """The name of the destination that messages are sent to."""
    forward_to: tuple[ForwardSettings, ...] = Field(min_length=1)
    """The destinations that messages are forwarded to."""
    forward_only: bool = True
    """Whether the destination itself gets no messages."""
    send_when_not_matched: bool = False
    """Whether the destination itself gets only the messages that no selector matches."""


class CompositeQueueSettings(_CompositeSettings):
    """A queue whose messages are forwarded to other destinations."""

    type: Literal["composite_queue"]

    def build(self) -> VirtualDestination:
        """Create the composite queue."""
        targets = tuple(target.build() for target in self.forward_to)
        return CompositeQueue(self.name, targets, self.forward_only, self.send_when_not_matched)


class CompositeTopicSettings(_CompositeSettings):
    """A topic whose messages are forwarded to other destinations."""

    type: Literal["composite_topic"]

    def build(self) -> VirtualDestination:
        """Create the composite topic."""
        targets = tuple(target.build() for target in self.forward_to)
        return CompositeTopic(self.name, targets, self.forward_only, self.send_when_not_matched)


VirtualDestinationSettings = Annotated[
    VirtualTopicSettings | CompositeQueueSettings | CompositeTopicSettings,
    Field(discriminator="type"),
]
