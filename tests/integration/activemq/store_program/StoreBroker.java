import java.io.File;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/** ActiveMQ on a KahaDB folder; prints where it accepts connections, stops cleanly when its input ends. */
public final class StoreBroker {
    public static void main(String[] arguments) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(arguments[0]));
        store.setJournalMaxFileLength(Integer.parseInt(arguments[1]));
        store.setCleanupInterval(500);
        store.setCheckpointInterval(200);
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setSchedulerSupport(false);
        broker.setDataDirectoryFile(new File(arguments[0]).getParentFile());
        broker.setPersistenceAdapter(store);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString());
        while (System.in.read() >= 0) {
        }
        broker.stop();
        broker.waitUntilStopped();
        System.out.println("stopped");
        System.exit(0);
    }
}
