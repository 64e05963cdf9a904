"""Message converters: payloads to messages and back. They are imported on first use."""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.support.converter.base import MessageConverter
    from pyjms.support.converter.by_content_type import ContentTypeDelegatingMessageConverter
    from pyjms.support.converter.default import DefaultMessageConverter
    from pyjms.support.converter.json import JsonMessageConverter, MessageType
    from pyjms.support.converter.marshalling import (
        Marshaller,
        MarshallingMessageConverter,
        MsgspecMarshaller,
    )
    from pyjms.support.converter.registry import installed_content_types
    from pyjms.support.converter.simple import SimpleMessageConverter

__all__ = [
    "ContentTypeDelegatingMessageConverter",
    "DefaultMessageConverter",
    "JsonMessageConverter",
    "Marshaller",
    "MarshallingMessageConverter",
    "MessageConverter",
    "MessageType",
    "MsgspecMarshaller",
    "SimpleMessageConverter",
    "installed_content_types",
]

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.support.converter.base": "MessageConverter",
            "pyjms.support.converter.by_content_type": "ContentTypeDelegatingMessageConverter",
            "pyjms.support.converter.default": "DefaultMessageConverter",
            "pyjms.support.converter.json": "JsonMessageConverter MessageType",
            "pyjms.support.converter.marshalling": "Marshaller MarshallingMessageConverter "
            "MsgspecMarshaller",
            "pyjms.support.converter.registry": "installed_content_types",
            "pyjms.support.converter.simple": "SimpleMessageConverter",
        }
    ),
)
