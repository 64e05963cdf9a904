"""The web server in broker.yaml (`web`)."""

from __future__ import annotations

from dataclasses import fields

from pyjms_broker.settings.plugins.groups import Groups
from pyjms_broker.settings.servers.connectors import ConnectorTlsSettings
from pyjms_broker.settings.values import Section
from pyjms_broker.web.configuration import WebAttributes, WebConfiguration

__all__ = ["WebSettings"]


class WebSettings(Section, WebAttributes):
    """The web server (`web`)."""

    parts: tuple[str, ...] | None = None
    """Parts of the web server, by name; null: all built-in parts."""
    admin_groups: Groups = frozenset({"admins"})
    """Groups whose users may view and change everything: admins,operators or a list."""
    reader_groups: Groups = frozenset()
    """Groups whose users may view everything including message bodies, but change nothing."""
    allowed_origins: tuple[str, ...] = ()
    """Other sites whose pages may send requests, such as https://hawtio.example.com."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this machine, in addition to localhost, in URLs of a broker without users."""
    tls: ConnectorTlsSettings | None = None
    """Certificate and key; null: http without encryption."""

    def build(self) -> WebConfiguration:
        """Create the configuration of the web server."""
        tls = None if self.tls is None else self.tls.options()
        names = [each.name for each in fields(WebConfiguration) if each.name != "tls"]
        return WebConfiguration(tls=tls, **{name: getattr(self, name) for name in names})
