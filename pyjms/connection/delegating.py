"""A session that delegates every call; the base of the cached session."""

from __future__ import annotations

from abc import abstractmethod

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import MessageListener, Session

__all__ = ["DelegatingSession"]


def _target_of(self: DelegatingSession) -> Session:
    return self._target()


class DelegatingSession(Session):
    """Delegates every call to `_target()`; the base of the cached session."""

    @abstractmethod
    def _target(self) -> Session:
        """Return the session to delegate to; raise if there is none any more."""

    transacted = DelegatedAttribute[bool](_target_of, read_only=True)
    acknowledge_mode = DelegatedAttribute[AcknowledgeMode](_target_of, read_only=True)
    message_listener = DelegatedAttribute[MessageListener | None](_target_of, read_only=True)

    set_message_listener = delegated(Session.set_message_listener, _target_of)
    create_queue = delegated(Session.create_queue, _target_of)
    create_topic = delegated(Session.create_topic, _target_of)
    create_message = delegated(Session.create_message, _target_of)
    create_text_message = delegated(Session.create_text_message, _target_of)
    create_bytes_message = delegated(Session.create_bytes_message, _target_of)
    create_map_message = delegated(Session.create_map_message, _target_of)
    create_stream_message = delegated(Session.create_stream_message, _target_of)
    create_object_message = delegated(Session.create_object_message, _target_of)
    create_temporary_queue = delegated(Session.create_temporary_queue, _target_of)
    create_temporary_topic = delegated(Session.create_temporary_topic, _target_of)
    delete_temporary = delegated(Session.delete_temporary, _target_of)
    create_producer = delegated(Session.create_producer, _target_of)
    create_consumer = delegated(Session.create_consumer, _target_of)
    create_pull_consumer = delegated(Session.create_pull_consumer, _target_of)
    create_durable_subscriber = delegated(Session.create_durable_subscriber, _target_of)
    create_browser = delegated(Session.create_browser, _target_of)
    unsubscribe = delegated(Session.unsubscribe, _target_of)
    commit = delegated(Session.commit, _target_of)
    rollback = delegated(Session.rollback, _target_of)
    recover = delegated(Session.recover, _target_of)
