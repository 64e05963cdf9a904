"""`virtual_destinations` of broker.yaml. (activemq-broker V1 to V11)"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Destination
from pyjms.selector import compile_selector
from pyjms_broker.settings.values import DestinationName, Section
from pyjms_broker.virtual.composite import CompositeQueue, CompositeTopic, FilteredDestination
from pyjms_broker.virtual.interceptor import VirtualDestination
from pyjms_broker.virtual.topic import VirtualTopic

__all__ = ["VirtualDestinationSettings"]


class VirtualTopicSettings(Section):
    """Topics whose messages go to queues, one for each group of consumers."""

    type: Literal["virtual_topic"]
    name: str = "VirtualTopic.>"
    """The topics."""
    prefix: str = "Consumer.*."
    """Stands before the topic's name in the queues' names."""
    postfix: str = ""
    """Stands behind it."""
    selector_aware: bool = False
    """Whether a queue gets only what a present consumer's selector matches."""
    local: bool = False
    """Whether what came from another broker is left out."""
    drop_on_resource_limit: bool = False
    """Whether a full queue misses messages, instead of failing the send."""
    set_original_destination: bool = True
    """Whether copies tell the topic they came from."""

    def build(self) -> VirtualDestination:
        """Make the virtual topic."""
        return VirtualTopic(
            name=self.name,
            prefix=self.prefix,
            postfix=self.postfix,
            selector_aware=self.selector_aware,
            local=self.local,
            drop_on_resource_limit=self.drop_on_resource_limit,
            set_original_destination=self.set_original_destination,
        )


class ForwardSettings(Section):
    """A place that a composite destination forwards to."""

    destination: DestinationName
    """A queue, or a topic with topic:// in front."""
    selector: str | None = None
    """Only what it matches is forwarded; not set is everything."""

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
        """Make the place."""
        if self.selector is None:
            return self.destination
        return FilteredDestination(self.destination, self.selector)


class _CompositeSettings(Section):
    name: str
    """The name that messages are sent to."""
    forward_to: tuple[ForwardSettings, ...] = Field(min_length=1)
    """Where they go on to."""
    forward_only: bool = True
    """Whether the name itself gets nothing."""
    send_when_not_matched: bool = False
    """Whether the name itself gets what no selector matched, and only that."""


class CompositeQueueSettings(_CompositeSettings):
    """A queue whose messages go on to other destinations."""

    type: Literal["composite_queue"]

    def build(self) -> VirtualDestination:
        """Make the composite queue."""
        places = tuple(place.build() for place in self.forward_to)
        return CompositeQueue(self.name, places, self.forward_only, self.send_when_not_matched)


class CompositeTopicSettings(_CompositeSettings):
    """A topic whose messages go on to other destinations."""

    type: Literal["composite_topic"]

    def build(self) -> VirtualDestination:
        """Make the composite topic."""
        places = tuple(place.build() for place in self.forward_to)
        return CompositeTopic(self.name, places, self.forward_only, self.send_when_not_matched)


VirtualDestinationSettings = Annotated[
    VirtualTopicSettings | CompositeQueueSettings | CompositeTopicSettings,
    Field(discriminator="type"),
]
