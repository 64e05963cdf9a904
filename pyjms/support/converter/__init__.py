"""Payloads to messages and back."""

from __future__ import annotations

from pyjms.support.converter.base import MessageConverter
from pyjms.support.converter.json_converter import JsonMessageConverter, MessageType
from pyjms.support.converter.pydantic_converter import DefaultMessageConverter
from pyjms.support.converter.simple import SimpleMessageConverter

__all__ = [
    "DefaultMessageConverter",
    "JsonMessageConverter",
    "MessageConverter",
    "MessageType",
    "SimpleMessageConverter",
]
