"""Encrypted connections between our client and our broker."""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConfigurationException, ConnectionFailedException, JMSException
from pyjms.settings import ActiveMQSettings
from pyjms_broker.service import BrokerService
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
    assert "New connections use the changed TLS files" in caplog.text


@pytest.mark.parametrize("required", [False, True])
async def test_an_exposed_connector_is_not_warned_of_where_clients_have_certificates(
    files: CertificateFiles, required: bool
) -> None:
    service = BrokerService("exposed", persistent=False)
    options = f"ssl.trustStore={files.trust}&needClientAuth={str(required).lower()}"
    service.add_connector(f"ssl://0.0.0.0:0?ssl.keyStore={files.issue()}&{options}")
    refusal = pytest.raises(ConfigurationException, match="is open to other machines")
    with nullcontext() if required else refusal:
        async with service:
            pass


async def test_failover_uses_the_settings_for_each_broker(
    tls_broker: TlsBroker, files: CertificateFiles
) -> None:
    async with tls_broker() as (_, url):
        settings = ActiveMQSettings.model_validate(
            {"broker_url": f"failover:({url})", "tls": {"trust_store": files.trust}}
        )
        assert await exchange(settings.effective_broker_url()) == "hello"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_uvloop(tls_broker: TlsBroker, files: CertificateFiles) -> None:
    text = "x" * 3_000_000
    async with tls_broker() as (_, url):
        assert await exchange(f"{url}?ssl.trustStore={files.trust}", text) == text
