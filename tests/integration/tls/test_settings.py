"""TLS by configuration alone: broker.yaml and application.yaml."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest
import yaml

from pyjms.container.factories import native_connection_factory
from pyjms.errors import ConfigurationException
from pyjms.settings import load_settings
from pyjms.transport.tls import SERVER_TLS, read_server_tls
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
        factory = native_connection_factory(application)
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
