"""Listeners: endpoints, the containers that receive for them, and the calls of their handlers.

The names here are for programs that register listeners themselves, or extend their containers;
they are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.listener.decorators import (
        PayloadField as PayloadField, jms_listener_configurer as jms_listener_configurer,
    )
    from pyjms.listener.endpoint import (
        JmsListenerEndpoint as JmsListenerEndpoint,
        MethodJmsListenerEndpoint as MethodJmsListenerEndpoint,
        SimpleJmsListenerEndpoint as SimpleJmsListenerEndpoint,
    )
    from pyjms.listener.handler import ArgumentResolver as ArgumentResolver
    from pyjms.listener.idempotency import (
        IdempotencyStore as IdempotencyStore, MemoryIdempotencyStore as MemoryIdempotencyStore,
    )
    from pyjms.listener.message_listener import MessageListenerAdapter as MessageListenerAdapter
    from pyjms.listener.registry import (
        JmsListenerEndpointRegistrar as JmsListenerEndpointRegistrar,
        JmsListenerEndpointRegistry as JmsListenerEndpointRegistry,
    )
    from pyjms.listener.task_executor import (
        SimpleAsyncTaskExecutor as SimpleAsyncTaskExecutor, TaskExecutor as TaskExecutor,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
