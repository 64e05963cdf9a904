"""Who listens to advisories: so that telling nobody costs nothing."""

from __future__ import annotations

from broker.advisory.topics import PREFIX
from broker.policy.wildcard import LONGEST_REMEMBERED, matches
from pyjms.jms.destination import Destination, Topic
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

__all__ = ["Audience"]

_MOST_ANSWERS_KEPT = 1000


class Audience:
    """The consumers that may get advisories: on advisory topics, or on wildcards of topics."""

    def __init__(self) -> None:
        self._members: dict[ConsumerId, tuple[Destination, ...]] = {}
        self._answers: dict[str, bool] = {}

    def add(self, info: ConsumerInfo) -> None:
        """Note a consumer, if it is one that may get advisories."""
        if info.destination is None or info.consumer_id is None:
            return
        wanted = tuple(
            member
            for member in info.destination.composite_destinations
            if member.is_topic and (member.is_pattern or member.physical_name.startswith(PREFIX))
        )
        if wanted:
            self._members[info.consumer_id] = wanted
            self._answers.clear()

    def remove(self, consumer_id: ConsumerId | None) -> None:
        """Forget a consumer; unknown ones are fine."""
        if consumer_id is not None and self._members.pop(consumer_id, None) is not None:
            self._answers.clear()

    def hears(self, topic: Topic) -> bool:
        """Whether anybody would get a message sent to `topic`."""
        answer = self._answers.get(topic.physical_name)
        if answer is None:
            answer = any(
                matches(wanted, topic) for member in self._members.values() for wanted in member
            )
            if len(topic.physical_name) > LONGEST_REMEMBERED:
                return answer
            if len(self._answers) >= _MOST_ANSWERS_KEPT:
                self._answers.clear()
            self._answers[topic.physical_name] = answer
        return answer
