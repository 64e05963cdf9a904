"""Encrypted connections between our client and our broker."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConnectionFailedException, JMSException
from tests.kit.tls import CertificateFiles, TlsBroker
from tests.kit.waiting import until


async def exchange(url: str, text: str = "hello") -> object:
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=5)
    await template.convert_and_send("orders", text)
    return await template.receive_and_convert("orders")


@pytest.mark.parametrize("scheme", ["ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"])
async def test_messages_travel_encrypted(
    tls_broker: TlsBroker, files: CertificateFiles, scheme: str
) -> None:
    async with tls_broker(scheme=scheme) as (_, url):
        mine = url.replace("ssl:", f"{scheme}:")
        assert await exchange(f"{mine}?ssl.trustStore={files.trust}") == "hello"


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("megabytes", [0, 6])
async def test_all_versions_carry_large_messages(
    tls_broker: TlsBroker, files: CertificateFiles, protocol: str, megabytes: int
) -> None:
    text = "x" * (megabytes * 1024 * 1024)
    async with tls_broker(f"transport.enabledProtocols={protocol}") as (_, url):
        assert await exchange(f"{url}?ssl.trustStore={files.trust}", text) == text


async def test_client_certificates_are_required_and_checked(
    tls_broker: TlsBroker, files: CertificateFiles
) -> None:
    certificate = files.issue("client.pem", "alice.example.org")
    options = f"needClientAuth=true&ssl.trustStore={files.trust}"
    async with tls_broker(options) as (_, url):
        assert (
            await exchange(f"{url}?ssl.trustStore={files.trust}&ssl.keyStore={certificate}")
            == "hello"
        )


async def test_a_renewed_certificate_is_used_by_new_connections(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Path(files.issue("renewed.pem", expired=True))
    async with tls_broker(key_store=str(certificate)) as (_, url):
        trusting = f"{url}?ssl.trustStore={files.trust}"
        with pytest.raises(ConnectionFailedException, match="has expired"):
            await exchange(trusting)
        caplog.set_level(logging.INFO)
        files.issue("renewed.pem")

        answers: list[object] = []

        async def try_again() -> None:
            with suppress(JMSException):
                answers.append(await exchange(trusting))

        await until(lambda: answers, turn=try_again)
    assert "New connections use the changed files of TLS" in caplog.text
