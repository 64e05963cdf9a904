"""SSL contexts made from `TlsOptions`, and created again when their files change.

A certificate can be renewed while the process runs: new connections use the current files, open
ones continue. While the files do not match (the certificate has been replaced, but the key has
not), the previous context stays in use, and one log line says why.
"""

from __future__ import annotations

import functools
import ssl
import threading
from pathlib import Path
from typing import Final

from anyio import to_thread

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException
from pyjms.transport.tls.cipher_suites import openssl_ciphers, uses_tls_1_3
from pyjms.transport.tls.options import PROTOCOLS, TlsOptions
from pyjms.transport.tls.stores import load_key, load_trust

__all__ = ["TlsContext", "shared_context"]

logger: Final = get_logger(__name__)

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
