import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.Destination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/** ActiveMQ 6 on a data folder, with its defaults. Arguments: FOLDER PORT. Reads lines: count QUEUE | stop. */
public final class ActiveMQ6Broker {
    public static void main(String[] arguments) throws Exception {
        File data = new File(arguments[0]);
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(data, "kahadb"));
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setDataDirectoryFile(data);
        broker.setPersistenceAdapter(store);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.addConnector("tcp://127.0.0.1:" + arguments[1]);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString().replace("localhost", "127.0.0.1"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
            Destination found = broker.getDestination(new ActiveMQQueue(line.split(" ")[1]));
            System.out.println("count " + (found == null ? 0 : found.getDestinationStatistics().getMessages().getCount()));
        }
        broker.stop();
        broker.waitUntilStopped();
        System.exit(0);
    }
}
