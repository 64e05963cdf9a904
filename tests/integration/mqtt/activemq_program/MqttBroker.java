import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;

/** ActiveMQ in memory with an MQTT connector: prints where it accepts connections. */
public final class MqttBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("mqtt");
        broker.setUseJmx(false);
        broker.setPersistent(false);
        broker.setSchedulerSupport(false);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        TransportConnector mqtt = broker.addConnector("mqtt://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("mqtt " + mqtt.getConnectUri().getPort());
        while (System.in.read() >= 0) {
            continue;
        }
        broker.stop();
    }
}
