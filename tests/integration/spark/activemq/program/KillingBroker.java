import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.activemq.broker.Broker;
import org.apache.activemq.broker.BrokerFilter;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.ConnectionContext;
import org.apache.activemq.broker.ConsumerBrokerExchange;
import org.apache.activemq.broker.ProducerBrokerExchange;
import org.apache.activemq.broker.region.Destination;
import org.apache.activemq.broker.region.Subscription;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.Message;
import org.apache.activemq.command.MessageAck;
import org.apache.activemq.command.TransactionId;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/**
 * ActiveMQ on a data folder, whose filter kills a process group at a named commit, before it happens or after.
 * Arguments: FOLDER PORT SEGMENT_LENGTH [FLAG: the store keeps the redelivered flag]. Reads lines: arm POINT NUMBER GROUP | disarm | count QUEUE | archive | stop.
 */
public final class KillingBroker {
    private static final Map<String, String> WORK = Map.of("OUT", "partition", "PyJMS.Stage", "stage", "PyJMS.Epoch", "epoch");

    public static void main(String[] arguments) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        File data = new File(arguments[0]);
        store.setDirectory(new File(data, "kahadb"));
        store.setJournalMaxFileLength(Integer.parseInt(arguments[2]));
        store.setCleanupInterval(1000);
        store.setCheckpointInterval(500);
        store.setArchiveDataLogs(true);
        store.getLocker().setLockAcquireSleepInterval(100);
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setDataDirectoryFile(data);
        broker.setPersistenceAdapter(store);
        if (arguments.length > 3) {
            PolicyEntry all = new PolicyEntry();
            all.setPersistJMSRedelivered(true);
            PolicyMap policies = new PolicyMap();
            policies.setDefaultEntry(all);
            broker.setDestinationPolicy(policies);
        }
        Killer[] killer = new Killer[1];
        broker.setPlugins(new BrokerPlugin[] {next -> killer[0] = new Killer(next)});
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.addConnector("tcp://127.0.0.1:" + arguments[1]);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString().replace("localhost", "127.0.0.1"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
            System.out.println(answer(broker, killer[0], line.split(" ")));
        }
        broker.stop();
        broker.waitUntilStopped();
        System.exit(0);
    }

    private static String answer(BrokerService broker, Killer killer, String[] words) throws Exception {
        switch (words[0]) {
            case "arm":
                killer.arm(words[1] + " " + words[2], Integer.parseInt(words[3]), words[4]);
                return "armed";
            case "disarm":
                killer.arm("", 0, "");
                return "disarmed";
            default:
                Destination found = broker.getDestination(new ActiveMQQueue(words[1]));
                return "count " + found.getDestinationStatistics().getMessages().getCount();
        }
    }

    /** What commits are about is told by where their messages go, or that they only acknowledge. */
    private static final class Killer extends BrokerFilter {
        private final Map<TransactionId, String> work = new ConcurrentHashMap<>();
        private String point = "";
        private String group = "";
        private int left;

        private Killer(Broker next) {
            super(next);
        }

        private synchronized void arm(String point, int number, String group) {
            this.point = point;
            this.left = number;
            this.group = group;
        }

        private synchronized void at(String what) throws Exception {
            if (what.equals(point) && --left == 0) {
                point = "";
                new ProcessBuilder("kill", "-9", "--", "-" + group).start().waitFor();
                if (what.startsWith("before")) {
                    throw new IllegalStateException("killed " + what);
                }
            }
        }

        @Override
        public Subscription addConsumer(ConnectionContext context, ConsumerInfo info) throws Exception {
            Subscription made = super.addConsumer(context, info);
            if (info.getDestination().getPhysicalName().equals("IN")) {
                at("after consumer");
            }
            return made;
        }

        @Override
        public void send(ProducerBrokerExchange exchange, Message message) throws Exception {
            if (message.getTransactionId() != null) {
                work.put(message.getTransactionId(), named(message.getDestination()));
            }
            super.send(exchange, message);
        }

        private static String named(ActiveMQDestination destination) {
            return WORK.entrySet().stream().filter(e -> destination.getPhysicalName().startsWith(e.getKey()))
                    .map(Map.Entry::getValue).findFirst().orElse(destination.getPhysicalName());
        }

        @Override
        public void acknowledge(ConsumerBrokerExchange exchange, MessageAck ack) throws Exception {
            if (ack.getTransactionId() != null) {
                work.putIfAbsent(ack.getTransactionId(), "pull");
            }
            super.acknowledge(exchange, ack);
        }

        @Override
        public void commitTransaction(ConnectionContext context, TransactionId id, boolean onePhase) throws Exception {
            String what = work.remove(id);
            at("before " + what);
            super.commitTransaction(context, id, onePhase);
            at("after " + what);
        }
    }
}
