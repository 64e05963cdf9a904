import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;

/** ActiveMQ in memory with an OpenWire and a STOMP connector: prints where it accepts connections. */
public final class StompBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("stomp");
        broker.setUseJmx(false);
        broker.setPersistent(false);
        broker.setSchedulerSupport(false);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        TransportConnector openwire = broker.addConnector("tcp://127.0.0.1:0");
        TransportConnector stomp = broker.addConnector("stomp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("stomp " + stomp.getConnectUri().getPort());
        System.out.println("openwire accepts connections at " + openwire.getConnectUri());
        while (System.in.read() >= 0) {
            continue;
        }
        broker.stop();
    }
}
