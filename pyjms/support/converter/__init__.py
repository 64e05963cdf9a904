"""Message converters: payloads to messages and back."""

from __future__ import annotations

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
