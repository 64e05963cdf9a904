"""A certificate authority for tests, brokers that use its certificates, and their files."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

HOST = "localhost"


@dataclass
class CertificateFiles:
    """A certificate authority and its certificates, as PEM files in one directory."""

    directory: Path
    authority: trustme.CA

    @property
    def trust(self) -> str:
        """The file of the authority's certificate."""
        return self._write("ca.pem", self.authority.cert_pem.bytes())

    def issue(
        self,
        name: str = "broker.pem",
        *hosts: str,
        expired: bool = False,
        not_yet: bool = False,
    ) -> str:
        """Issue a certificate for `hosts` (localhost), and return the file with its key."""
        now = datetime.now(UTC)
        start, end = now - timedelta(days=2), now + timedelta(days=30)
        if expired:
            end = now - timedelta(days=1)
        if not_yet:
            start = now + timedelta(days=1)
        leaf = self.authority.issue_cert(
            *(hosts or (HOST, "127.0.0.1")), not_before=start, not_after=end
        )
        return self._write(name, leaf.private_key_and_cert_chain_pem.bytes())

    def issue_apart(self, name: str) -> tuple[str, str]:
        """Issue a certificate; return the file of the certificate and that of its key."""
        leaf = self.authority.issue_cert(HOST, "127.0.0.1")
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        return (
            self._write(f"{name}.crt", chain),
            self._write(f"{name}.key", leaf.private_key_pem.bytes()),
        )

    def encrypted(self, name: str, password: str) -> str:
        """Issue a certificate whose private key has a password, and return the file of both."""
        leaf = self.authority.issue_cert(HOST, "127.0.0.1")
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        encrypted = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
        )
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        return self._write(name, encrypted + chain)

    def pkcs12(self, name: str, password: str) -> str:
        """Issue a certificate, and return the PKCS12 file with its key and its issuers."""
        leaf = self.authority.issue_cert(HOST, "127.0.0.1")
        certificate, *chain = (
            load_pem_x509_certificate(blob.bytes()) for blob in leaf.cert_chain_pems
        )
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        content = serialize_key_and_certificates(
            b"key", key, certificate, chain, BestAvailableEncryption(password.encode())
        )
        return self._write(name, content)

    def pkcs12_trust(self, name: str, password: str) -> str:
        """Return the PKCS12 file of the authority's certificate."""
        trusted = PKCS12Certificate(
            load_pem_x509_certificate(self.authority.cert_pem.bytes()), b"authority"
        )
        encryption = BestAvailableEncryption(password.encode())
        return self._write(name, serialize_java_truststore([trusted], encryption))

    def _write(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)


MakeFiles = Callable[[str], CertificateFiles]
TlsBroker = Callable[..., AbstractAsyncContextManager[tuple[EmbeddedTestBroker, str]]]


_numbers = itertools.count(1)


@pytest.fixture
def make_files(tmp_path: Path) -> MakeFiles:
    """Makes authorities that know nothing of each other.

    No two have files of the same name: connections look for changed files once a second, and the
    next test may get a folder named like that of the last one, which pytest has removed.
    """

    def make(name: str) -> CertificateFiles:
        directory = tmp_path / f"{name}-{next(_numbers)}"
        directory.mkdir()
        return CertificateFiles(directory, trustme.CA())

    return make


@pytest.fixture
def files(make_files: MakeFiles) -> CertificateFiles:
    return make_files("certificates")


@pytest.fixture
def self_signed(files: CertificateFiles) -> str:
    """The file of a certificate for localhost that is its own issuer, with its key."""
    path = files.directory / "self-signed.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {path} -out {path}.crt"
    names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return str(path)


@pytest.fixture
def tls_broker(files: CertificateFiles) -> TlsBroker:
    """Starts a broker with one TLS connector with these options; yields it and the port's URL.

    The URL has no options yet: append `?ssl.trustStore=...`.
    """

    @asynccontextmanager
    async def start(
        options: str = "", key_store: str | None = None, scheme: str = "ssl"
    ) -> AsyncIterator[tuple[EmbeddedTestBroker, str]]:
        service = BrokerService("tls", persistent=False)
        async with EmbeddedTestBroker(service) as broker:
            connector = service.add_connector(
                f"{scheme}://127.0.0.1:0?ssl.keyStore={key_store or files.issue()}&{options}"
            )
            await connector.start()
            port = connector.connect_uri.rpartition(":")[2]
            yield broker, f"ssl://{HOST}:{port}"

    return start
