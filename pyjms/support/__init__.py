"""Shared by templates and listeners: resolvers, converters, header mapping, quality of service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.support.converter import (
        ContentTypeDelegatingMessageConverter as ContentTypeDelegatingMessageConverter,
    )
    from pyjms.support.destination import (
        DestinationResolver as DestinationResolver,
        DynamicDestinationResolver as DynamicDestinationResolver,
    )
    from pyjms.support.marshalling import (
        Marshaller as Marshaller, MarshallingMessageConverter as MarshallingMessageConverter,
        MsgspecMarshaller as MsgspecMarshaller,
    )
    from pyjms.support.messaging import (
        JmsHeaders as JmsHeaders, MessagingMessageConverter as MessagingMessageConverter,
        SimpleJmsHeaderMapper as SimpleJmsHeaderMapper,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
