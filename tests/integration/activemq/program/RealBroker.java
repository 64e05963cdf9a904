import java.io.File;
import org.apache.activemq.broker.BrokerService;

/** ActiveMQ with its defaults (KahaDB) in a directory, on a free port: prints where it accepts connections.
    With a second argument `scheduler` it has one. */
public final class RealBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(new File(arguments[0]));
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.setSchedulerSupport(arguments.length > 1 && arguments[1].equals("scheduler"));
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString());
        broker.waitUntilStopped();
    }
}
