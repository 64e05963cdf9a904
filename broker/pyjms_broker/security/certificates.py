"""The distinguished name of a client's certificate, in Java's notation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["distinguished_name"]

_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "dnQualifier": "DNQ",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "serialNumber": "SERIALNUMBER",
}
"""OpenSSL's attribute names, and Java's."""
_QUOTED: Final = re.compile(r'[,+=\n<>#;\\"]|^\s|\s$|  ')


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate in the form of `ssl.SSLSocket.getpeercert`.

    The parts are in reverse order: `CN=client, O=Company, C=DE`. Source: Java X500Name.getName.
    """
    return ", ".join(
        " + ".join(f"{_KEYWORDS.get(name, name)}={_written(value)}" for name, value in part)
        for part in reversed(certificate.get("subject", ()))
    )


def _written(value: str) -> str:
    if _QUOTED.search(value) is None:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
