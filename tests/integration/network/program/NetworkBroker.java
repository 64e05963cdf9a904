import java.io.File;
import java.net.URI;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.network.NetworkConnector;

/** ActiveMQ on a data folder. Arguments: FOLDER PORT [REMOTE DUPLEX: a network connector; if REMOTE is multicast://..., the broker is announced there, too]. Ends with its input. */
public final class NetworkBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("activemq");
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setDataDirectoryFile(new File(arguments[0]));
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.getSystemUsage().getJobSchedulerUsage().setLimit(1L << 30);
        broker.addConnector("tcp://127.0.0.1:" + arguments[1]);
        if (arguments.length > 2) {
            boolean isDiscovered = arguments[2].startsWith("multicast:");
            NetworkConnector network = broker.addNetworkConnector(isDiscovered ? arguments[2]
                    : "static:(" + arguments[2] + ")?initialReconnectDelay=100&useExponentialBackOff=false");
            if (isDiscovered) {
                broker.getTransportConnectors().get(0).setDiscoveryUri(new URI(arguments[2]));
            }
            network.setName("from-activemq");
            network.setDuplex(Boolean.parseBoolean(arguments[3]));
        }
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString().replace("localhost", "127.0.0.1"));
        while (System.in.read() >= 0) {
            continue;
        }
        broker.stop();
        broker.waitUntilStopped();
        System.exit(0);
    }
}
