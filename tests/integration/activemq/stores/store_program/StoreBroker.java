import java.io.File;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.PersistenceAdapter;
import org.apache.activemq.store.kahadb.FilteredKahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.MultiKahaDBPersistenceAdapter;

/**
 * ActiveMQ on a KahaDB folder, or on an mKahaDB folder of three filters; prints where it accepts
 * connections, stops cleanly when its input ends.
 */
public final class StoreBroker {
    private static KahaDBPersistenceAdapter single(int segment) {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setJournalMaxFileLength(segment);
        store.setCleanupInterval(500);
        store.setCheckpointInterval(200);
        return store;
    }

    private static FilteredKahaDBPersistenceAdapter filtered(String queue, int segment) {
        FilteredKahaDBPersistenceAdapter filter = new FilteredKahaDBPersistenceAdapter();
        KahaDBPersistenceAdapter store = single(segment);
        store.setUseLock(false); // the lock of the folder above is enough; its own would wait for ever
        filter.setPersistenceAdapter(store);
        if (queue != null) {
            filter.setQueue(queue);
        }
        return filter;
    }

    private static PersistenceAdapter multi(File folder, int segment) {
        MultiKahaDBPersistenceAdapter store = new MultiKahaDBPersistenceAdapter();
        store.setDirectory(folder); // the filters' folders are below it from now on
        store.setFilteredPersistenceAdapters(List.of(
                filtered("ledger.xa.>", segment),
                filtered("ledger.>", segment),
                filtered(null, segment)));
        return store;
    }

    public static void main(String[] arguments) throws Exception {
        int segment = Integer.parseInt(arguments[1]);
        File folder = new File(arguments[0]);
        PersistenceAdapter store = arguments.length > 2 ? multi(folder, segment) : single(segment);
        store.setDirectory(folder);
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
