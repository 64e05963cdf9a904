from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import ConfigurationException, JMSException, UnsupportedOperationException
from pyjms.transport import registry
from pyjms.transport.failover import FailoverTransport
from pyjms.transport.mock import MockTransport, find, mock_transport
from pyjms.transport.openwire.correlator import ResponseCorrelator
from pyjms.transport.openwire.factory import InactivityMonitor
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.registry import UNSUPPORTED, create_transport, known_schemes
from pyjms.transport.tcp import TcpTransport
from pyjms.transport.uri import TransportURI


@pytest.mark.parametrize("scheme", ["tcp", "nio", "auto", "auto+nio"])
@pytest.mark.fact("activemq-edges U4")
def test_the_filters_in_their_order(scheme: str) -> None:
    correlator = create_transport(f"{scheme}://h:1")
    assert isinstance(correlator, ResponseCorrelator)
    negotiator = correlator.next
    assert isinstance(negotiator, WireFormatNegotiator)
    monitor = negotiator.next
    assert isinstance(monitor, InactivityMonitor)
    assert isinstance(monitor.next, TcpTransport)
    assert correlator.remote_address == "tcp://h:1"


def test_the_inactivity_monitor_can_be_left_out() -> None:
    correlator = create_transport("tcp://h:1?useInactivityMonitor=false")
    assert isinstance(correlator, ResponseCorrelator)
    assert isinstance(correlator.next, WireFormatNegotiator)
    assert isinstance(correlator.next.next, TcpTransport)


def test_mock_is_found_by_its_name() -> None:
    transport = create_transport("mock://orders")
    assert isinstance(transport, ResponseCorrelator)
    assert transport.next is find("orders")
    assert isinstance(find("orders"), MockTransport)


@pytest.mark.parametrize("url", ["localhost:61616", "localhost://a:1"])
def test_an_unknown_scheme_is_named_and_the_known_ones_listed(url: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        create_transport(url)
    assert caught.value.reason == (
        "Could not create Transport. Reason: Transport scheme NOT recognized: [localhost]"
    )
    assert "tcp" in caught.value.hint
    assert "mock" in caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "failover:(tcp://a:1,tcp://b:2)",
        "failover://tcp://a:1",
        "failover:tcp://a:1,tcp://b:2",
        "static:(tcp://a:1)",
        "discovery:(static:(tcp://a:1,tcp://b:2))?maxReconnectAttempts=3",
        "failover:(failover:(mock://a),mock://b)",
    ],
)
def test_transports_made_of_others(url: str) -> None:
    assert isinstance(create_transport(url), FailoverTransport)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("failover:(tcp://a)", "names no port"),
        ("failover:(tcp://a:1)?randomise=false", "did you mean 'randomize'"),
        ("failover:(tcp://a:1)?nested.keepAlife=true", "did you mean 'keepAlive'"),
        ("failover:(tcp://a:1)?timeout=soon", "write a whole number"),
        ("failover:(tcp://a:1)?updateURIsURL=ftp://h/brokers", "name a file"),
        ("failover:()", "names no broker"),
        ("discovery:(multicast://10.0.0.1)", "10.0.0.1 is not a multicast address"),
        ("discovery:(tcp://a:1)", "or use the agent multicast"),
        ("static:(tcp://a:1)?maxReconnectDelai=1", "did you mean 'maxReconnectDelay'"),
    ],
)
@pytest.mark.fact("activemq-edges 11.15")
def test_mistakes_in_urls_made_of_others_are_named(url: str, named: str) -> None:
    with pytest.raises(JMSException) as caught:
        ConnectionFactory(url)
        create_transport(url)
    assert named in str(caught.value)


@pytest.mark.parametrize("scheme", UNSUPPORTED)
@pytest.mark.parametrize(
    ("parse", "url"),
    [
        (create_transport, "{}://a:1"),
        (ConnectionFactory, "{}://a:1"),
        (ConnectionFactory, "failover:(tcp://a:1,{}://b:2)"),
    ],
)
@pytest.mark.fact("activemq-edges 1.1/udp/multicast", "activemq-edges 1.1/http")
def test_schemes_that_are_refused_say_why_and_what_to_use_instead(
    scheme: str, url: str, parse: Callable[[str], object]
) -> None:
    with pytest.raises(UnsupportedOperationException) as caught:
        parse(url.format(scheme))
    assert caught.value.reason.endswith(f"{scheme}: is not supported: {UNSUPPORTED[scheme].reason}")
    assert caught.value.hint.startswith("use ")


@pytest.mark.parametrize("scheme", ["ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"])
@pytest.mark.fact("activemq-edges U2")
def test_tls_has_the_same_filters(scheme: str) -> None:
    correlator = create_transport(f"{scheme}://h:1")
    assert isinstance(correlator, ResponseCorrelator)
    assert isinstance(correlator.next, WireFormatNegotiator)
    assert correlator.remote_address == "ssl://h:1"


@pytest.mark.parametrize("url", ["tcp://localhost", "tcp://:61616", "tcp://localhost:0"])
def test_a_client_needs_host_and_port(url: str) -> None:
    with pytest.raises(ConfigurationException, match=r"names no (host|port)"):
        create_transport(url)


def test_a_scheme_can_be_registered() -> None:
    registry.register("mine", mock_transport)
    assert isinstance(create_transport("mine://x"), ResponseCorrelator)
    assert "mine" in known_schemes()
    assert create_transport(TransportURI("mine", "y")).remote_address == "mock://y"
    registry.register("mine", None)
    assert "mine" not in known_schemes()


def test_a_client_of_a_tcp_broker_loads_neither_tls_nor_failover() -> None:
    code = (
        "import sys\n"
        "from pyjms import ConnectionFactory, JmsTemplate\n"
        "JmsTemplate(ConnectionFactory('tcp://localhost:61616'))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('pyjms.transport.')))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert "pyjms.transport.registry" in loaded
    assert [name for name in loaded if ".tls" in name or ".failover" in name] == []
