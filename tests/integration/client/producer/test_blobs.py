"""Blob messages: the body is in a directory or on a web server, the message carries its URL."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pyjms import ConnectionFactory as BlockingFactory
from pyjms.aio import BlobMessage, ConnectionFactory, Queue
from pyjms.client.session import ActiveMQSession
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    MessageNotWriteableException,
    UnsupportedOperationException,
)
from tests.kit.clients.embedded import Client

_numbers = itertools.count(1)
BODY = b"0123456789" * 1000


class Uploads(BaseHTTPRequestHandler):
    """A web server that stores the bodies of PUT requests, and redirects below /elsewhere."""

    bodies: dict[str, bytes]
    chunks: list[int]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        if self.path.startswith("/full"):
            self._answer(507)
            self.close_connection = True
            return
        body = b""
        while size := int(self.rfile.readline(), 16):
            self.chunks.append(size)
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self.bodies[self.path] = body
        self._answer(201)

    def do_GET(self) -> None:
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path in self.bodies:
            self._answer(200, self.bodies[self.path])
        else:
            self._answer(404)

    def do_DELETE(self) -> None:
        self._answer(204 if self.bodies.pop(self.path, None) else 404)

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


@pytest.fixture
def uploads() -> Iterator[tuple[str, type[Uploads]]]:
    handler = type("UploadsOfTest", (Uploads,), {"bodies": {}, "chunks": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


def url(query: str = "") -> str:
    return f"vm://blobs-{next(_numbers)}?broker.persistent=false{query}"


def policy(upload_url: str, name: str = "uploadUrl") -> str:
    return f"&jms.blobTransferPolicy.{name}={upload_url}"


async def received(session: ActiveMQSession, message: Any) -> Any:
    producer = await session.create_producer(Queue("blobs"))
    await producer.send(message)
    async with await session.create_consumer(Queue("blobs")) as consumer:
        return await consumer.receive(10)


async def session_of(broker_url: str) -> Any:
    connection = await ConnectionFactory(broker_url).create_connection()
    await connection.start()
    return connection, await connection.create_session()


async def body_of(message: Any) -> bytes:
    stream = await message.get_input_stream_async()
    try:
        return await stream.read()  # type: ignore[no-any-return]
    finally:
        await stream.aclose()


@pytest.mark.fact("openwire-encoding 8/ActiveMQBlobMessage", "activemq-edges N0")
@pytest.mark.parametrize("option", ["uploadUrl", "defaultUploadUrl", "brokerUploadUrl"])
async def test_a_file_goes_through_the_upload_directory(tmp_path: Path, option: str) -> None:
    source = tmp_path / "report.pdf"
    source.write_bytes(BODY)
    directory = tmp_path / "uploads"
    connection, session = await session_of(url(policy(directory.as_uri(), option)))
    async with connection:
        message = session.create_blob_message(file=source)
        assert (message.name, message.size, message.url) == ("report.pdf", None, None)
        message.mime_type = "application/pdf"
        message.properties["n"] = 7
        blob = await received(session, message)
        assert isinstance(blob, BlobMessage)
        assert message.size == len(BODY)
        assert blob.url == message.url
        assert blob.mime_type == "application/pdf"
        assert blob.deleted_by_broker
        assert blob.properties["n"] == 7
        assert (blob.name, blob.size) == (None, None)  # they are not sent
        assert await body_of(blob) == BODY
        again = await received(session, blob)  # forwarded as it came
        assert again.url == message.url
        await blob.delete_async()
        assert list(directory.iterdir()) == []
        with pytest.raises(JMSException, match="cannot be read"):
            await body_of(blob)


async def test_a_stream_goes_through_a_web_server_in_blocks(
    uploads: tuple[str, type[Uploads]],
) -> None:
    server, handler = uploads
    query = policy(f"{server}/up/") + policy("2048", "bufferSize")
    connection, session = await session_of(url(query))
    async with connection:
        stream = io.BytesIO(BODY)
        blob = await received(session, session.create_blob_message(stream=stream))
        assert blob.url.startswith(f"{server}/up/")
        assert not stream.closed
        assert handler.chunks == [2048, 2048, 2048, 2048, 1808]
        assert blob.mime_type == "application/octet-stream"
        assert await body_of(blob) == BODY
        await blob.delete_async()
        assert handler.bodies == {}
        with pytest.raises(JMSException, match=r"GET of http.* failed: 404"):
            await body_of(blob)


async def test_a_url_is_sent_unchanged(uploads: tuple[str, type[Uploads]]) -> None:
    server, handler = uploads
    handler.bodies["/there"] = b"already"
    connection, session = await session_of(url())
    async with connection:
        blob = await received(session, session.create_blob_message(f"{server}/there"))
        assert not blob.deleted_by_broker
        assert await body_of(blob) == b"already"
        with pytest.raises(MessageNotWriteableException):
            blob.mime_type = "text/plain"


async def test_a_message_whose_upload_fails_is_not_sent(uploads: tuple[str, type[Uploads]]) -> None:
    server, _ = uploads
    connection, session = await session_of(url(policy(f"{server}/full")))
    async with connection:
        message = session.create_blob_message(stream=io.BytesIO(b""))
        with pytest.raises(JMSException, match=r"PUT of .* failed: 507"):
            await received(session, message)
        consumer = await session.create_consumer(Queue("blobs"))
        assert await consumer.receive(0) is None


async def test_only_files_below_the_upload_directory_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    directory = tmp_path / "uploads"
    directory.mkdir()
    (directory / "link").symlink_to(secret)
    for location in (
        secret.as_uri(),
        f"{directory.as_uri()}/../secret",
        f"{directory.as_uri()}/%2e%2e/secret",
        f"{directory.as_uri()}/link",
        directory.as_uri(),
    ):
        connection, session = await session_of(url(policy(directory.as_uri())))
        async with connection:
            blob = await received(session, session.create_blob_message(location))
            for call in (blob.get_input_stream_async, blob.delete_async):
                with pytest.raises(JMSSecurityException, match="not in the upload directory"):
                    await call()
    assert secret.read_bytes() == b"secret"


async def test_files_are_not_read_where_no_directory_is_configured(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    connection, session = await session_of(url())
    async with connection:
        blob = await received(session, session.create_blob_message(secret.as_uri()))
        with pytest.raises(JMSSecurityException):
            await body_of(blob)
        other = await received(session, session.create_blob_message("file://host/etc/passwd"))
        with pytest.raises(JMSSecurityException, match="names another host"):
            await body_of(other)


async def test_redirects_and_other_schemes_are_refused(uploads: tuple[str, type[Uploads]]) -> None:
    server, _ = uploads
    connection, session = await session_of(url())
    async with connection:
        blob = await received(session, session.create_blob_message(f"{server}/elsewhere"))
        with pytest.raises(JMSException, match="302") as caught:
            await body_of(blob)
        assert "redirects are refused" in str(caught.value)
        data = await received(session, session.create_blob_message("data:,x"))
        with pytest.raises(UnsupportedOperationException, match="cannot use data: URLs"):
            await body_of(data)


def test_ftp_is_refused_when_the_url_is_parsed() -> None:
    with pytest.raises(UnsupportedOperationException, match="in clear text") as caught:
        ConnectionFactory(url(policy("ftp://host/dir")))
    assert "https" in str(caught.value)
    with pytest.raises(ConfigurationException, match=r"blobTransferPolicy\.uploadUrl"):
        ConnectionFactory(url(policy("/a/directory")))
    with pytest.raises(ConfigurationException, match=r"blobTransferPolicy\.bufferSize"):
        ConnectionFactory(url(policy("0", "bufferSize")))


async def test_exactly_one_body_is_given(client: Client, tmp_path: Path) -> None:
    session = await client.session()
    with pytest.raises(TypeError, match="one of url, file and stream"):
        session.create_blob_message()
    with pytest.raises(JMSException, match="cannot be uploaded"):
        await received(session, session.create_blob_message(file=tmp_path / "absent"))
    with pytest.raises(IllegalStateException, match="no body to read"):
        await session.create_blob_message(stream=io.BytesIO(b"x")).get_input_stream_async()
    with pytest.raises(IllegalStateException, match="would block the event loop"):
        session.create_blob_message("http://localhost/x").get_input_stream()


def test_the_blocking_api(tmp_path: Path) -> None:
    factory = BlockingFactory(url(policy(tmp_path.as_uri())))
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        message = session.create_blob_message(stream=io.BytesIO(BODY))
        session.create_producer(Queue("blobs")).send(message)
        blob: Any = session.create_consumer(Queue("blobs")).receive(10)
        with blob.get_input_stream() as stream:
            assert stream.read() == BODY
        blob.delete()
        assert list(tmp_path.iterdir()) == []
