import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;

/** ActiveMQ in memory with AMQP connectors: prints where they accept connections. */
public final class AmqpBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("amqp");
        broker.setUseJmx(false);
        broker.setPersistent(false);
        broker.setSchedulerSupport(false);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        StringBuilder ports = new StringBuilder();
        for (String transformer : new String[] {"jms", "native", "raw"}) {
            TransportConnector each = broker.addConnector(
                "amqp://127.0.0.1:0?transport.transformer=" + transformer);
            each.setName(transformer);
        }
        TransportConnector openwire = broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        for (TransportConnector each : broker.getTransportConnectors()) {
            ports.append(' ').append(each.getConnectUri().getPort());
        }
        System.out.println("amqp" + ports);
        while (System.in.read() >= 0) {
            continue;
        }
        broker.stop();
    }
}
