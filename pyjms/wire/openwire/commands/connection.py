"""Commands that describe brokers, connections and sessions."""

from __future__ import annotations

from typing import ClassVar

from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, Field
from pyjms.wire.openwire.commands.ids import (
    BrokerId,
    ConnectionId,
    SessionId,
)

__all__ = [
    "BrokerInfo",
    "ConnectionInfo",
    "SessionInfo",
]


class BrokerInfo(BaseCommand):
    """Describes a broker; a network bridge sends it to introduce itself."""

    # generated: BrokerInfo
    # fmt: off
    __slots__ = (
        "broker_id", "broker_name", "broker_upload_url", "broker_url", "connection_id",
        "duplex_connection", "fault_tolerant_configuration", "master_broker",
        "network_connection", "network_properties", "peer_broker_infos", "slave_broker",
    )
    TYPE: ClassVar[int] = 2
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.CACHED, 1, "BrokerId"),
        Field("broker_url", kinds.STRING, 1),
        Field("peer_broker_infos", kinds.ARRAY, 1, "BrokerInfo"),
        Field("broker_name", kinds.STRING, 1), Field("slave_broker", kinds.BOOLEAN, 1),
        Field("master_broker", kinds.BOOLEAN, 1),
        Field("fault_tolerant_configuration", kinds.BOOLEAN, 1),
        Field("duplex_connection", kinds.BOOLEAN, 2),
        Field("network_connection", kinds.BOOLEAN, 2), Field("connection_id", kinds.LONG, 2),
        Field("broker_upload_url", kinds.STRING, 3),
        Field("network_properties", kinds.STRING, 3),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_url: str | None = None,
        peer_broker_infos: list[BrokerInfo | None] | None = None,
        broker_name: str | None = None, slave_broker: bool = False, master_broker: bool = False,
        fault_tolerant_configuration: bool = False, duplex_connection: bool = False,
        network_connection: bool = False, connection_id: int = 0,
        broker_upload_url: str | None = None, network_properties: str | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_url = broker_url
        self.peer_broker_infos = peer_broker_infos
        self.broker_name = broker_name
        self.slave_broker = slave_broker
        self.master_broker = master_broker
        self.fault_tolerant_configuration = fault_tolerant_configuration
        self.duplex_connection = duplex_connection
        self.network_connection = network_connection
        self.connection_id = connection_id
        self.broker_upload_url = broker_upload_url
        self.network_properties = network_properties
    # fmt: on
    # end generated


class ConnectionInfo(BaseCommand):
    """Opens a connection, with its ids and credentials."""

    # generated: ConnectionInfo
    # fmt: off
    __slots__ = (
        "broker_master_connector", "broker_path", "client_id", "client_ip", "client_master",
        "connection_id", "failover_reconnect", "fault_tolerant", "manageable", "password",
        "user_name",
    )
    TYPE: ClassVar[int] = 3
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("client_id", kinds.STRING, 1), Field("password", kinds.STRING, 1),
        Field("user_name", kinds.STRING, 1), Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("broker_master_connector", kinds.BOOLEAN, 1),
        Field("manageable", kinds.BOOLEAN, 1), Field("client_master", kinds.BOOLEAN, 2),
        Field("fault_tolerant", kinds.BOOLEAN, 6),
        Field("failover_reconnect", kinds.BOOLEAN, 6), Field("client_ip", kinds.STRING, 8),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, client_id: str | None = None,
        password: str | None = None, user_name: str | None = None,
        broker_path: list[BrokerId | None] | None = None, broker_master_connector: bool = False,
        manageable: bool = False, client_master: bool = True, fault_tolerant: bool = False,
        failover_reconnect: bool = False, client_ip: str | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.client_id = client_id
        self.password = password
        self.user_name = user_name
        self.broker_path = broker_path
        self.broker_master_connector = broker_master_connector
        self.manageable = manageable
        self.client_master = client_master
        self.fault_tolerant = fault_tolerant
        self.failover_reconnect = failover_reconnect
        self.client_ip = client_ip
    # fmt: on
    # end generated


class SessionInfo(BaseCommand):
    """Opens a session."""

    # generated: SessionInfo
    # fmt: off
    __slots__ = ("session_id",)
    TYPE: ClassVar[int] = 4
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("session_id", kinds.CACHED, 1, "SessionId"),
    )

    def __init__(
        self, session_id: SessionId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.session_id = session_id
    # fmt: on
    # end generated
