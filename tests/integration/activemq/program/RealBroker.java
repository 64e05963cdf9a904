import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.AbortSlowAckConsumerStrategy;
import org.apache.activemq.broker.region.policy.AbortSlowConsumerStrategy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;

/** ActiveMQ with its defaults (KahaDB) in a directory, on a free port: prints where it accepts connections.
    With a second argument `scheduler` it has one; with `slow` it aborts slow consumers. */
public final class RealBroker {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(new File(arguments[0]));
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.setSchedulerSupport(arguments.length > 1 && arguments[1].equals("scheduler"));
        if (arguments.length > 1 && arguments[1].equals("slow")) {
            abortSlowConsumers(broker);
        }
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString());
        broker.waitUntilStopped();
    }

    /** Consumers of `slow`, `connection`, `ack` and `idle`, each by a strategy of its own. */
    private static void abortSlowConsumers(BrokerService broker) {
        AbortSlowConsumerStrategy connection = new AbortSlowConsumerStrategy();
        connection.setAbortConnection(true);
        AbortSlowAckConsumerStrategy idle = new AbortSlowAckConsumerStrategy();
        idle.setIgnoreIdleConsumers(false);
        List<PolicyEntry> entries = new ArrayList<>();
        add(entries, "slow.>", new AbortSlowConsumerStrategy());
        add(entries, "connection.>", connection);
        add(entries, "ack.>", new AbortSlowAckConsumerStrategy());
        add(entries, "idle.>", idle);
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(entries);
        broker.setDestinationPolicy(policies);
    }

    private static void add(
            List<PolicyEntry> entries, String name, AbortSlowConsumerStrategy strategy) {
        strategy.setCheckPeriod(200);
        strategy.setMaxSlowDuration(400);
        if (strategy instanceof AbortSlowAckConsumerStrategy) {
            ((AbortSlowAckConsumerStrategy) strategy).setMaxTimeSinceLastAck(400);
        }
        for (boolean isTopic : new boolean[] {false, true}) {
            PolicyEntry entry = new PolicyEntry();
            if (isTopic) {
                entry.setTopic(name);
            } else {
                entry.setQueue(name);
            }
            entry.setSlowConsumerStrategy(strategy);
            entries.add(entry);
        }
    }
}
