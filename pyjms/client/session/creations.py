"""Objects that a session creates without a request to the broker: destinations and messages."""

from __future__ import annotations

from abc import abstractmethod
from typing import Unpack

from pyjms.client import blobs
from pyjms.client.interfaces import ClientConnection
from pyjms.client.options.destination_options import check_name
from pyjms.jms import api
from pyjms.jms.api.session import BlobSource
from pyjms.jms.blob import BlobMessage
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message

__all__ = ["LocalCreations"]


class LocalCreations(api.Session):
    """The part of a session that creates local objects."""

    connection: ClientConnection

    @abstractmethod
    def check_open(self) -> None:
        """Refuse calls on a closed session."""

    def create_queue(self, name: str) -> Queue:
        self.check_open()
        return TemporaryQueue(name) if check_name(name).startswith("ID:") else Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.check_open()
        return TemporaryTopic(name) if check_name(name).startswith("ID:") else Topic(name)

    def create_message(self) -> Message:
        self.check_open()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        self.check_open()
        return TextMessage(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        self.check_open()
        message = BytesMessage()
        if data is not None:
            message.write_bytes(data)
        return message

    def create_map_message(self) -> MapMessage:
        self.check_open()
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        self.check_open()
        return StreamMessage()

    def create_blob_message(
        self, url: str | None = None, **source: Unpack[BlobSource]
    ) -> BlobMessage:
        self.check_open()
        return blobs.new_blob_message(self.connection.options.blob_transfer_policy, url, **source)

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        self.check_open()
        return ObjectMessage(data)
