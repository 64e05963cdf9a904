"""TLS by configuration alone: broker.yaml and application.yaml."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import astuple
from pathlib import Path

import anyio
import pytest
import yaml
from anyio.streams.tls import TLSAttribute

from pyjms.app.objects import make_client_factory
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException, JMSException
from pyjms.settings import load_settings
from pyjms.transport.tls import SERVER_TLS, read_client_tls, read_server_tls
from pyjms.transport.uri import TransportURI
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.tls import CertificateFiles

PASSWORD = "secret&=%+?#/ü"


def written(path: Path, tree: object) -> Path:
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return path


async def test_both_files_with_client_certificates(
    files: CertificateFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connector = {
        "uri": "ssl://127.0.0.1:0",
        "tls": {
            "key_store": files.pkcs12("broker.p12", PASSWORD),
            "key_store_password": PASSWORD,
            "trust_store": files.trust,
            "need_client_auth": True,
        },
    }
    tree = {"broker_name": "tls", "persistent": False, "connectors": [connector]}
    settings = load_broker_settings(written(tmp_path / "broker.yaml", tree))
    service = BrokerService.from_settings(settings)
    async with EmbeddedTestBroker(service):
        url = service.connectors[0].connect_uri.replace("127.0.0.1", "localhost")
        tls = {
            "trust_store": files.trust,
            "key_store": files.encrypted("client.pem", PASSWORD),
            "key_store_key_password": PASSWORD,
        }
        tree = {"activemq": {"broker_url": url, "tls": tls}}
        application = load_settings(written(tmp_path / "application.yaml", tree), environ={})
        factory = make_client_factory(application.activemq)
        async with await factory.create_connection() as connection:
            await connection.start()
    assert "secret" not in f"{factory!r} {factory.uri} {settings!r} {application!r} {caplog.text}"


_VALUES: dict[str, object] = {
    "trust_store": "ca.pem",
    "trust_store_password": "a",
    "key_store": "b.pem",
    "key_store_password": "b",
    "key_store_key_password": "c",
    "key_file": "b.key",
    "minimum_version": "TLSv1.3",
    "enabled_protocols": ["TLSv1.2"],
    "enabled_cipher_suites": ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
    "need_client_auth": True,
    "want_client_auth": True,
}


def test_every_option_of_connectors_has_its_key() -> None:
    assert {attribute for attribute, _ in SERVER_TLS.values()} == {*_VALUES}


@pytest.mark.parametrize("key", _VALUES)
def test_a_key_of_a_connector_has_an_effect(key: str, tmp_path: Path) -> None:
    def options(tls: dict[str, object]) -> object:
        tree = {"connectors": [{"uri": "ssl://127.0.0.1:0", "tls": tls}]}
        settings = load_broker_settings(written(tmp_path / "broker.yaml", tree))
        return astuple(read_server_tls(settings.connectors[0].transport_uri())[0])

    others: dict[str, object] = {"key_store": "k.pem", "trust_store": "t.pem"}
    assert options({**others, key: _VALUES[key]}) != options(others)


@pytest.mark.parametrize("scheme", ["tcp", "nio", "auto"])
def test_a_certificate_for_a_connector_without_encryption_is_refused(
    scheme: str, tmp_path: Path
) -> None:
    tree = {"connectors": [{"uri": f"{scheme}://127.0.0.1:0", "tls": {"key_store": "k.pem"}}]}
    with pytest.raises(ConfigurationException, match="uri is not encrypted"):
        load_broker_settings(written(tmp_path / "broker.yaml", tree))


@pytest.mark.parametrize("password", ["a,b", ",", "a,tcp://h:1", "a)b(c", "a&b=c?d", PASSWORD])
def test_a_password_with_commas_reaches_each_broker_of_a_failover_url(
    password: str, tmp_path: Path
) -> None:
    tls = {"key_store": "client.pem", "key_store_password": password}
    tree = {"activemq": {"broker_url": "failover:(ssl://a:1,ssl://b:2)?timeout=5", "tls": tls}}
    settings = load_settings(written(tmp_path / "application.yaml", tree), environ={})
    uri = make_client_factory(settings.activemq).uri
    assert [broker.host for broker in uri.components] == ["a", "b"]
    for broker in uri.components:
        assert read_client_tls(broker).key_store_password == password
    assert uri.options["nested.ssl.keyStorePassword"] == password
    assert uri.options["timeout"] == "5"


async def test_a_broker_that_vm_creates_gets_the_passwords_of_its_connectors(
    files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    key_store = files.encrypted("inner.pem", PASSWORD)
    connector = TransportURI(
        "ssl",
        "127.0.0.1:0",
        {"ssl.keyStore": key_store, "ssl.keyStorePassword": PASSWORD},
    )
    broker = TransportURI("broker", "", {"persistent": "false"}, (connector,), "/inner")
    uri = TransportURI("vm", components=(broker,))
    later = TransportURI("vm", "inner", {"brokerConfig": broker.with_secrets()})
    with caplog.at_level(logging.DEBUG):
        async with (
            await ConnectionFactory(uri.with_secrets()).create_connection() as connection,
            await ConnectionFactory(later.with_secrets()).create_connection(),
        ):
            await connection.start()
    assert "secret" not in f"{caplog.text} {uri} {uri!r} {later} {later!r}"


@pytest.mark.parametrize("option", ["brokerConfig", "priorityURIs"])
def test_passwords_inside_a_value_that_is_a_url_are_hidden(option: str) -> None:
    uri = TransportURI(
        "x", "h", {option: "ssl://a:1?ssl.keyStorePassword=s3cr,ssl://b:2", "y": "1"}
    )
    assert str(uri) == f"x://h?{option}=ssl://a:1?ssl.keyStorePassword=***&y=1"


REFUSED = (OSError, anyio.BrokenResourceError, anyio.EndOfStream)


async def _handshake(url: str, context: ssl.SSLContext) -> tuple[str, str]:
    """Return the version of TLS and the cipher suite, once the broker has sent something."""
    host, port = url.removeprefix("ssl://").split("?")[0].split(":")
    async with await anyio.connect_tcp(
        host, int(port), ssl_context=context, tls_standard_compatible=False
    ) as stream:
        await stream.receive()  # TLS 1.3 refuses a client's certificate only after the handshake
        return (
            stream.extra(TLSAttribute.tls_version),
            stream.extra(TLSAttribute.cipher)[0],
        )


@pytest.fixture
def handshake(files: CertificateFiles, tmp_path: Path) -> Callable[..., Awaitable[tuple[str, str]]]:
    """Connects to a broker with these keys of `tls`, with TLS up to a version."""

    async def connect(
        highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        certificate: str | None = None,
        **tls: object,
    ) -> tuple[str, str]:
        tls.setdefault("key_store", files.issue())
        tree = {"persistent": False, "connectors": [{"uri": "ssl://127.0.0.1:0", "tls": tls}]}
        settings = load_broker_settings(written(tmp_path / "broker.yaml", tree), environ={})
        async with BrokerService.from_settings(settings) as service:
            context = ssl.create_default_context(cafile=files.trust)
            context.maximum_version = highest
            if certificate is not None:
                context.load_cert_chain(certificate)
            return await _handshake(service.connectors[0].connect_uri, context)

    return connect


async def test_the_versions_and_cipher_suites_of_a_connector(
    handshake: Callable[..., Awaitable[tuple[str, str]]],
) -> None:
    assert (await handshake())[0] == "TLSv1.3"
    assert (await handshake(enabled_protocols=["TLSv1.2"]))[0] == "TLSv1.2"
    assert (await handshake(ssl.TLSVersion.TLSv1_2))[0] == "TLSv1.2"
    with pytest.raises(REFUSED):
        await handshake(ssl.TLSVersion.TLSv1_2, minimum_version="TLSv1.3")
    for suite in ("AES_256_GCM_SHA384", "AES_128_GCM_SHA256"):
        java = f"TLS_ECDHE_ECDSA_WITH_{suite}"
        found = await handshake(ssl.TLSVersion.TLSv1_2, enabled_cipher_suites=[java])
        assert found[1].endswith(suite.replace("AES_", "AES").replace("_", "-"))


async def test_the_files_of_a_connector_and_their_passwords(
    handshake: Callable[..., Awaitable[tuple[str, str]]], files: CertificateFiles
) -> None:
    certificate, key = files.issue_apart("apart")
    assert await handshake(key_store=certificate, key_file=key)
    encrypted = files.encrypted("encrypted.pem", PASSWORD)
    assert await handshake(key_store=encrypted, key_store_key_password=PASSWORD)
    for tls in (
        {"key_store": certificate},
        {"key_store": encrypted, "key_store_key_password": "wrong"},
    ):
        with pytest.raises(JMSException):
            await handshake(**tls)


async def test_the_certificates_of_clients(
    handshake: Callable[..., Awaitable[tuple[str, str]]],
    files: CertificateFiles,
    make_files: Callable[[str], CertificateFiles],
) -> None:
    trusted = {
        "trust_store": files.pkcs12_trust("trust.p12", PASSWORD),
        "trust_store_password": PASSWORD,
    }
    ours, theirs = files.issue("client.pem"), make_files("others").issue("client.pem")
    assert await handshake(certificate=theirs, **trusted)  # nobody asks for it
    for key in ("want_client_auth", "need_client_auth"):
        assert await handshake(certificate=ours, **trusted, **{key: True})
        with pytest.raises(REFUSED):
            await handshake(certificate=theirs, **trusted, **{key: True})
    assert await handshake(**trusted, want_client_auth=True)
    with pytest.raises(REFUSED):
        await handshake(**trusted, need_client_auth=True)
    with pytest.raises(JMSException):
        await handshake(**{**trusted, "trust_store_password": "wrong"}, want_client_auth=True)
