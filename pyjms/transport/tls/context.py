"""SSL contexts made from `TlsOptions`, and created again when their files change.

A certificate can be renewed while the process runs: new connections use the current files, open
ones continue. While the files do not match (the certificate has been replaced, but the key has
not), the previous context stays in use, and one log line says why.

Files are PEM, or PKCS12 with the extra `pkcs12`; which it is, is read from the file itself. Java's
own format, JKS, is refused with the command that converts it. Errors name the option and the file,
never with a password.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from pyjms.errors import ConfigurationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import install_command
from pyjms.runtime.logging import get_logger
from pyjms.transport.tls.options import PROTOCOLS, TlsOptions, openssl_ciphers, uses_tls_1_3

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

logger: Final = get_logger(__name__)

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ((?:RSA |EC |ENCRYPTED )?PRIVATE KEY)-----(.{0,100})", re.DOTALL)
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE = b"\x30"


def load_trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Let `context` trust the certificates of the trust store, or else those of the system.

    Raises:
        ConfigurationException: the file cannot be read, or has no certificate.
    """
    if options.trust_store is None:
        context.load_default_certs(_purpose(context))
        return
    path = options.trust_store
    data = _read(path, "ssl.trustStore")
    if _is_pkcs12(data, path, "ssl.trustStore"):
        content = _open_pkcs12(data, path, options.trust_store_password, "ssl.trustStorePassword")
        trusted = [entry.certificate for entry in content.additional_certs]
        if content.cert is not None:
            trusted.append(content.cert.certificate)
        found = [_pem(certificate) for certificate in trusted]
    else:
        found = _CERTIFICATE.findall(data)
    if not found:
        raise ConfigurationException(
            f"ssl.trustStore: {path} has no certificate",
            hint="it is a PEM file with the certificates of the issuers (-----BEGIN CERTIFICATE)",
        )
    try:
        context.load_verify_locations(cadata=b"\n".join(found).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationException(
            f"ssl.trustStore: a certificate of {path} is damaged: {error}"
        ) from error


def _purpose(context: ssl.SSLContext) -> ssl.Purpose:
    server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    return ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH


def load_key(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Give `context` its certificate and private key, if `options` has them.

    Raises:
        ConfigurationException: a file cannot be read, the password is wrong, or the key is not
            the certificate's.
    """
    if options.key_store is None:
        if options.key_file is not None:
            raise ConfigurationException(
                f"ssl.keyFile {options.key_file} is a key without a certificate",
                hint="give the PEM file of the certificate as ssl.keyStore",
            )
        return
    data = _read(options.key_store, "ssl.keyStore")
    if _is_pkcs12(data, options.key_store, "ssl.keyStore"):
        with _pkcs12_as_pem(data, options) as (path, password):
            context.load_cert_chain(path, password=password)
        return
    _load_pem_key(context, options, data)


def _load_pem_key(context: ssl.SSLContext, options: TlsOptions, data: bytes) -> None:
    certificate = options.key_store
    assert certificate is not None
    key_path = options.key_file or certificate
    option = "ssl.keyFile" if options.key_file else "ssl.keyStore"
    if not _CERTIFICATE.search(data):
        raise ConfigurationException(
            f"ssl.keyStore: {certificate} has no certificate (-----BEGIN CERTIFICATE-----)"
        )
    key = _KEY.search(_read(options.key_file, option) if options.key_file else data)
    if key is None:
        raise ConfigurationException(
            f"{option}: {key_path} has no private key",
            hint="" if options.key_file else "give the key's file as ssl.keyFile",
        )
    password = options.key_store_key_password or options.key_store_password
    encrypted = key[1].startswith(b"ENCRYPTED") or b"ENCRYPTED" in key[2]
    if encrypted and not password:
        raise ConfigurationException(
            f"{option}: the private key of {key_path} is encrypted, and there is no password",
            hint="give it as ssl.keyStoreKeyPassword (key_store_key_password in YAML)",
        )
    try:
        context.load_cert_chain(certificate, key_path, password or "")
    except ssl.SSLError as error:
        raise _unusable_key(error, certificate, key_path, option, encrypted) from error


def _unusable_key(
    error: ssl.SSLError, certificate: str, key_path: str, option: str, encrypted: bool
) -> ConfigurationException:
    if error.reason == "KEY_VALUES_MISMATCH":
        return ConfigurationException(
            f"{option}: the private key of {key_path} does not belong to the certificate of "
            f"{certificate}",
            hint="the own certificate comes first in its file, then those of its issuers",
        )
    if encrypted:
        return ConfigurationException(
            f"{option}: the password of the private key of {key_path} is wrong",
            hint="it is ssl.keyStoreKeyPassword, or else ssl.keyStorePassword",
        )
    why = error.reason or "its text is damaged"
    return ConfigurationException(f"{option}: {key_path} cannot be used: {why}")


def _read(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationException(
            f"{option}: cannot read {path}: {os.strerror(error.errno or 0)}",
            hint=f"relative paths begin in {Path.cwd()}",
        ) from error


def _is_pkcs12(data: bytes, path: str, option: str) -> bool:
    if data.startswith(_JKS):
        raise ConfigurationException(
            f"{option}: {path} is a Java key store (JKS), which only Java reads",
            hint=f"convert it: keytool -importkeystore -srckeystore {path} -destkeystore "
            "store.p12 -deststoretype PKCS12, then openssl pkcs12 -in store.p12 -out store.pem",
        )
    return data.startswith(_DER_SEQUENCE)


def _open_pkcs12(
    data: bytes, path: str, password: str | None, option: str
) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigurationException(
            f"{path} is a PKCS12 file, and the package cryptography is not installed",
            hint=f"{install_command('pkcs12')}, or convert the file: "
            f"openssl pkcs12 -in {path} -out store.pem",
        ) from None
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigurationException(
            f"{path} cannot be opened: {option} is {'missing' if password is None else 'wrong'}, "
            "or the file is damaged"
        ) from error


def _pem(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - an extra
    from cryptography.x509 import Certificate  # noqa: PLC0415

    assert isinstance(certificate, Certificate)
    return certificate.public_bytes(Encoding.PEM)


@contextmanager
def _pkcs12_as_pem(data: bytes, options: TlsOptions) -> Iterator[tuple[str, str]]:
    """Write certificate and key to a private file, since ssl reads only files; encrypted."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra

    path = options.key_store
    assert path is not None
    content = _open_pkcs12(data, path, options.key_store_password, "ssl.keyStorePassword")
    if content.key is None or content.cert is None:
        raise ConfigurationException(f"ssl.keyStore: {path} has no private key with a certificate")
    password = secrets.token_hex()
    key = content.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    chain = [content.cert, *content.additional_certs]
    with tempfile.TemporaryDirectory(prefix="pyjms-") as directory:
        file = Path(directory) / "key.pem"
        file.write_bytes(key + b"".join(_pem(entry.certificate) for entry in chain))
        yield str(file), password


_CHECK_PERIOD = 1.0
"""Seconds between two checks of the files."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_Fingerprint = tuple[tuple[int, int, int, int] | None, ...]


class TlsContext:
    """The context of one side, kept up to date with the files. Thread-safe."""

    def __init__(self, options: TlsOptions, *, server_side: bool) -> None:
        self.options = options
        self.server_side = server_side
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._files: _Fingerprint = ()
        self._next_check = 0.0

    async def current(self) -> ssl.SSLContext:
        """Return the context; reads changed files in a thread.

        Raises:
            ConfigurationException: the files cannot be used, and there is no previous context.
        """
        if self._context is not None and _clock.now() < self._next_check:
            return self._context
        return await to_thread.run_sync(self.load, _clock.now())

    def load(self, now: float) -> ssl.SSLContext:
        """Return the context at the time `now` (`_clock.now()`). Blocks.

        Raises:
            ConfigurationException: as for `current`.
        """
        with self._lock:
            self._next_check = now + _CHECK_PERIOD
            files = self._fingerprint()
            if self._context is not None and files == self._files:
                return self._context
            try:
                context = _new_context(self.options, self.server_side)
            except ConfigurationException as error:
                if self._context is None:
                    raise
                logger.error("The changed certificates are not used yet: %s", error)
            else:
                if self._context is not None:
                    logger.info("New connections use the changed TLS files")
                self._context = context
            self._files = files
            return self._context

    def _fingerprint(self) -> _Fingerprint:
        options = self.options
        return tuple(
            _state(path)
            for path in (options.trust_store, options.key_store, options.key_file)
            if path is not None
        )


@functools.lru_cache(maxsize=64)
def shared_context(options: TlsOptions, *, server_side: bool = False) -> TlsContext:
    """Return the context of all connections with equal options."""
    return TlsContext(options, server_side=server_side)


def _state(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    # including the time of the last status change: chmod can make a file readable
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _new_context(options: TlsOptions, server_side: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java: trust non-root issuers
    _set_versions(context, options)
    _set_verification(context, options, server_side)
    load_key(context, options)
    return context


def _set_versions(context: ssl.SSLContext, options: TlsOptions) -> None:
    suites = options.enabled_cipher_suites
    versions = [
        version
        for version in options.enabled_protocols or PROTOCOLS
        if PROTOCOLS.index(version) >= PROTOCOLS.index(options.minimum_version)
    ]
    if suites and not uses_tls_1_3(suites):
        versions = [version for version in versions if version != "TLSv1.3"]
    if suites and not openssl_ciphers(suites):
        versions = [version for version in versions if version != "TLSv1.2"]
    if not versions:
        raise ConfigurationException(
            "enabledProtocols, minimumVersion and enabledCipherSuites together exclude all TLS "
            "versions"
        )
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]
    if ciphers := openssl_ciphers(suites):
        context.set_ciphers(ciphers)


def _set_verification(context: ssl.SSLContext, options: TlsOptions, server_side: bool) -> None:
    if not server_side:
        context.check_hostname = options.verify_host_name
        context.verify_mode = ssl.CERT_REQUIRED
    elif options.need_client_auth:
        context.verify_mode = ssl.CERT_REQUIRED
    elif options.want_client_auth:
        context.verify_mode = ssl.CERT_OPTIONAL
    if context.verify_mode != ssl.CERT_NONE:
        load_trust(context, options)
