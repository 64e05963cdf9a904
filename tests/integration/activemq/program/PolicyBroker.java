import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.ConstantPendingMessageLimitStrategy;
import org.apache.activemq.broker.region.policy.FixedCountSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.FixedSizedSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.LastImageSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.NoSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.SubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.TimedSubscriptionRecoveryPolicy;

/** ActiveMQ in memory, with policies for some names: prints where it accepts connections. */
public final class PolicyBroker {
    private static final List<PolicyEntry> ENTRIES = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PolicyEntry topic = advised(new PolicyEntry());
        topic.setTopic("advised.>");
        PolicyEntry queue = advised(new PolicyEntry());
        queue.setQueue("advised.>");
        PolicyEntry bodies = advised(new PolicyEntry());
        bodies.setIncludeBodyForAdvisory(true);
        bodies.setQueue("bodies.>");
        PolicyEntry full = advised(new PolicyEntry());
        full.setQueue("full.>");
        full.setMemoryLimit(3000);
        full.setProducerFlowControl(false);
        PolicyEntry discarding = advised(new PolicyEntry());
        discarding.setTopic("discarding.>");
        ConstantPendingMessageLimitStrategy limit = new ConstantPendingMessageLimitStrategy();
        limit.setLimit(1);
        discarding.setPendingMessageLimitStrategy(limit);
        FixedCountSubscriptionRecoveryPolicy count = new FixedCountSubscriptionRecoveryPolicy();
        count.setMaximumSize(3);
        FixedSizedSubscriptionRecoveryPolicy size = new FixedSizedSubscriptionRecoveryPolicy();
        size.setMaximumSize(3500);
        TimedSubscriptionRecoveryPolicy timed = new TimedSubscriptionRecoveryPolicy();
        timed.setRecoverDuration(600);
        recovering("count.>", count);
        recovering("size.>", size);
        recovering("timed.>", timed);
        recovering("last.>", new LastImageSubscriptionRecoveryPolicy());
        recovering("none.>", new NoSubscriptionRecoveryPolicy());
        recovering("always.>", count.copy()).setAlwaysRetroactive(true);
        recovering("VirtualTopic.count.>", count.copy());
        recovering("ActiveMQ.Advisory.Producer.Queue.kept.>", count.copy());
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(ENTRIES);

        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setPersistent(false);
        broker.setUseVirtualDestSubs(true);
        broker.setDestinationPolicy(policies);
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString());
        broker.waitUntilStopped();
    }

    private static PolicyEntry advised(PolicyEntry entry) {
        entry.setSendAdvisoryIfNoConsumers(true);
        entry.setAdvisoryForDelivery(true);
        entry.setAdvisoryForConsumed(true);
        entry.setAdvisoryForDiscardingMessages(true);
        entry.setAdvisoryForSlowConsumers(true);
        entry.setAdvisoryForFastProducers(true);
        entry.setAdvisoryWhenFull(true);
        ENTRIES.add(entry);
        return entry;
    }

    private static PolicyEntry recovering(String topic, SubscriptionRecoveryPolicy policy) {
        PolicyEntry entry = new PolicyEntry();
        entry.setTopic(topic);
        entry.setSubscriptionRecoveryPolicy(policy);
        ENTRIES.add(entry);
        return entry;
    }
}
