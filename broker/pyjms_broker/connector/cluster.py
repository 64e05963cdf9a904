"""Notification of a connector's clients about the other brokers of the network.

A client that reconnects automatically (`failover:`) gets the list of brokers in a ConnectionControl
when it connects, and each time a bridge to another broker starts or, with
`update_cluster_clients_on_remove`, ends. With `rebalance_cluster_clients`, each client gets a
different broker at the head of the list, and connects to it. (activemq-edges NW10, U8)
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger, shorten
from pyjms.transport.uri import NETWORK_SCHEMES as NETWORK
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionControl
from pyjms_broker.api.context import ClientConnection
from pyjms_broker.attribute import attribute, flag

logger = get_logger(__name__)

_MOST_BROKERS: Final = 100
"""The maximum number of listed brokers, which is also the client's; ActiveMQ has no limit."""
_LONGEST_URL: Final = 500
_LONGEST_NAME: Final = 200
_NOT_IN_A_LIST: Final = re.compile(r"[\s,()]")


@dataclass(frozen=True, kw_only=True)
class ClusterAttributes:
    """The attributes of a connector for the notification of clients."""

    update_cluster_clients: bool = flag(
        "Whether failover clients are told about brokers connected by bridges."
    )
    rebalance_cluster_clients: bool = flag(
        "Whether clients are redistributed when a broker has joined."
    )
    update_cluster_clients_on_remove: bool = flag(
        "Whether a broker is removed from the list when its last bridge has ended."
    )
    update_cluster_filter: str | None = attribute(
        None, "Names of the listed brokers: comma-separated regular expressions; null: all."
    )

    def __post_init__(self) -> None:
        """Check the filter.

        Raises:
            ConfigurationException: it has an invalid regular expression.
        """
        self.patterns()

    def patterns(self) -> list[re.Pattern[str]]:
        """Return the filter's regular expressions; empty if there is no filter."""
        parts = [part.strip() for part in (self.update_cluster_filter or "").split(",")]
        try:
            return [re.compile(part) for part in parts if part]
        except re.error as error:
            raise ConfigurationException(
                f"update_cluster_filter '{self.update_cluster_filter}' cannot be read: {error}",
                hint="write regular expressions with commas between: east-.*,west-1",
            ) from error


class ClusterClients:
    """The clients of one connector, and the brokers of which they are notified.

    Use it on the broker's event loop.

    Args:
        own_url: returns the URL of the connector, which is also in the list.
        joined: returns the brokers at the other ends of bridges, one entry per bridge.
    """

    def __init__(
        self, own_url: Callable[[], str], joined: Callable[[], Iterable[BrokerInfo]]
    ) -> None:
        self._own_url = own_url
        self._joined = joined
        self._clients: dict[ClientConnection, None] = {}
        self._others: deque[str] = deque()
        """The other brokers, in the order of the next list."""
        self._own_place = 0
        """The number of them that are listed before this broker."""
        self._bridges: Counter[str] = Counter()
        self._attributes = ClusterAttributes()
        self._patterns: list[re.Pattern[str]] = []

    @property
    def attributes(self) -> ClusterAttributes:
        """The attributes; set them before the connector starts."""
        return self._attributes

    @attributes.setter
    def attributes(self, attributes: ClusterAttributes) -> None:
        self._attributes = attributes
        self._patterns = attributes.patterns()
        if attributes.update_cluster_clients:
            for info in self._joined():
                self.broker_joined(info)

    @property
    def brokers(self) -> list[str]:
        """The URLs of the brokers, in the order of the next list."""
        others = list(self._others)
        return [*others[: self._own_place], self._own_url(), *others[self._own_place :]]

    # clients
    def client_joined(self, client: ClientConnection) -> None:
        """Notify a client of changes from now on."""
        self._clients[client] = None

    def client_left(self, client: ClientConnection) -> None:
        """Stop notifying a client. Idempotent."""
        self._clients.pop(client, None)

    def list_for(self, *, is_back: bool) -> ConnectionControl:
        """Return the list for a client that connects (`is_back`: that reconnects)."""
        control = self._next_list()
        if is_back:
            control.rebalance_connection = False
        return control

    # brokers
    def broker_joined(self, info: BrokerInfo) -> None:
        """Add a broker to which a bridge has started, and notify the clients."""
        url = info.broker_url or ""
        if not self._attributes.update_cluster_clients or not self._is_listed(info, url):
            return
        self._bridges[url] += 1
        if url in self._others or url == self._own_url():
            return
        if len(self._others) >= _MOST_BROKERS and not self._forget_one():
            logger.warning("Clients do not learn of %s: %d brokers are listed", url, _MOST_BROKERS)
            return
        self._others.append(url)
        self._tell_all()

    def broker_left(self, info: BrokerInfo, *, tell: bool = True) -> None:
        """Handle the end of a bridge to a broker, removing the broker if so configured.

        `tell`: whether to notify the clients.
        """
        url = info.broker_url or ""
        if url not in self._bridges:
            return
        self._bridges[url] -= 1
        if self._bridges[url] > 0:
            return
        del self._bridges[url]
        on_remove = self._attributes.update_cluster_clients_on_remove
        if on_remove and self._remove(url) and tell:
            self._tell_all()

    def _is_listed(self, info: BrokerInfo, url: str) -> bool:
        """Return whether a broker may be listed, checking the untrusted data it sent."""
        name = info.broker_name or ""
        if len(name) > _LONGEST_NAME:
            return False
        if self._patterns and not any(pattern.fullmatch(name) for pattern in self._patterns):
            return False
        scheme = url.partition(":")[0].lower()
        if scheme == "vm" or not url:
            return False  # it has no connector that other processes can reach
        try:
            if scheme not in NETWORK or len(url) > _LONGEST_URL or _NOT_IN_A_LIST.search(url):
                raise ConfigurationException("it is no URL of one broker")
            TransportURI.parse(url)
        except ConfigurationException as error:
            logger.warning(
                "Clients do not learn of broker %s at %s: %s",
                shorten(name, _LONGEST_NAME),
                shorten(url, _LONGEST_NAME),
                error.reason,
            )
            return False
        return True

    def _forget_one(self) -> bool:
        """Drop the oldest broker without a bridge; return whether there was one."""
        left = next((url for url in self._others if url not in self._bridges), None)
        return left is not None and self._remove(left)

    def _remove(self, url: str) -> bool:
        if url not in self._others:
            return False
        if self._others.index(url) < self._own_place:
            self._own_place -= 1
        self._others.remove(url)
        return True

    # the lists of clients
    def _tell_all(self) -> None:
        for client in list(self._clients):
            client.send_command(self._next_list())

    def _next_list(self) -> ConnectionControl:
        attributes = self._attributes
        brokers = ",".join(self.brokers) if attributes.update_cluster_clients else ""
        if attributes.rebalance_cluster_clients and attributes.update_cluster_clients:
            self._rotate()
        return ConnectionControl(
            connected_brokers=brokers,
            reconnect_to="",
            rebalance_connection=attributes.rebalance_cluster_clients,
        )

    def _rotate(self) -> None:
        """Move the first broker of the list to its end."""
        if self._own_place:
            self._others.rotate(-1)
            self._own_place -= 1
        else:
            self._own_place = len(self._others)
