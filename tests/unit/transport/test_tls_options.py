"""The options of TLS: how URLs write them, and the effect of those that need no connection."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.registry import create_transport
from pyjms.transport.tls import (
    CLIENT_TLS,
    SERVER_TLS,
    TlsContext,
    TlsOptions,
    read_client_tls,
    read_server_tls,
    with_tls,
)
from pyjms.transport.uri import TransportURI
from tests.kit.tls import CertificateFiles

_SUITE = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
_VALUES: dict[str, tuple[str, object]] = {
    "trust_store": ("t.pem", "t.pem"),
    "trust_store_password": ("a", "a"),
    "key_store": ("k.pem", "k.pem"),
    "key_store_password": ("b", "b"),
    "key_store_key_password": ("c", "c"),
    "key_file": ("f.key", "f.key"),
    "minimum_version": ("TLSv1.3", "TLSv1.3"),
    "enabled_protocols": ("TLSv1.2,TLSv1.3", ("TLSv1.2", "TLSv1.3")),
    "enabled_cipher_suites": (_SUITE, (_SUITE,)),
    "verify_host_name": ("false", False),
    "server_name": ("other", "other"),
    "need_client_auth": ("true", True),
    "want_client_auth": ("true", True),
}


@pytest.mark.parametrize("name", CLIENT_TLS)
@pytest.mark.fact("activemq-edges 1.1/ssl")
def test_options_of_clients(name: str) -> None:
    attribute = CLIENT_TLS[name][0]
    text, value = _VALUES[attribute]
    url = f"ssl://h:1?{name}={text}"
    assert getattr(read_client_tls(TransportURI.parse(url)), attribute) == value
    assert create_transport(url) is not None


@pytest.mark.parametrize("name", SERVER_TLS)
@pytest.mark.fact("activemq-edges 1.1/ssl")
def test_options_of_connectors(name: str) -> None:
    attribute = SERVER_TLS[name][0]
    text, value = _VALUES[attribute]
    needed = "&".join(f"{each}=x" for each in ("ssl.keyStore", "ssl.trustStore") if each != name)
    tls, rest = read_server_tls(TransportURI.parse(f"ssl://h:1?{needed}&{name}={text}&backlog=3"))
    assert getattr(tls, attribute) == value
    assert rest.options == {"backlog": "3"}


@pytest.mark.parametrize("scheme", ["ssl", "nio+ssl", "failover"])
def test_settings_become_options_of_the_url_unless_it_has_its_own(scheme: str) -> None:
    url = "ssl://h:1?socket.verifyHostName=true"
    uri = TransportURI.parse(
        f"failover:({url},tcp://h:2)" if scheme == "failover" else url.replace("ssl", scheme)
    )
    tls = TlsOptions(
        trust_store="ca.pem", verify_host_name=False, enabled_protocols=("TLSv1.2", "TLSv1.3")
    )
    secured = with_tls(uri, tls)
    first, *others = secured.components or (secured,)
    assert first.options == {
        "socket.verifyHostName": "true",
        "ssl.trustStore": "ca.pem",
        "socket.enabledProtocols": "TLSv1.2,TLSv1.3",
    }
    assert all(not other.options for other in others)


@pytest.mark.parametrize(
    ("url", "nested"),
    [
        ("failover:(ssl://a:1,nio+ssl://b:2)", {"nested.ssl.trustStore": "ca.pem"}),
        ("failover:(ssl://a:1)?nested.ssl.trustStore=x", {"nested.ssl.trustStore": "x"}),
        ("failover:(ssl://a:1?ssl.trustStore=x)", {}),
        ("failover:(ssl://a:1,tcp://b:2)", {}),
    ],
)
def test_brokers_announced_to_failover_get_the_settings_where_all_use_tls(
    url: str, nested: dict[str, str]
) -> None:
    secured = with_tls(TransportURI.parse(url), TlsOptions(trust_store="ca.pem"))
    assert secured.options == nested
    assert create_transport(secured) is not None


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("socket.enabledProtocols=TLSv1.1", "RFC 8996"),
        ("ssl.minimumVersion=SSLv3", "RFC 8996"),
        ("socket.enabledCipherSuites=TLS_NONE_WITH_NOTHING", "is not known to OpenSSL"),
        ("socket.enabledCipherSuites=TLS_AES_128_GCM_SHA256", "cannot choose among"),
        ("socket.verifyHostName=no", "write true or false"),
        ("ssl.trustStor=x", "did you mean 'ssl.trustStore'"),
    ],
)
def test_values_that_cannot_be_used(option: str, reason: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        create_transport(f"ssl://h:1?{option}")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "needs a certificate"),
        ("ssl.keyStore=k&needClientAuth=true", "must say whose it trusts"),
        ("ssl.keyStore=k&wantClientAuth=true", "must say whose it trusts"),
        ("ssl.keyStore=k&transport.verifyHostName=true", "is not supported"),
    ],
)
def test_connectors_that_cannot_be_secure(options: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason):
        read_server_tls(TransportURI.parse(f"ssl://h:1?{options}"))


def test_passwords_are_not_shown() -> None:
    url = "ssl://h:1?ssl.keyStorePassword=secret&ssl.keyStoreKeyPassword=secret"
    url += "&ssl.trustStorePassword=secret"
    uri = TransportURI.parse(url)
    assert "secret" not in f"{uri} {uri!r} {read_client_tls(uri)!r}"


@pytest.mark.parametrize(
    ("options", "lowest", "highest"),
    [
        (TlsOptions(), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        (
            TlsOptions(minimum_version="TLSv1.3"),
            ssl.TLSVersion.TLSv1_3,
            ssl.TLSVersion.TLSv1_3,
        ),
        (
            TlsOptions(enabled_protocols=("TLSv1.2",)),
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_2,
        ),
        (
            TlsOptions(enabled_cipher_suites=(_SUITE,)),
            ssl.TLSVersion.TLSv1_2,
            ssl.TLSVersion.TLSv1_2,
        ),
    ],
)
def test_versions(options: TlsOptions, lowest: object, highest: object) -> None:
    context = TlsContext(options, server_side=False).load(0)
    assert (context.minimum_version, context.maximum_version) == (lowest, highest)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_no_version_is_left() -> None:
    options = TlsOptions(minimum_version="TLSv1.3", enabled_protocols=("TLSv1.2",))
    with pytest.raises(ConfigurationException, match="exclude all TLS versions"):
        TlsContext(options, server_side=False).load(0)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        (_SUITE, "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_have_javas_names_or_openssls(java: str, openssl: str) -> None:
    options = TlsOptions(enabled_cipher_suites=(java,))
    context = TlsContext(options, server_side=False).load(0)
    names = {each["name"] for each in context.get_ciphers()}
    assert {name for name in names if not name.startswith("TLS_")} == {openssl}


class TestChangedFiles:
    def test_equal_files_are_read_once(self, files: CertificateFiles) -> None:
        context = TlsContext(TlsOptions(key_store=files.issue()), server_side=True)
        assert context.load(0) is context.load(5)

    def test_changed_files_are_read_again(self, files: CertificateFiles) -> None:
        context = TlsContext(TlsOptions(key_store=files.issue()), server_side=True)
        first = context.load(0)
        files.issue()
        assert context.load(5) is not first

    def test_files_that_do_not_fit_yet_keep_the_previous_ones(
        self, files: CertificateFiles, caplog: pytest.LogCaptureFixture
    ) -> None:
        certificate, key = files.issue_apart("renewed")
        context = TlsContext(TlsOptions(key_store=certificate, key_file=key), server_side=True)
        first = context.load(0)
        previous_key = Path(key).read_bytes()
        files.issue_apart("renewed")
        renewed_key = Path(key).read_bytes()
        Path(key).write_bytes(previous_key)
        assert context.load(2) is first
        assert context.load(4) is first
        assert caplog.text.count("The changed certificates are not used yet") == 1
        assert "does not belong to the certificate" in caplog.text
        Path(key).write_bytes(renewed_key)
        assert context.load(6) is not first

    def test_contents_restored_with_the_old_time_are_read_again(
        self, files: CertificateFiles
    ) -> None:
        path = Path(files.issue("restored.pem"))
        good, times = path.read_bytes(), path.stat()
        context = TlsContext(TlsOptions(key_store=str(path)), server_side=True)
        first = context.load(0)
        path.write_bytes(bytes(len(good)))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))
        assert context.load(2) is first
        path.write_bytes(good)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))
        assert context.load(4) is not first

    def test_a_certificate_that_becomes_readable_is_used(
        self, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = Path(files.issue("renewed.pem"))
        context = TlsContext(TlsOptions(key_store=str(path)), server_side=True)
        first = context.load(0)
        files.issue("renewed.pem")
        path.chmod(0)
        read_bytes = Path.read_bytes

        def as_any_user(self: Path) -> bytes:  # the administrator may read everything
            if not self.stat().st_mode & 0o400:
                raise PermissionError(13, "Permission denied", str(self))
            return read_bytes(self)

        monkeypatch.setattr(Path, "read_bytes", as_any_user)
        assert context.load(2) is first
        path.chmod(0o600)
        assert context.load(4) is not first


class TestPkcs12:
    @pytest.mark.parametrize("password", ["secret", None, "wrong"])
    def test_a_key_store(self, files: CertificateFiles, password: str | None) -> None:
        store = files.pkcs12("broker.p12", "secret")
        self.check(TlsOptions(key_store=store, key_store_password=password), password)

    @pytest.mark.parametrize("password", ["secret", None, "wrong"])
    def test_a_trust_store_of_java(self, files: CertificateFiles, password: str | None) -> None:
        store = files.pkcs12_trust("trust.p12", "secret")
        options = TlsOptions(
            trust_store=store,
            trust_store_password=password,
            key_store=files.issue(),
            need_client_auth=True,
        )
        self.check(options, password)

    def check(self, options: TlsOptions, password: str | None) -> None:
        context = TlsContext(options, server_side=True)
        if password == "secret":
            assert context.load(0) is not None
            return
        with pytest.raises(ConfigurationException) as caught:
            context.load(0)
        assert ("is missing" if password is None else "is wrong") in str(caught.value)
        assert "secret" not in str(caught.value)
