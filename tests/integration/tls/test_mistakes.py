"""Common mistakes in setting up TLS: the client's error, and the broker's one log line."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import JMSException
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.tls import CertificateFiles, MakeFiles, TlsBroker
from tests.kit.waiting import until


@dataclass
class Mistake:
    """What both sides say. An empty text: that side does not notice."""

    client: str
    hint: str
    broker: str


async def told(url: str) -> JMSException:
    with pytest.raises(JMSException) as caught:
        await ConnectionFactory(url).create_connection()
    return caught.value


async def check(url: str, expected: Mistake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    error = await told(url)
    assert expected.client in error.reason
    assert expected.hint in error.hint

    def lines() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if "could not connect: " in record.getMessage()
        ]

    if expected.broker:
        await until(lines)
        assert len(lines()) == 1, lines()
        assert expected.broker in lines()[0]
    assert "secret" not in caplog.text + str(error)


NOT_TRUSTED = Mistake(
    "the broker's certificate was not issued by an authority that this side trusts",
    "set ssl.trustStore to a file with the certificate of its issuer",
    "the client does not trust the issuer of the broker's certificate",
)


async def test_an_expired_certificate(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker(key_store=files.issue(expired=True)) as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}",
            Mistake(
                "the broker's certificate has expired",
                "",
                "the client refused the broker's certificate: it has expired",
            ),
            caplog,
        )


async def test_a_certificate_that_is_not_valid_yet(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker(key_store=files.issue(not_yet=True)) as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}",
            Mistake(
                "the broker's certificate is not valid yet",
                "",
                "the client refused the broker's certificate",
            ),
            caplog,
        )


async def test_the_wrong_host(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker(key_store=files.issue("b.pem", "broker.example.org")) as (_, url):
        trusting = f"{url}?ssl.trustStore={files.trust}"
        await check(
            trusting,
            Mistake(
                "the broker's certificate is not for this host: Hostname mismatch",
                "socket.verifyHostName",
                "the client refused the broker's certificate",
            ),
            caplog,
        )
        for option in ("socket.verifyHostName=false", "ssl.serverName=broker.example.org"):
            async with await ConnectionFactory(f"{trusting}&{option}").create_connection():
                pass


async def test_an_authority_that_is_not_known(
    tls_broker: TlsBroker, make_files: MakeFiles, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_files("other").trust
    async with tls_broker() as (_, url):
        await check(f"{url}?ssl.trustStore={other}", NOT_TRUSTED, caplog)


async def test_the_authorities_of_the_system_do_not_know_ours(
    tls_broker: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker() as (_, url):
        await check(url, NOT_TRUSTED, caplog)


async def test_a_host_name_check_switched_off_still_checks_the_issuer(
    tls_broker: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker() as (_, url):
        await check(f"{url}?socket.verifyHostName=false", NOT_TRUSTED, caplog)


async def test_a_self_signed_certificate(
    tls_broker: TlsBroker,
    self_signed: str,
    files: CertificateFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with tls_broker(key_store=self_signed) as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}",
            Mistake(
                "the broker's certificate is self-signed and not trusted",
                "set ssl.trustStore to a file with the certificate of its issuer",
                "the client does not trust the issuer of the broker's certificate",
            ),
            caplog,
        )
        trusting = f"{url}?ssl.trustStore={self_signed}"
        async with await ConnectionFactory(trusting).create_connection():
            pass


async def test_a_plain_client_at_a_port_with_tls(
    tls_broker: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker() as (_, url):
        await check(
            url.replace("ssl:", "tcp:"),
            Mistake(
                "The peer expects TLS, which this side does not use",
                "ssl:// if it uses TLS",
                "the client does not use TLS (it must connect with ssl:// instead of tcp://)",
            ),
            caplog,
        )


async def test_a_client_with_tls_at_a_plain_port(caplog: pytest.LogCaptureFixture) -> None:
    async with EmbeddedTestBroker(BrokerService("plain", persistent=False)) as broker:
        url = (await broker.tcp_url()).replace("tcp:", "ssl:").partition("?")[0]
        await check(
            url,
            Mistake(
                "the broker does not use TLS on this port",
                "connect with tcp://",
                "The peer uses TLS, and this side does not",
            ),
            caplog,
        )


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
async def test_a_missing_client_certificate(
    tls_broker: TlsBroker,
    files: CertificateFiles,
    protocol: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = f"needClientAuth=true&ssl.trustStore={files.trust}"
    async with tls_broker(f"{options}&transport.enabledProtocols={protocol}") as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}",
            Mistake(
                "the broker requires a client certificate"
                if protocol == "TLSv1.3"
                else "the broker refused the handshake",
                "ssl.keyStore",
                "the client sent no certificate (the connector requires one (needClientAuth))",
            ),
            caplog,
        )


async def test_a_client_certificate_of_another_authority(
    tls_broker: TlsBroker,
    files: CertificateFiles,
    make_files: MakeFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    foreign = make_files("foreign").issue("client.pem", "alice.example.org")
    async with tls_broker(f"wantClientAuth=true&ssl.trustStore={files.trust}") as (_, url):
        trusting = f"{url}?ssl.trustStore={files.trust}"
        async with await ConnectionFactory(trusting).create_connection():
            pass
        await check(
            f"{trusting}&ssl.keyStore={foreign}",
            Mistake(
                "the broker does not trust the issuer of the client's certificate",
                "the connector's ssl.trustStore",
                "the client's certificate was not issued by an authority that this side trusts",
            ),
            caplog,
        )


async def test_no_version_in_common(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_broker("ssl.minimumVersion=TLSv1.3") as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}&socket.enabledProtocols=TLSv1.2",
            Mistake(
                "the two sides have no TLS version in common",
                "enabledProtocols",
                "the two sides have no TLS version in common",
            ),
            caplog,
        )


async def test_no_cipher_suite_in_common(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = (
        f"TLS_ECDHE_ECDSA_WITH_AES_{bits}_GCM_SHA{sha}" for bits, sha in ((128, 256), (256, 384))
    )
    async with tls_broker(f"transport.enabledCipherSuites={ours}") as (_, url):
        await check(
            f"{url}?ssl.trustStore={files.trust}&socket.enabledCipherSuites={theirs}",
            Mistake(
                "the broker refused the handshake",
                "cipher suite in common",
                "the two sides have no cipher suite in common",
            ),
            caplog,
        )


class TestFiles:
    """Files that cannot be used: the client's at its connect, the broker's at its start."""

    async def test_one_that_does_not_exist(self, files: CertificateFiles) -> None:
        for option in ("ssl.trustStore", "ssl.keyStore"):
            await self.refused(files, f"{option}=missing.pem", f"{option}: cannot read missing.pem")

    async def test_a_key_that_does_not_belong_to_the_certificate(
        self, files: CertificateFiles
    ) -> None:
        certificate, _ = files.issue_apart("one")
        _, key = files.issue_apart("two")
        await self.refused(
            files,
            f"ssl.keyStore={certificate}&ssl.keyFile={key}",
            "does not belong to the certificate",
        )

    async def test_a_certificate_without_its_key(self, files: CertificateFiles) -> None:
        certificate, _ = files.issue_apart("one")
        await self.refused(files, f"ssl.keyStore={certificate}", "has no private key")

    async def test_a_key_without_a_certificate(self, files: CertificateFiles) -> None:
        _, key = files.issue_apart("one")
        await self.refused(files, f"ssl.keyStore={key}", "has no certificate")

    async def test_passwords_of_keys(self, files: CertificateFiles) -> None:
        encrypted = files.encrypted("encrypted.pem", "secret")
        option = f"ssl.keyStore={encrypted}"
        await self.refused(files, option, "is encrypted, and there is no password")
        wrong = f"{option}&ssl.keyStoreKeyPassword=another-secret"
        await self.refused(files, wrong, "the password of the private key")

    async def test_a_text_that_is_not_a_certificate(self, files: CertificateFiles) -> None:
        path = files.directory / "readme.txt"
        path.write_text("nothing")
        await self.refused(files, f"ssl.trustStore={path}&wantClientAuth=true", "no certificate")

    async def test_a_java_key_store(self, files: CertificateFiles) -> None:
        path = files.directory / "broker.jks"
        path.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
        await self.refused(files, f"ssl.keyStore={path}", "is a Java key store (JKS)")

    async def refused(self, files: CertificateFiles, options: str, reason: str) -> None:
        """Both ends refuse the options with the same words."""
        for_server = options
        if "keyStore=" not in options:
            for_server = f"{options}&ssl.keyStore={files.issue()}&needClientAuth=true"
        service = BrokerService("files", persistent=False)
        connector = service.add_connector(f"ssl://127.0.0.1:0?{for_server}")
        with pytest.raises(JMSException) as caught:
            await connector.start()
        async with EmbeddedTestBroker(BrokerService("peer", persistent=False)) as broker:
            url = (await broker.tcp_url()).replace("tcp:", "ssl:").partition("?")[0]
            options = options.replace("&wantClientAuth=true", "")
            error = await told(f"{url}?{options}")
        for each in (caught.value, error):
            assert reason in each.reason
            assert "secret" not in str(each)
