"""A certificate authority for tests, brokers that use its certificates, and their files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

HOST = "localhost"


@dataclass
class CertificateFiles:
    """An authority of its own, and what it issues, as PEM files in one directory."""

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

    def _write(self, name: str, content: bytes) -> str:
        path = self.directory / name
        path.write_bytes(content)
        return str(path)


MakeFiles = Callable[[str], CertificateFiles]
TlsBroker = Callable[..., AbstractAsyncContextManager[tuple[EmbeddedTestBroker, str]]]


@pytest.fixture
def make_files(tmp_path: Path) -> MakeFiles:
    """Makes authorities that know nothing of each other."""

    def make(name: str) -> CertificateFiles:
        directory = tmp_path / name
        directory.mkdir()
        return CertificateFiles(directory, trustme.CA())

    return make


@pytest.fixture
def files(make_files: MakeFiles) -> CertificateFiles:
    return make_files("certificates")


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
